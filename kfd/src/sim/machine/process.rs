//! What one process has: [`Process`]. A record; the rules are in the files beside this one.

use std::collections::BTreeMap;

use hsakmt_core::driver::Errno;
use hsakmt_core::node::GpuId;

use super::NODEV;
use super::debug::session::{Session, Waiting};
use super::event::Events;
use super::memory::{AddressSpace, Bo};
use super::queue::Queues;
use super::svm::Ranges;
use super::tools::SmiClient;
use crate::uapi::{DEBUG_RUNTIME_STATE_ENABLED, RuntimeInfo};

/// A process's name inside the simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u64);

/// What a process has on one GPU.
#[derive(Debug, Default)]
pub(crate) struct OnGpu {
    /// Its render node was handed over (ACQUIRE_VM).
    pub(crate) acquired: bool,
    /// `va >> 16` of the scratch backing.
    pub(crate) scratch: u64,
    /// Default policy, and the range with the other one.
    pub(crate) policy: Option<(u32, u64, u64)>,
    /// Its performance counters are acquired; `true`: and have a buffer.
    pub(crate) counters: Option<bool>,
    /// What is mapped where.
    pub(crate) space: AddressSpace,
}

/// One process.
#[derive(Debug)]
pub struct Process {
    pub(crate) primary: bool,
    pub(crate) gpus: Vec<OnGpu>,
    pub(crate) bos: BTreeMap<u64, Bo>,
    pub(crate) next_handle: u32,
    pub(crate) xnack: bool,
    /// What the runtime has told.
    pub(crate) runtime: RuntimeInfo,
    /// The debugger that is attached.
    pub(crate) debugger: Option<Session>,
    /// Exceptions of the process as a whole, one bit each.
    pub(crate) exceptions: u64,
    pub(crate) waiting: Waiting,
    pub(crate) ranges: Ranges,
    pub(crate) events: Events,
    pub(crate) queues: Queues,
    /// Its openings of event streams.
    pub(crate) smi: Vec<SmiClient>,
    /// Its number and name on the host, as far as the front end said.
    pub(crate) pid: u32,
    pub(crate) name: String,
}

impl Process {
    pub(crate) fn new(primary: bool, gpus: usize) -> Process {
        Process {
            primary,
            gpus: (0..gpus).map(|_| OnGpu::default()).collect(),
            bos: BTreeMap::new(),
            next_handle: 1,
            xnack: false,
            runtime: RuntimeInfo::default(),
            debugger: None,
            exceptions: 0,
            waiting: Waiting::default(),
            ranges: Ranges::default(),
            events: Events::default(),
            queues: Queues::default(),
            smi: Vec::new(),
            pid: 0,
            name: String::new(),
        }
    }

    /// Whether a runtime is ready to be debugged.
    pub(crate) fn has_runtime(&self) -> bool {
        self.runtime.runtime_state == DEBUG_RUNTIME_STATE_ENABLED
    }

    /// The GPU at `index`, if its address space was acquired: everything else needs that first.
    pub(crate) fn bound(&mut self, index: usize) -> Result<&mut OnGpu, Errno> {
        self.gpus.get_mut(index).filter(|gpu| gpu.acquired).ok_or(NODEV)
    }

    /// A handle nobody had before. The GPU id in its upper half keeps it from being 0.
    pub(crate) fn new_handle(&mut self, gpu: GpuId) -> u64 {
        let handle = u64::from(gpu.0) << 32 | u64::from(self.next_handle);
        self.next_handle += 1;
        handle
    }
}
