//! The simulated machine inside this process: [`EmbeddedMachine`], and [`EmbeddedDriver`], one opened KFD on it.
//!
//! ```text
//! manager (hsakmt-core) -> EmbeddedDriver -+-> space  (addresses: real mmaps, or only numbers)
//!                                          +-> World  (the ioctls, as bytes, behind one mutex)
//! ```
//! What comes in are the memory manager's verbs; each becomes the bytes of the ioctl that the real driver would make,
//! and the same state machine as behind the supervisor answers them. With [`Space::Host`] buffers have real, shared
//! memory; with [`Space::Virtual`] addresses are only numbers, so that a bench or a property test can have 100,000
//! objects. Several drivers on one machine are several processes to it: handles, IPC names and dmabufs behave so.
//!
//! [`EmbeddedDriver::time_inside`] is the time spent here, for benches that want to know what the rest costs.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hsakmt_core::driver::Errno;
use hsakmt_core::node::GpuId;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::description::Machine;
pub use super::machine::KernelObject;
use super::machine::{Answer, Faults, MemoryId, ProcessId, SvmMode, World};
use super::memfd::{self, DeviceFile};
use super::sysfs::Tree;
use crate::device::TileConfig;
use crate::opcode::Command;
use crate::topology::{GpuFacts, Sources, Topology, TopologyError};
use crate::uapi::{self, GetAvailableMemoryArgs, GetClockCountersArgs, GetVersionArgs, SetXnackModeArgs};

mod driver;
mod here;
#[allow(unsafe_code)]
mod queues;
mod space;

#[cfg(test)]
mod tests;

use here::Here;
use space::AddressSpace;

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
}

/// A machine in this process. A forked child makes one of its own: what it inherits shows the parent's memory.
#[derive(Clone, Debug)]
pub struct EmbeddedMachine {
    shared: Arc<Mutex<Shared>>,
    space: Space,
}

impl EmbeddedMachine {
    /// A machine on which nothing runs yet.
    pub fn new(machine: Machine, svm: SvmMode, space: Space) -> Result<EmbeddedMachine, Errno> {
        let world = World::new(machine, svm, Faults::default());
        let node = |gpu| memfd::create(world.nonce(), DeviceFile::Render(gpu), memfd::DEVICE_BYTES);
        let renders = (0..world.machine().gpus.len()).map(node).collect::<Result<Vec<_>, _>>().map_err(errno)?;
        Ok(EmbeddedMachine { shared: Arc::new(Mutex::new(Shared { world, renders, topologies: [None, None] })), space })
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

    /// A process opens KFD.
    pub fn open(&self) -> Result<EmbeddedDriver, Errno> {
        let mut shared = self.lock();
        if let Some(error) = shared.world.faults.strike("open") {
            return Err(error);
        }
        let kfd = memfd::create(shared.world.nonce(), DeviceFile::Kfd(0), memfd::DEVICE_BYTES).map_err(errno)?;
        let renders = shared.renders.iter().map(OwnedFd::try_clone).collect::<Result<_, _>>();
        Ok(EmbeddedDriver {
            machine: self.clone(),
            process: AtomicU64::new(shared.world.open().0),
            nonce: shared.world.nonce(),
            kfd,
            renders: renders.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EMFILE)))?,
            space: AddressSpace::new(self.space),
            inside: AtomicU64::new(0),
        })
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

/// One opened KFD on an [`EmbeddedMachine`].
#[derive(Debug)]
pub struct EmbeddedDriver {
    machine: EmbeddedMachine,
    process: AtomicU64,
    nonce: u64,
    kfd: OwnedFd,
    renders: Vec<OwnedFd>,
    space: AddressSpace,
    /// Nanoseconds. Relaxed: a statistic, read by the thread that made the calls.
    inside: AtomicU64,
}

impl EmbeddedDriver {
    /// The machine it runs on.
    pub fn machine(&self) -> &EmbeddedMachine {
        &self.machine
    }

    /// The interface's version: major, minor.
    pub fn version(&self) -> Result<(u32, u32), Errno> {
        let mut args = GetVersionArgs::default();
        self.ioctl(Command::GetVersion, &mut args, &mut Here::new(self))?;
        Ok((args.major_version, args.minor_version))
    }

