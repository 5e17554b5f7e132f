//! The simulated kernel: [`World`], which answers the ioctls of every process on one machine.
//!
//! In: a process, a request number, the address of its argument, and the caller's memory ([`Caller`]). Out: what the
//! kernel would answer, with the kernel's own checks, and the argument written back, on errors too. Never: a panic, a
//! lock, a system call (but through `Caller`), or one process seeing another's objects by its handles.
//!
//! ```text
//! World   machine, memories (bytes with an offset), VRAM used, IPC names, faults to inject
//!  +- Process   per opened /dev/kfd: acquired GPUs, buffer objects by handle, address space per GPU,
//!               SVM ranges, events, queues
//! ```
//! A buffer object is a process's handle on a *memory*; dmabufs and IPC names are further handles on the same memory,
//! and the last one to go frees it. Files: `setup` (version, apertures, clocks), `memory` (objects and mappings),
//! `share` (dmabuf, IPC), `graphics` (render nodes), `svm`, `event`, `queue` and `queue_check`, `interrupt` (what the GPU tells the kernel), `tools`,
//! `fault`, `holdings` (all of it, for tests). [`bus`] is how the GPU reaches memory; its packets are
//! [`crate::sim::engine`]'s.
//!
//! What is simplified: handles are not used twice; userptr ranges need only be readable; of the calls that unmap memory only
//! munmap is heard of, so a shared range whose memory another call has replaced is found out late.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

use hsakmt_core::driver::{Errno, Handle};
use hsakmt_core::flags::IocFlags;
use hsakmt_core::node::GpuId;
use rustix::ioctl::Direction;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::caller::Caller;
use super::description::Machine;
use super::engine::Note;
use crate::opcode::{self, Command};
use crate::uapi;

pub mod bus;
mod debug;
pub(crate) mod event;
mod fault;
mod graphics;
mod holdings;
pub(crate) mod interrupt;
pub(crate) mod memory;
mod process;
pub(crate) mod queue;
pub(crate) mod queue_check;
mod setup;
mod share;
mod svm;
mod tools;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;

use bus::Poke;
pub use event::Wait;
pub use fault::{Faults, errno_from_name, errno_name, short_name};
pub use memory::{Memory, MemoryId};
pub use process::{Process, ProcessId};

/// The page of the simulated GPUs.
pub const PAGE: u64 = 4096;

pub(crate) const PERM: Errno = Errno(libc::EPERM);
pub(crate) const FAULT: Errno = Errno(libc::EFAULT);
pub(crate) const BUSY: Errno = Errno(libc::EBUSY);
pub(crate) const NODEV: Errno = Errno(libc::ENODEV);
pub(crate) const BADF: Errno = Errno(libc::EBADF);

/// Bytes of the largest array that the kernel copies from a caller: what kmalloc gives at most.
pub(crate) const LARGEST_ARRAY: usize = 4 << 20;

/// How the SVM ioctl behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SvmMode {
    /// As the machine says: GPUs without the capability refuse it with `EPERM`.
    #[default]
    Machine,
    /// Every attribute call is accepted, even of nothing at all.
    AcceptAll,
    /// Every call is refused with this error.
    Fail(Errno),
}

/// What an ioctl leads to.
#[derive(Debug)]
pub enum Answer {
    /// It is answered.
    Done(Result<(), Errno>),
    /// It is answered, and the system call returns a number.
    Counted(u32),
    /// The caller sleeps: ask again with the same [`Wait`] when an event was set or the time is up.
    Sleep(Wait),
    /// The opening belongs to this new process from now on.
    Rebind(ProcessId),
}

/// One buffer object as the simulated kernel knows it: for tests that compare before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelObject {
    /// Its name.
    pub handle: Handle,
    /// Its GPU address.
    pub va: u64,
    /// Bytes of GPU addresses.
    pub size: u64,
    /// What kind.
    pub flags: IocFlags,
    /// The host address of a userptr.
    pub user_address: Option<u64>,
    /// Where it is mapped, in the machine's order.
    pub mapped: Vec<GpuId>,
}

