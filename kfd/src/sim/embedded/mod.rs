//! The simulated machine inside this process: [`EmbeddedMachine`], and [`EmbeddedDriver`], one opened KFD on it.
//!
//! ```text
//! manager (hsakmt-core) -> KfdDriver -+-> EmbeddedSpace        (addresses: real mmaps, or only numbers)
//!                                     +-> Device -> EmbeddedKfd -> World  (the ioctls, as bytes, behind one mutex)
//! ```
//! The driver is the real one, and so are its structs and arrays; only the transport under its [`Device`] is another. The
//! same state machine as behind the supervisor answers. With [`Space::Host`] buffers have real, shared
//! memory; with [`Space::Virtual`] addresses are only numbers, so that a bench or a property test can have 100,000
//! objects. Several drivers on one machine are several processes to it: handles, IPC names and dmabufs behave so.
//!
//! `time_inside` of an [`EmbeddedDriver`] is the time spent here, for benches that want to know what the rest costs.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hsakmt_core::driver::Errno;
use hsakmt_core::node::GpuId;

use super::description::{Gpu, Machine};
pub use super::machine::KernelObject;
use super::machine::bus::{Place, Poke};
use super::machine::{Faults, MemoryId, SvmMode, World};
use super::memfd::{self, DeviceFile};
use super::sysfs::Tree;
use crate::device::{Device, RenderNode};
use crate::driver::KfdDriver;
use crate::topology::{GpuFacts, Sources, Topology, TopologyError};

mod here;
mod kfd;
mod space;

#[cfg(test)]
mod event_tests;
#[cfg(test)]
mod tests;

pub use kfd::EmbeddedKfd;
pub use space::EmbeddedSpace;

/// What addresses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Space {
    /// Real: reserved and mapped in this process.
    #[default]
    Host,
    /// Numbers: nothing is mapped, every address counts as readable, nothing may be touched.
    Virtual,
}

/// What all processes on one machine share.
#[derive(Debug)]
struct Shared {
    world: World,
    renders: Vec<OwnedFd>,
    /// What has been read of it since [`EmbeddedMachine::show`], without and with the SVM API.
    topologies: [Option<Topology>; 2],
    /// [`World::event_changes`] when the threads that wait for events were last woken.
    events_seen: u64,
}

/// A machine in this process. A forked child makes one of its own: what it inherits shows the parent's memory.
#[derive(Clone, Debug)]
pub struct EmbeddedMachine {
    shared: Arc<Mutex<Shared>>,
    /// Notified, under the lock, when an event was set or destroyed.
    events: Arc<Condvar>,
    space: Space,
}

impl EmbeddedMachine {
    /// A machine on which nothing runs yet.
    pub fn new(machine: Machine, svm: SvmMode, space: Space) -> Result<EmbeddedMachine, Errno> {
        let world = World::new(machine, svm, Faults::default());
        let node = |gpu| memfd::create(world.nonce(), DeviceFile::Render(gpu), memfd::DEVICE_BYTES);
        let renders = (0..world.machine().gpus.len()).map(node).collect::<Result<Vec<_>, _>>().map_err(errno)?;
        let shared = Shared { world, renders, topologies: [None, None], events_seen: 0 };
        Ok(EmbeddedMachine { shared: Arc::new(Mutex::new(shared)), events: Arc::new(Condvar::new()), space })
    }

