//! Queues through the Rust API on the simulated machine: a step that is refused leaves nothing, and so does the last close.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hsakmt::Context;
use hsakmt::queues::{Priority, QueueRequest, QueueType};
use hsakmt_core::driver::Errno;
use hsakmt_core::error::Error;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::NodeId;
use hsakmt_kfd::sim::description::Machine;
use hsakmt_kfd::sim::embedded::{EmbeddedMachine, Space};
use hsakmt_kfd::sim::machine::SvmMode;

/// The primary context on a machine of its own.
struct Bench {
    context: Context,
    machine: EmbeddedMachine,
    /// A page that the GPU has mapped, for rings; and one for the pointers of AQL queues.
    ring: usize,
    pointers: usize,
    _alone: MutexGuard<'static, ()>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        while self.context.close().is_ok() {}
        self.context.release_system_properties();
    }
}

fn preset(name: &str) -> Machine {
    Machine::preset(name, None).unwrap()
}

fn bench(name: &str) -> Bench {
    bench_on(EmbeddedMachine::new(preset(name), SvmMode::Machine, Space::Host).unwrap())
}

fn bench_on(machine: EmbeddedMachine) -> Bench {
    static TURN: Mutex<()> = Mutex::new(());
    let _alone = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let context = Context::primary();
    context.try_open_with(|| Ok(Box::new(machine.open()?))).unwrap();
    context.acquire_system_properties().unwrap();
    let [ring, pointers] = [(); 2].map(|()| {
        let flags = MemFlags::NON_PAGED | MemFlags::HOST_ACCESS;
        let page = context.allocate(NodeId(0), PAGE, flags).unwrap();
        context.map(page, PAGE).unwrap();
        page
    });
    Bench { context, machine, ring, pointers, _alone }
}

const PAGE: usize = 4096;

impl Bench {
    fn make(&self, kind: QueueType) -> Result<u64, Error> {
        self.make_for_event(kind, 0, 0)
    }

    fn make_for_event(&self, kind: QueueType, event: u32, error_reason: u64) -> Result<u64, Error> {
        let request = QueueRequest {
            node: NodeId(1),
            kind,
            percentage: 100,
            priority: Priority::NORMAL,
            ring: self.ring as u64,
            ring_size: PAGE as u32,
            pointers: (self.pointers as u64, self.pointers as u64 + 8),
            event,
            error_reason,
        };
        // SAFETY: no simulated GPU of this process touches a ring.
        unsafe { self.context.create_queue(&request) }.map(|made| made.id)
    }