/// One ioctl, for a log.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Which.
    pub command: Command,
    /// Its argument as given.
    pub before: Vec<u8>,
    /// Its argument as answered.
    pub after: Vec<u8>,
    /// Arrays that the argument points to.
    pub lists: Vec<(&'static str, Vec<u32>)>,
}

/// Memory that nobody has any more: `(gpu, offset, size)` in the GPU's file.
pub type Freed = (usize, u64, u64);

/// One simulated machine and everything on it.
#[derive(Debug)]
pub struct World {
    pub(crate) machine: Machine,
    pub(crate) svm_mode: SvmMode,
    pub(crate) processes: HashMap<ProcessId, Process>,
    pub(crate) memories: HashMap<MemoryId, Memory>,
    pub(crate) vram: Vec<memory::Vram>,
    pub(crate) gtt_used: u64,
    pub(crate) ipc: HashMap<[u32; 4], share::Name>,
    pub(crate) next_process: u64,
    pub(crate) next_memory: u64,
    pub(crate) random: RandomState,
    pub(crate) started: Instant,
    /// Faults to inject.
    pub faults: Faults,
    /// How often some event was set or ended: a sleeping wait need not be looked at again before it changes.
    pub event_changes: u64,
    /// Whether to keep a trace of every ioctl.
    pub tracing: bool,
    /// The last ioctl, if traced.
    pub trace: Option<Trace>,
    pub(crate) lists: Vec<(&'static str, Vec<u32>)>,
    freed: Vec<Freed>,
    pub(crate) sampling: HashMap<usize, tools::Sampling>,
    /// GPU and number of each address that a debugger watches.
    pub(crate) watched: HashSet<(usize, u32)>,
    /// Host processes that a debugger has made known here before they opened the device.
    pub(crate) adopted: Vec<(u32, ProcessId)>,
    pub(crate) pokes: Vec<Poke>,
    pub(crate) notes: Vec<Note>,
    nonce: u64,
}

impl World {
    /// A machine on which nothing runs yet.
    pub fn new(machine: Machine, svm_mode: SvmMode, faults: Faults) -> World {
        let random = RandomState::new();
        let nonce = random.build_hasher().finish() >> 1;
        let vram = machine.gpus.iter().map(|_| memory::Vram::new()).collect();
        World {
            machine,
            svm_mode,
            processes: HashMap::new(),
            memories: HashMap::new(),
            vram,
            gtt_used: 0,
            ipc: HashMap::new(),
            next_process: 1,
            next_memory: 1,
            random,
            started: Instant::now(),
            faults,
            event_changes: 0,
            tracing: false,
            trace: None,
            lists: Vec::new(),
            freed: Vec::new(),
            sampling: HashMap::new(),
            watched: HashSet::new(),
            adopted: Vec::new(),
            pokes: Vec::new(),
            notes: Vec::new(),
            nonce,
        }
    }

    /// The machine it is.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// From now on the kernel shows these GPUs, in this order: see [`Machine::show`].
    pub fn show(&mut self, gpus: &[GpuId]) -> Result<(), String> {
        self.machine.show(gpus)
    }

    /// A number no other machine has.
    pub fn nonce(&self) -> u64 {
        self.nonce
    }

    /// A process begins (`open("/dev/kfd")`).
    pub fn open(&mut self) -> ProcessId {
        self.create_process(true)
    }

    fn create_process(&mut self, primary: bool) -> ProcessId {
        let id = ProcessId(self.next_process);
        self.next_process += 1;
        self.processes.insert(id, Process::new(primary, self.machine.gpus.len()));
        id
    }

    /// A process ends, mapped buffers or not.
    pub fn close(&mut self, process: ProcessId) {
        self.end_sampling(process);
        self.end_sessions_of(process);
        if let Some(process) = self.processes.remove(&process) {
            for (_, bo) in process.bos {
                self.drop_bo(bo);
            }
        }
    }