    /// A preset with real addresses, as [`Machine::preset`] names them.
    pub fn preset(name: &str) -> Result<EmbeddedMachine, Errno> {
        let machine = Machine::preset(name, None).ok_or(Errno::INVAL)?;
        EmbeddedMachine::new(machine, SvmMode::Machine, Space::Host)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic inside cannot leave a call half done that anyone could still ask about.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that wait for events if an event changed.
    fn wake_waits(&self, shared: &mut Shared) {
        if std::mem::replace(&mut shared.events_seen, shared.world.event_changes) != shared.world.event_changes {
            self.events.notify_all();
        }
    }

    /// Sleeps without the lock until an event may have changed, or the deadline.
    fn sleep<'a>(&self, shared: MutexGuard<'a, Shared>, deadline: Option<Instant>) -> MutexGuard<'a, Shared> {
        match deadline {
            None => self.events.wait(shared).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                self.events.wait_timeout(shared, left).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// A process opens KFD, with the render nodes of all GPUs.
    pub fn open(&self) -> Result<EmbeddedDriver, Errno> {
        let kfd = self.open_kfd()?;
        let shared = self.lock();
        let gpus = shared.world.machine().gpus.iter().enumerate();
        let render = |(index, gpu): (usize, &Gpu)| shared.render(index).map(|render| (gpu.gpu_id, render));
        let renders = gpus.map(render).collect::<Result<_, _>>();
        drop(shared);
        Ok(KfdDriver::with_renders(Device::over(kfd), renders?))
    }

    /// A process opens KFD alone.
    pub fn open_kfd(&self) -> Result<EmbeddedKfd, Errno> {
        let mut shared = self.lock();
        if let Some(error) = shared.world.faults.strike("open") {
            return Err(error);
        }
        let nonce = shared.world.nonce();
        let file = memfd::create(nonce, DeviceFile::Kfd(0), memfd::DEVICE_BYTES).map_err(errno)?;
        let process = shared.world.open();
        shared.world.name_process(process, std::process::id(), "");
        Ok(EmbeddedKfd::new(self.clone(), process, nonce, file))
    }

    /// What the machine looks like, read once from the same files that a supervised program finds (a temporary
    /// directory). `svm_api` off hides the capability of every node.
    pub fn topology(&self, svm_api: bool) -> Result<Topology, TopologyError> {
        if let Some(known) = &self.lock().topologies[usize::from(svm_api)] {
            return Ok(known.clone());
        }
        let read = self.read_topology(svm_api)?;
        self.lock().topologies[usize::from(svm_api)] = Some(read.clone());
        Ok(read)
    }

    fn read_topology(&self, svm_api: bool) -> Result<Topology, TopologyError> {
        let machine = self.lock().world.machine().clone();
        let failed = |source| TopologyError::File { path: std::env::temp_dir(), source };
        let tree = Tree::create(&machine).map_err(failed)?;
        let facts = |minor: u32| {
            let mut shown = machine.shown();
            let (_, gpu) =
                shown.find(|(index, _)| Machine::render_minor(*index) == minor).ok_or(Errno(libc::ENOENT))?;
            Ok(Some(GpuFacts { pci_revision: gpu.revision, family_id: gpu.family, integrated: gpu.apu }))
        };
        let folder = tree.topology();
        let sources = Sources { topology: &folder, gpu: &facts, ..Sources::host(svm_api) };
        Topology::read(&sources)
    }

    /// From now on the kernel shows these GPUs and no others, in this node order: see [`Machine::show`]. What a process has
    /// stays; of a GPU that is not shown nothing can be asked. `EINVAL` for an id that is no GPU of this machine or is
    /// there twice.
    pub fn show(&self, gpus: &[GpuId]) -> Result<(), Errno> {
        let mut shared = self.lock();
        shared.world.show(gpus).map_err(|_| Errno::INVAL)?;
        shared.topologies = [None, None];
        Ok(())
    }

    /// Sets or clears the faults to inject. Besides the ioctls' verbs there are `open`, `reserve` and `mmap` (whatever
    /// is shown at reserved addresses, and host memory).
    pub fn faults<R>(&self, change: impl FnOnce(&mut Faults) -> R) -> R {
        change(&mut self.lock().world.faults)
    }

    /// Attaches to a dmabuf's memory what a graphics driver would.
    pub fn set_metadata(&self, dmabuf: BorrowedFd<'_>, metadata: &[u8]) -> Result<(), Errno> {
        let mut shared = self.lock();
        match here::device_file(dmabuf.as_raw_fd(), shared.world.nonce()) {
            Some(DeviceFile::Dmabuf(memory)) => shared.world.set_metadata(MemoryId(memory), metadata),
            _ => Err(Errno(libc::EBADF)),
        }
    }

    /// Everything the simulated kernel holds, for whatever process, as lines: for tests that compare before and after.
    pub fn holdings(&self) -> Vec<String> {
        let mut shared = self.lock();
        let lines = shared.world.holdings();
        shared.drop_pages();
        lines
    }
}

/// The memory manager's driver on an [`EmbeddedMachine`]: the one that runs on a GPU, over another transport.
pub type EmbeddedDriver = KfdDriver<EmbeddedKfd>;

impl EmbeddedDriver {
    /// The machine it runs on.
    pub fn machine(&self) -> &EmbeddedMachine {
        self.device().transport().machine()
    }

    /// Time spent in the machine and in the address space since it was opened.
    pub fn time_inside(&self) -> Duration {
        self.device().transport().time_inside() + self.space().time_inside()
    }

    /// The buffer objects the simulated kernel holds for this process, by handle.
    pub fn kernel_objects(&self) -> Vec<KernelObject> {
        self.machine().lock().world.objects(self.device().transport().process())
    }
}

impl Shared {
    /// The render node of the n-th GPU, opened once more.
    fn render(&self, index: usize) -> Result<RenderNode, Errno> {
        let file = self.renders.get(index).ok_or(Errno(libc::ENOENT))?;
        let file = file.try_clone().map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EMFILE)))?;
        // SAFETY: a memfd has no ioctl: it answers each with an error.
        Ok(unsafe { RenderNode::from_fd(file) })
    }

    /// Writes what an ioctl of the process with this KFD leads to.
    fn poke(&mut self, kfd: BorrowedFd<'_>) {
        for Poke { place, bytes } in self.world.take_pokes() {
            let (file, offset) = match place {
                Place::Device { gpu, offset } => (self.renders.get(gpu).map(AsFd::as_fd), offset),
                Place::Kfd(offset) => (Some(kfd), offset),
                Place::Host(_) => (None, 0),
            };
            let written = file.and_then(|file| rustix::io::pwrite(file, &bytes, offset).ok());
            if written != Some(bytes.len()) {
                log::warn!("{place:?} cannot be written");
            }
        }
    }

    /// Gives the pages of freed memory back to the host.
    fn drop_pages(&mut self) {
        for (gpu, offset, size) in self.world.take_freed() {
            if let Some(file) = self.renders.get(gpu) {
                memfd::drop_pages(file.as_fd(), offset, size);
            }
        }
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}