    /// Bytes of VRAM that could be allocated.
    pub fn available_memory(&self, gpu: GpuId) -> Result<u64, Errno> {
        let mut args = GetAvailableMemoryArgs { gpu_id: gpu.0, ..Default::default() };
        self.ioctl(Command::AvailableMemory, &mut args, &mut Here::new(self))?;
        Ok(args.available)
    }

    /// How textures are tiled: fills both arrays from the front.
    pub fn tile_config(&self, gpu: GpuId, tiles: &mut [u32], macro_tiles: &mut [u32]) -> Result<TileConfig, Errno> {
        let mut args = TileConfig::request(gpu, tiles, macro_tiles);
        self.ioctl(Command::GetTileConfig, &mut args, &mut Here::new(self))?;
        Ok(TileConfig::answer(&args, tiles, macro_tiles))
    }

    /// The clocks of a GPU and of the host at one moment.
    pub fn clock_counters(&self, gpu: GpuId) -> Result<GetClockCountersArgs, Errno> {
        let mut args = GetClockCountersArgs { gpu_id: gpu.0, ..Default::default() };
        self.ioctl(Command::GetClockCounters, &mut args, &mut Here::new(self))?;
        Ok(args)
    }

    /// Sets the XNACK mode, or with a negative one asks; the answer is the mode.
    pub fn xnack_mode(&self, mode: i32) -> Result<i32, Errno> {
        let mut args = SetXnackModeArgs { xnack_enabled: mode };
        self.ioctl(Command::SetXnackMode, &mut args, &mut Here::new(self))?;
        Ok(args.xnack_enabled)
    }

    /// Becomes a kernel process of its own (a secondary context).
    pub fn create_process(&self) -> Result<(), Errno> {
        self.ioctl(Command::CreateProcess, &mut (), &mut Here::new(self))
    }

    /// The descriptors it holds: what a forked child inherits and must close.
    pub fn fds(&self) -> Vec<RawFd> {
        std::iter::once(&self.kfd).chain(&self.renders).map(AsRawFd::as_raw_fd).collect()
    }

    /// Time spent in this driver since it was opened.
    pub fn time_inside(&self) -> Duration {
        Duration::from_nanos(self.inside.load(Ordering::Relaxed))
    }

    /// The buffer objects the simulated kernel holds for this process, by handle.
    pub fn kernel_objects(&self) -> Vec<KernelObject> {
        self.machine.lock().world.objects(self.id())
    }

    fn id(&self) -> ProcessId {
        ProcessId(self.process.load(Ordering::Relaxed))
    }

    /// Runs `work` on the clock.
    fn timed<R>(&self, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = work();
        self.add_time(start);
        result
    }

    fn add_time(&self, start: Instant) {
        self.inside.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// One ioctl, with the arrays its argument points to in `here`.
    fn ioctl<T>(&self, command: Command, args: &mut T, here: &mut Here<'_>) -> Result<(), Errno>
    where
        T: FromBytes + IntoBytes + Immutable,
    {
        let mut bytes = args.as_bytes().to_vec();
        let result = self.ioctl_bytes(command, &mut bytes, here);
        *args = uapi::from_caller(&bytes);
        result
    }

    fn ioctl_bytes(&self, command: Command, bytes: &mut [u8], here: &mut Here<'_>) -> Result<(), Errno> {
        self.timed(|| {
            let mut shared = self.machine.lock();
            let answer = shared.world.command(self.id(), command, bytes, here);
            shared.drop_pages();
            match answer {
                Answer::Done(result) => result,
                Answer::Rebind(process) => {
                    shared.world.close(self.id());
                    self.process.store(process.0, Ordering::Relaxed);
                    Ok(())
                }
                // Only WAIT_EVENTS sleeps, and no verb is one.
                Answer::Sleep(_) => Err(Errno(libc::EAGAIN)),
            }
        })
    }
}

impl Drop for EmbeddedDriver {
    fn drop(&mut self) {
        let mut shared = self.machine.lock();
        shared.world.close(self.id());
        shared.drop_pages();
    }
}

impl Shared {
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