    /// What became free since the last call: its pages may be dropped.
    pub fn take_freed(&mut self) -> Vec<Freed> {
        std::mem::take(&mut self.freed)
    }

    /// What the last ioctl leads the front end to write.
    pub fn take_pokes(&mut self) -> Vec<Poke> {
        std::mem::take(&mut self.pokes)
    }

    /// What queues stopped since the last call, and why.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// The processes that the last ioctl made known here, by their number on the host.
    pub fn take_adopted(&mut self) -> Vec<(u32, ProcessId)> {
        std::mem::take(&mut self.adopted)
    }

    /// Says which process of the host it is, for what names it.
    pub fn name_process(&mut self, process: ProcessId, pid: u32, name: &str) {
        if let Some(process) = self.processes.get_mut(&process) {
            (process.pid, process.name) = (pid, name.into());
        }
    }

    /// The buffer objects of a process, by handle.
    pub fn objects(&self, process: ProcessId) -> Vec<KernelObject> {
        let Some(process) = self.processes.get(&process) else { return Vec::new() };
        let object = |(handle, bo): (&u64, &memory::Bo)| KernelObject {
            handle: Handle(*handle),
            va: bo.va,
            size: bo.size,
            flags: self.memories.get(&bo.memory).map_or(IocFlags::empty(), |memory| memory.flags),
            user_address: bo.user_address,
            mapped: (self.machine.gpus.iter().enumerate())
                .filter(|(index, _)| bo.mapped & (1 << index) != 0)
                .map(|(_, gpu)| gpu.gpu_id)
                .collect(),
        };
        process.bos.iter().map(object).collect()
    }

    /// Answers one ioctl, argument and all.
    pub fn ioctl(&mut self, process: ProcessId, request: u32, argument: u64, caller: &mut dyn Caller) -> Answer {
        // A call that no command answers leaves no trace.
        self.trace = None;
        let (_, number, given) = opcode::parts(request.into());
        let command = Command::from_number(number).filter(|command| self.knows(*command));
        let Some(command) = command else { return Answer::Done(Err(Errno::NOTTY)) };
        let mut bytes = vec![0; given.max(command.size())];
        let (of_caller, _) = bytes.split_at_mut(given);
        if matches!(command.direction(), Direction::Write | Direction::ReadWrite)
            && let Err(error) = caller.read(argument, of_caller)
        {
            return Answer::Done(Err(error));
        }
        let before = self.tracing.then(|| bytes.clone());
        let answer = self.command(process, command, &mut bytes, caller);
        self.trace = before.map(|before| {
            let lists = std::mem::take(&mut self.lists);
            Trace { command, before, after: bytes.clone(), lists }
        });
        self.write_back(command, argument, bytes.get(..given).unwrap_or(&[]), answer, caller)
    }

    /// Goes on with a sleeping wait.
    pub fn resume(&mut self, process: ProcessId, mut wait: Wait, argument: u64, caller: &mut dyn Caller) -> Answer {
        let answer = self.wait_again(process, &mut wait, caller);
        let (command, bytes) = wait.argument();
        self.write_back(command, argument, bytes, answer, caller)
    }

    /// Ends a sleeping wait with `error`, since its thread has a signal to handle: the call can be repeated.
    pub fn interrupt_wait(
        &mut self,
        process: ProcessId,
        mut wait: Wait,
        argument: u64,
        error: Errno,
        caller: &mut dyn Caller,
    ) -> Answer {
        self.wait_interrupted(process, &mut wait);
        let (command, bytes) = wait.argument();
        self.write_back(command, argument, bytes, Answer::Done(Err(error)), caller)
    }

