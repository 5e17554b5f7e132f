//! Case 84 by the Rust API: other nodes at the next Acquire, snapshots that were handed out, reasons.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hsakmt::Context;
use hsakmt::reason::Reason;
use hsakmt::system;
use hsakmt_core::driver::Errno;
use hsakmt_core::error::Error;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::manager::SetUpError;
use hsakmt_core::node::{GpuId, NodeId};
use hsakmt_kfd::sim::description::Machine;
use hsakmt_kfd::sim::embedded::{EmbeddedMachine, Space};
use hsakmt_kfd::sim::machine::{Faults, SvmMode};
use hsakmt_kfd::topology::Topology;

const PAGE: usize = 4096;
const GPUS: [GpuId; 3] = [GpuId(0xa001), GpuId(0xa102), GpuId(0xa203)];

/// The primary context on a machine with three GPUs, this test's own until dropped.
struct Bench {
    context: Context,
    machine: EmbeddedMachine,
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    fn new() -> Bench {
        static TURN: Mutex<()> = Mutex::new(());
        let alone = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let machine = Machine::preset("gfx90a", Some(3)).unwrap();
        let machine = EmbeddedMachine::new(machine, SvmMode::Machine, Space::Host).unwrap();
        let bench = Bench { context: Context::primary(), machine, _alone: alone };
        bench.context.try_open_with(|| Ok(Box::new(bench.machine.open()?))).unwrap();
        bench.context.acquire_system_properties().unwrap();
        bench
    }

    /// The kernel shows these GPUs, and the context acquires again.
    fn show(&self, gpus: &[GpuId]) -> Result<Arc<Topology>, Reason> {
        self.context.release_system_properties();
        self.machine.show(gpus).unwrap();
        self.context.try_acquire()
    }

    /// Allocates on a node: the address, and the GPU whose memory the simulated kernel took.
    fn allocate(&self, node: u32) -> (usize, GpuId) {
        let used = || self.machine.holdings().remove(0).split([',', '[', ']']).map(str::to_owned).collect::<Vec<_>>();
        let before = used();
        let start = self.context.allocate(NodeId(node), PAGE, MemFlags::NON_PAGED).unwrap();
        let after = used();
        // "in use: VRAM [", then one number for each GPU.
        let gpu = before.iter().zip(&after).skip(1).position(|(before, after)| before != after);
        (start, GPUS[gpu.expect("some GPU has less left")])
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        while self.context.close().is_ok() {}
        self.context.release_system_properties();
    }
}

fn ids(topology: &Topology) -> Vec<u32> {
    topology.nodes.iter().map(|node| node.gpu_id).collect()
}

#[test]
fn case_84_every_verb_goes_by_the_table_of_the_last_acquire() {
    let bench = Bench::new();
    let old = system::snapshot().unwrap();
    assert_eq!(ids(&old), [0, 0xa001, 0xa102, 0xa203]);
    for gpus in [&[GPUS[0], GPUS[2]][..], &[GPUS[2], GPUS[1], GPUS[0]], &GPUS] {
        let topology = bench.show(gpus).unwrap();
        assert!(Arc::ptr_eq(&topology, &system::snapshot().unwrap()));
        assert!(Arc::ptr_eq(&topology, &system::opened_snapshot(bench.context).unwrap()));
        for (node, gpu) in (1..).zip(gpus) {
            assert_eq!(topology.node(NodeId(node)).unwrap().gpu(), *gpu);
            let (start, on) = bench.allocate(node);
            assert_eq!(on, *gpu, "node {node}");
            assert_eq!(bench.context.query_pointer(start, |info| info.node), Ok(NodeId(node)));
            bench.context.free(start).unwrap();
        }
    }
    assert_eq!(ids(&old), [0, 0xa001, 0xa102, 0xa203], "a snapshot that was handed out stays what it is");
}

