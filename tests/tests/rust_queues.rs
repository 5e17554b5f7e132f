//! Queues through the Rust API on the simulated machine: a step that is refused leaves nothing, and so does the last close.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hsakmt::Context;
use hsakmt::queues::{Priority, QueueRequest, QueueType};
use hsakmt_core::driver::Errno;
use hsakmt_core::error::Error;
use hsakmt_core::node::NodeId;
use hsakmt_kfd::sim::embedded::EmbeddedMachine;

/// The primary context on a machine of its own.
struct Bench {
    context: Context,
    machine: EmbeddedMachine,
    _alone: MutexGuard<'static, ()>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        while self.context.close().is_ok() {}
        self.context.release_system_properties();
    }
}

fn bench(preset: &str) -> Bench {
    static TURN: Mutex<()> = Mutex::new(());
    let _alone = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let machine = EmbeddedMachine::preset(preset).unwrap();
    let context = Context::primary();
    context.open_with(|| Ok(Box::new(machine.open().map_err(|_| Error::NotOpened)?))).unwrap();
    context.acquire_system_properties().unwrap();
    Bench { context, machine, _alone }
}

impl Bench {
    fn make(&self, kind: QueueType) -> Result<u64, Error> {
        let request = QueueRequest {
            node: NodeId(1),
            kind,
            percentage: 100,
            priority: Priority::NORMAL,
            ring: 0x1000,
            ring_size: 4096,
            pointers: (0x2000, 0x2008),
            event: 0,
            error_reason: 0,
        };
        // SAFETY: no simulated GPU touches a ring.
        unsafe { self.context.create_queue(&request) }.map(|made| made.id)
    }
}

#[test]
fn a_queue_that_is_refused_at_any_step_leaves_nothing() {
    for preset in ["gfx90a", "gfx942"] {
        let bench = bench(preset);
        let mut refused = 0;
        for verb in ["reserve", "mmap", "alloc", "map", "svm", "create_queue"] {
            for step in 1..=8 {
                let before = bench.machine.holdings();
                bench.machine.faults(|faults| faults.fail(verb, step, Errno::NOMEM));
                let made = bench.make(QueueType::Compute);
                let left = bench.machine.holdings();
                bench.machine.faults(|faults| *faults = Default::default());
                match made {
                    // A step that no queue comes to, or that has another way.
                    Ok(id) => bench.context.destroy_queue(id).unwrap(),
                    Err(_) => {
                        refused += 1;
                        assert_eq!(left, before, "{preset}: {verb} {step}");
                    }
                }
            }
        }
        assert!(refused >= 6, "{preset}: {refused} refusals are no test");
    }
}

#[test]
fn a_queue_ends_once_and_an_unknown_id_is_none() {
    let bench = bench("gfx90a");
    let first = bench.make(QueueType::Sdma).unwrap();
    let held = bench.machine.holdings();
    let second = bench.make(QueueType::ComputeAql).unwrap();
    assert_ne!(first, second);
    bench.machine.faults(|faults| faults.fail("destroy_queue", 1, Errno::NOMEM));
    assert_eq!(bench.context.destroy_queue(second), Err(Error::Failed), "the kernel refuses: it goes on");
    assert_eq!(bench.context.set_queue_cu_mask(second, &[1; 40]), Ok(()));
    assert_eq!(bench.context.destroy_queue(second), Ok(()));
    assert_eq!(bench.machine.holdings(), held, "the doorbells stay, all else goes");
    for id in [second, 0, u64::MAX, first + 1] {
        assert_eq!(bench.context.destroy_queue(id), Err(Error::InvalidParameter));
        assert_eq!(bench.context.set_queue_cu_mask(id, &[1]), Err(Error::InvalidParameter));
        assert_eq!(bench.context.alloc_queue_gws(id, 1), Err(Error::InvalidParameter));
        // SAFETY: no queue.
        assert_eq!(unsafe { bench.context.queue_info(id) }.err(), Some(Error::InvalidParameter));
    }
    assert_eq!(bench.context.set_queue_cu_mask(first, &[]), Err(Error::InvalidParameter));
    assert_eq!(bench.context.alloc_queue_gws(first, 1), Err(Error::NotSupported));
}

#[test]
fn the_last_close_ends_live_queues() {
    for preset in ["gfx90a", "gfx942"] {
        let bench = bench(preset);
        let ids = [QueueType::Compute, QueueType::Sdma, QueueType::ComputeAql].map(|kind| bench.make(kind).unwrap());
        bench.machine.faults(|faults| faults.fail("destroy_queue", 4, Errno::NOMEM));
        bench.context.close().unwrap();
        let fourth = bench.machine.faults(|faults| faults.strike("destroy_queue"));
        assert_eq!(fourth, Some(Errno::NOMEM), "{preset}: the close asks for three ends");
        assert_eq!(bench.context.destroy_queue(ids[0]), Err(Error::NotOpened));
    }
}

#[test]
fn doorbells_are_mapped_beside_where_they_can_be_no_object() {
    let bench = bench("gfx90a");
    // Page, end-of-pipe buffer, save area; then the doorbells.
    bench.machine.faults(|faults| faults.fail("alloc", 4, Errno::INVAL));
    let made = bench.make(QueueType::Compute).unwrap();
    let doorbells = |lines: Vec<String>| lines.iter().filter(|line| line.contains("DOORBELL")).count();
    assert_eq!(doorbells(bench.machine.holdings()), 0);
    let again = bench.make(QueueType::Compute).unwrap();
    assert_eq!(doorbells(bench.machine.holdings()), 0, "they are there");
    for id in [made, again] {
        bench.context.destroy_queue(id).unwrap();
    }
}