    fn write_back(
        &mut self,
        command: Command,
        argument: u64,
        bytes: &[u8],
        answer: Answer,
        caller: &mut dyn Caller,
    ) -> Answer {
        let writes = matches!(command.direction(), Direction::Read | Direction::ReadWrite);
        match answer {
            Answer::Done(_) | Answer::Counted(_) if writes && caller.write(argument, bytes).is_err() => {
                Answer::Done(Err(FAULT))
            }
            answer => answer,
        }
    }

    /// Answers one ioctl whose argument is already here: `bytes` is at least as long as the command's struct.
    pub fn command(
        &mut self,
        process: ProcessId,
        command: Command,
        bytes: &mut [u8],
        caller: &mut dyn Caller,
    ) -> Answer {
        if !self.knows(command) {
            return Answer::Done(Err(Errno::NOTTY));
        }
        if let Some(error) = self.faults.strike(short_name(command)) {
            return Answer::Done(Err(error));
        }
        let Some(mut state) = self.processes.remove(&process) else { return Answer::Done(Err(BADF)) };
        self.pokes.clear();
        let answer = self.dispatch(process, &mut state, command, bytes, caller);
        self.processes.insert(process, state);
        answer
    }

    /// The table: one line per ioctl. `p` is taken out of the world while its own call runs.
    fn dispatch(
        &mut self,
        of: ProcessId,
        p: &mut Process,
        command: Command,
        bytes: &mut [u8],
        caller: &mut dyn Caller,
    ) -> Answer {
        Answer::Done(match command {
            Command::GetVersion => typed(bytes, |args| self.get_version(args)),
            Command::GetProcessApertures => typed(bytes, |args| self.get_apertures(args)),
            Command::GetProcessAperturesNew => typed(bytes, |args| self.get_apertures_new(args, caller)),
            Command::AcquireVm => typed(bytes, |args| self.acquire_vm(p, args, caller)),
            Command::SetMemoryPolicy => typed(bytes, |args| self.set_memory_policy(p, args)),
            Command::SetScratchBackingVa => typed(bytes, |args| self.set_scratch(p, args)),
            Command::SetTrapHandler => typed(bytes, |args| self.set_trap_handler(p, args)),
            Command::GetTileConfig => typed(bytes, |args| self.get_tile_config(args, caller)),
            Command::GetClockCounters => typed(bytes, |args| self.get_clocks(args)),
            Command::RuntimeEnable => return self.runtime_enable(p, bytes),
            Command::SetXnackMode => typed(bytes, |args| self.set_xnack(p, args)),
            Command::AllocMemoryOfGpu => typed(bytes, |args| self.alloc(p, args, caller)),
            Command::FreeMemoryOfGpu => typed(bytes, |args| self.free(p, args)),
            Command::MapMemoryToGpu => typed(bytes, |args| self.map(p, args, caller)),
            Command::UnmapMemoryFromGpu => typed(bytes, |args| self.unmap(p, args, caller)),
            Command::AvailableMemory => typed(bytes, |args| self.available_memory(args)),
            Command::GetDmabufInfo => typed(bytes, |args| self.dmabuf_info(args, caller)),
            Command::ImportDmabuf => typed(bytes, |args| self.dmabuf_import(p, args, caller)),
            Command::ExportDmabuf => typed(bytes, |args| self.dmabuf_export(p, args, caller)),
            Command::IpcExportHandle => typed(bytes, |args| self.ipc_export(p, args)),
            Command::IpcImportHandle => typed(bytes, |args| self.ipc_import(p, args)),
            Command::Svm => self.svm(p, bytes, caller),
            Command::CreateEvent => typed(bytes, |args| self.create_event(p, args)),
            Command::DestroyEvent => typed(bytes, |args| self.destroy_event(p, args)),
            Command::SetEvent => typed(bytes, |args| self.set_event(p, args)),
            Command::ResetEvent => typed(bytes, |args| self.reset_event(p, args)),
            Command::WaitEvents => return self.wait_events(p, bytes, caller),
            Command::CreateQueue => typed(bytes, |args| self.create_queue(p, args)),
            Command::UpdateQueue => typed(bytes, |args| self.update_queue(p, args)),
            Command::DestroyQueue => typed(bytes, |args| self.destroy_queue(p, args)),
            Command::SetCuMask => typed(bytes, |args| self.set_cu_mask(p, args, caller)),
            Command::AllocQueueGws => typed(bytes, |args| self.alloc_gws(p, args)),
            Command::CreateProcess => return self.secondary(p),
            Command::DbgRegisterDeprecated
            | Command::DbgUnregisterDeprecated
            | Command::DbgAddressWatchDeprecated
            | Command::DbgWaveControlDeprecated => Err(PERM),
            Command::GetQueueWaveState => typed(bytes, |args| self.wave_state(p, args, caller)),
            Command::SmiEvents => typed(bytes, |args| self.smi_events(p, args, caller)),
            Command::RlcSpm => typed(bytes, |args| self.spm(p, args)),
            Command::PcSample => typed(bytes, |args| self.pc_sample(of, args, caller)),
            Command::DbgTrap => return counted(bytes, |args| self.dbg_trap(of, p, args, caller)),
            Command::CriuOp => typed(bytes, |args| self.criu(args)),
            Command::CrossMemoryCopy => Err(Errno::NOTTY),
        })
    }