#[test]
fn case_84_an_object_in_the_way_is_named_and_nothing_changes() {
    let bench = Bench::new();
    let (start, _) = bench.allocate(2);
    let Err(reason) = bench.show(&[GPUS[0], GPUS[2]]) else { panic!("node 2 is another GPU now") };
    let in_use = SetUpError::InUse { start, node: NodeId(2), was: GPUS[1], now: GPUS[2] };
    assert!(matches!(reason, Reason::SetUp(error) if error == in_use), "{reason}");
    assert_eq!(reason.error(), Error::Failed);
    assert!(reason.to_string().contains(&format!("the object at {start:#x}")), "{reason}");
    // No snapshot stands, as after any Release; the verbs go by the old table.
    assert!(system::snapshot().is_none());
    assert_eq!(system::opened_snapshot(bench.context).err(), Some(Error::InvalidNode));
    assert_eq!(bench.context.query_pointer(start, |info| info.node), Ok(NodeId(2)));
    assert_eq!(bench.context.free(start), Ok(()));
    assert_eq!(ids(&bench.context.try_acquire().unwrap()), [0, 0xa001, 0xa203]);
    assert_eq!(bench.allocate(2).1, GPUS[2]);
}

#[test]
fn a_topology_that_has_not_changed_changes_nothing() {
    let bench = Bench::new();
    let (start, _) = bench.allocate(1);
    let generation = bench.context.generation();
    bench.show(&GPUS).unwrap();
    assert_eq!(bench.context.generation(), generation, "nothing was published");
    assert_eq!(bench.context.query_pointer(start, |info| info.node), Ok(NodeId(1)));
}

#[test]
fn a_refused_step_says_which_gpu_and_why() {
    let bench = Bench::new();
    for (fault, text) in [
        ("apertures:*=EINVAL,apertures_old:*=EIO", "AMDKFD_IOC_GET_PROCESS_APERTURES_NEW: error 22 (Invalid argument"),
        ("acquire_vm:2=EBUSY", "AMDKFD_IOC_ACQUIRE_VM of GPU 0xa203: error 16 (Device or resource busy"),
        ("policy:1=EIO", "AMDKFD_IOC_SET_MEMORY_POLICY of GPU 0xa001: error 5 (Input/output error"),
    ] {
        bench.machine.faults(|faults| *faults = Faults::parse(fault).unwrap());
        let Err(reason) = bench.show(&[GPUS[0], GPUS[2]]) else { panic!("{fault}") };
        assert!(reason.to_string().starts_with(text), "{fault}: {reason}");
        bench.machine.faults(|faults| *faults = Faults::default());
        bench.machine.show(&GPUS).unwrap();
        let (start, on) = bench.allocate(2);
        assert_eq!(on, GPUS[1], "the old table goes on");
        bench.context.free(start).unwrap();
    }
    // A driver of another version, and one that does not say.
    while bench.context.close().is_ok() {}
    bench.machine.faults(|faults| *faults = Faults::parse("version:1=EIO").unwrap());
    let open = || bench.context.try_open_with(|| Ok(Box::new(bench.machine.open()?)));
    let reason = open().unwrap_err();
    assert!(matches!(reason, Reason::Version(_)) && reason.error() == Error::Failed, "{reason}");
    assert!(!bench.context.is_open());
    let machine = Machine { kfd_version: (2, 3), ..Machine::preset("gfx90a", None).unwrap() };
    let machine = EmbeddedMachine::new(machine, SvmMode::Machine, Space::Host).unwrap();
    let reason = bench.context.try_open_with(|| Ok(Box::new(machine.open()?))).unwrap_err();
    assert_eq!(reason.error(), Error::DriverMismatch);
    assert!(reason.to_string().contains("version 2.3"), "{reason}");
    assert!(!bench.context.is_open());
}

#[test]
fn a_channel_that_does_not_open_keeps_its_error_number() {
    let bench = Bench::new();
    while bench.context.close().is_ok() {}
    bench.machine.faults(|faults| *faults = Faults::parse("open:1=EMFILE").unwrap());
    let reason = bench.context.try_open_with(|| Ok(Box::new(bench.machine.open()?))).unwrap_err();
    assert!(matches!(reason, Reason::Open(Errno(libc::EMFILE))), "{reason:?}");
    assert_eq!(reason.error(), Error::NotOpened);
    assert!(reason.to_string().starts_with("/dev/kfd: Too many open files (os error 24); "), "{reason}");
    if std::path::Path::new("/dev/kfd").exists() {
        println!("SKIP try_open: /dev/kfd is here and may open");
        return;
    }
    let reason = bench.context.try_open().unwrap_err();
    assert!(reason.to_string().starts_with("/dev/kfd: No such file or directory (os error 2); "), "{reason}");
    assert_eq!((reason.error(), bench.context.open()), (Error::NotOpened, Err(Error::NotOpened)));
    assert!(!bench.context.is_open());
}