    fn stop(&self, id: u64) {
        // SAFETY: as above.
        let stopped = unsafe { self.context.update_queue(id, 0, Priority::NORMAL, self.ring as u64, PAGE as u32) };
        assert_eq!(stopped, Ok(()));
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

/// `stack, piece, debugger memory of a piece, pieces` of the context save areas, as the C library of 2025-08 computes them.
const AREAS: [(&str, u32, u32, u32, u32); 2] =
    [("gfx90a", 0x9000, 0x3c9_1000, 0x2_0000, 1), ("gfx942", 0x3000, 0x162_1000, 0xbe00, 8)];

#[test]
fn a_save_area_starts_each_piece_with_its_header() {
    for (preset, stack, piece, debugger, pieces) in AREAS {
        let bench = bench(preset);
        let (event, reason) = (7, 0x1234_5678_9abc);
        let id = bench.make_for_event(QueueType::ComputeAql, event, reason).unwrap();
        bench.stop(id);
        // SAFETY: the queue's memory is there.
        let info = unsafe { bench.context.queue_info(id) }.unwrap();
        assert_eq!((info.stack_size, info.stack_used, info.save_used), (stack, 0, 0), "{preset}");
        for number in 0..pieces {
            let header = info.area as usize + number as usize * piece as usize;
            let words: [u32; 10] = std::array::from_fn(|word| {
                let place: *const u32 = std::ptr::with_exposed_provenance(header + 4 * word);
                // SAFETY: within the save area, which the host has mapped until the queue ends.
                unsafe { place.read_volatile() }
            });
            // The kernel writes where stack and waves are, into the first piece.
            let of_kernel = if number == 0 { [stack, 0, stack, 0] } else { [0; 4] };
            let reason = [reason as u32, (reason >> 32) as u32];
            let ours = [(pieces - number) * piece, debugger * pieces, reason[0], reason[1], event, 0];
            assert_eq!((&words[..4], &words[4..]), (&of_kernel[..], &ours[..]), "{preset}, piece {number}");
        }
        bench.context.destroy_queue(id).unwrap();
    }
}

#[test]
fn information_is_of_a_stopped_compute_queue_and_has_its_mask() {
    let bench = bench("gfx90a");
    let information = |id| {
        // SAFETY: the queue's memory is there.
        unsafe { bench.context.queue_info(id) }
    };
    let [engine, id] = [QueueType::Sdma, QueueType::Compute].map(|kind| bench.make(kind).unwrap());
    assert_eq!(information(id), Err(Error::Failed), "it runs");
    bench.stop(engine);
    assert_eq!(information(engine), Err(Error::Failed), "it has no save area");
    bench.stop(id);
    // 104 compute units.
    let whole = information(id).unwrap();
    assert_eq!(whole.mask_bits, 128);
    let words = |count: usize| -> Vec<u32> {
        let word = |word: usize| std::ptr::with_exposed_provenance::<u32>(whole.mask + 4 * word);
        // SAFETY: the mask has so many words, which stay until the queue ends.
        (0..count).map(|at| unsafe { word(at).read_volatile() }).collect()
    };
    assert_eq!(words(4), [u32::MAX, u32::MAX, u32::MAX, 0xff]);
    bench.context.set_queue_cu_mask(id, &[5, 9]).unwrap();
    assert_eq!(words(2), [5, 9], "the words change with the mask");
    assert_eq!(information(id).unwrap().mask_bits, 64);
}

#[test]
fn global_wave_sync_is_refused_with_the_kernels_reasons() {
    let bench = bench("gfx90a");
    let [first, second] = [(); 2].map(|()| bench.make(QueueType::Compute).unwrap());
    assert_eq!(bench.context.alloc_queue_gws(first, 0), Err(Error::InvalidParameter), "it has none");
    assert_eq!(bench.context.alloc_queue_gws(first, 64), Ok(0));
    assert_eq!(bench.context.alloc_queue_gws(second, 64), Err(Error::OutOfResources));
    assert_eq!(bench.context.alloc_queue_gws(first, 0), Ok(0));
    assert_eq!(bench.context.alloc_queue_gws(second, 1), Ok(0));
    for (errno, error) in [
        (libc::EINVAL, Error::InvalidParameter),
        (libc::EBUSY, Error::OutOfResources),
        (libc::ENODEV, Error::NotSupported),
        (libc::ENOMEM, Error::Failed),
        (libc::EIO, Error::Failed),
    ] {
        bench.machine.faults(|faults| *faults = Default::default());
        bench.machine.faults(|faults| faults.fail("alloc_gws", 1, Errno(errno)));
        assert_eq!(bench.context.alloc_queue_gws(first, 1), Err(error), "errno {errno}");
    }
}

#[test]
fn a_copy_engine_can_be_chosen_among_those_that_there_are() {
    let bench = bench("gfx90a");
    let before = bench.machine.holdings();
    // Two for copies, three for links.
    assert_eq!(bench.make(QueueType::SdmaByEngine(5)), Err(Error::Failed));
    assert_eq!(bench.machine.holdings(), before, "a refusal leaves nothing");
    let ids = [0, 1, 2, 3, 4].map(|engine| bench.make(QueueType::SdmaByEngine(engine)).unwrap());
    for id in ids {
        bench.context.destroy_queue(id).unwrap();
    }
    // Each engine has eight queues of a kind.
    let plain: Vec<_> = (0..).map_while(|_| bench.make(QueueType::SdmaByEngine(0)).ok()).collect();
    assert_eq!(plain.len(), 16);
    bench.make(QueueType::SdmaByEngine(2)).unwrap();
    plain.into_iter().for_each(|id| bench.context.destroy_queue(id).unwrap());
}

#[test]
fn a_machine_without_memory_has_no_queues() {
    let bench = bench_on(EmbeddedMachine::new(preset("gfx90a"), SvmMode::Machine, Space::Virtual).unwrap());
    assert_eq!(bench.make(QueueType::Compute), Err(Error::NotSupported));
}