    /// Whether this version of the kernel driver has an ioctl.
    fn knows(&self, command: Command) -> bool {
        command != Command::CrossMemoryCopy && self.machine.kfd_version >= (1, first_minor(command))
    }

    /// CREATE_PROCESS: only the process an opening came with may be left, and only once.
    fn secondary(&mut self, p: &Process) -> Answer {
        if !p.primary {
            return Answer::Done(Err(Errno::INVAL));
        }
        let new = self.create_process(false);
        self.name_process(new, p.pid, &p.name);
        Answer::Rebind(new)
    }

    /// A GPU by the number an argument holds.
    pub(crate) fn gpu(&self, id: u32) -> Result<usize, Errno> {
        self.machine.gpu_index(GpuId(id)).ok_or(Errno::INVAL)
    }

    /// As [`World::gpu`], also a GPU that is not shown: what a process has there can be unmapped and freed.
    pub(crate) fn any_gpu(&self, id: u32) -> Result<usize, Errno> {
        self.machine.gpus.iter().position(|gpu| gpu.gpu_id == GpuId(id)).ok_or(Errno::INVAL)
    }

    /// Nanoseconds since this kernel started.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The first version with this call. AMD's own additions (IPC, secondary contexts) count as always there.
fn first_minor(command: Command) -> u32 {
    match command {
        Command::SmiEvents => 3,
        Command::Svm | Command::SetXnackMode => 5,
        Command::CriuOp => 8,
        Command::AvailableMemory => 9,
        Command::ExportDmabuf => 12,
        Command::RuntimeEnable | Command::DbgTrap => 13,
        _ => 0,
    }
}

/// As [`typed`], for a call that returns a number.
fn counted<T>(bytes: &mut [u8], answer: impl FnOnce(&mut T) -> Result<u32, Errno>) -> Answer
where
    T: FromBytes + IntoBytes + Immutable,
{
    let mut count = 0;
    let result = typed(bytes, |args| {
        count = answer(args)?;
        Ok(())
    });
    result.map_or_else(|error| Answer::Done(Err(error)), |()| Answer::Counted(count))
}

/// Runs `answer` on the struct in `bytes` and puts the struct back, whatever came out.
fn typed<T>(bytes: &mut [u8], answer: impl FnOnce(&mut T) -> Result<(), Errno>) -> Result<(), Errno>
where
    T: FromBytes + IntoBytes + Immutable,
{
    let mut args: T = uapi::from_caller(bytes);
    let result = answer(&mut args);
    for (to, from) in bytes.iter_mut().zip(args.as_bytes()) {
        *to = *from;
    }
    result
}
