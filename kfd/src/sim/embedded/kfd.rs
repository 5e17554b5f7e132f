//! One opened KFD on the simulated machine, as a [`Transport`]: the struct of each ioctl goes to the machine as it is.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hsakmt_core::driver::Errno;
use rustix::ioctl::Opcode;

use super::EmbeddedMachine;
use super::here::Here;
use super::space::EmbeddedSpace;
use crate::device::{self, Args, Arrays, RenderNode, Transport};
use crate::opcode::{self, Command};
use crate::sim::description::Machine;
use crate::sim::machine::{Answer, ProcessId};
use crate::topology::{Topology, TopologyError};

/// An opened KFD on an [`EmbeddedMachine`].
#[derive(Debug)]
pub struct EmbeddedKfd {
    machine: EmbeddedMachine,
    /// Relaxed: CREATE_PROCESS changes it, and calls read it, under the machine's lock.
    process: AtomicU64,
    nonce: u64,
    file: OwnedFd,
    /// Nanoseconds. Relaxed: a statistic, read by the thread that made the calls.
    inside: AtomicU64,
}

impl EmbeddedKfd {
    pub(super) fn new(machine: EmbeddedMachine, process: ProcessId, nonce: u64, file: OwnedFd) -> EmbeddedKfd {
        EmbeddedKfd { machine, process: AtomicU64::new(process.0), nonce, file, inside: AtomicU64::new(0) }
    }

    pub(super) fn machine(&self) -> &EmbeddedMachine {
        &self.machine
    }

    /// The process that it is to the machine.
    pub(super) fn process(&self) -> ProcessId {
        ProcessId(self.process.load(Ordering::Relaxed))
    }

    /// Time spent in the machine since it was opened.
    pub(super) fn time_inside(&self) -> Duration {
        Duration::from_nanos(self.inside.load(Ordering::Relaxed))
    }

    /// The machine's answer to one ioctl, with the number that the system call returns. `args` has at least the bytes of the
    /// command's struct.
    fn answer(&self, command: Command, args: &mut [u8], arrays: &Arrays<'_>) -> Result<u32, Errno> {
        let start = Instant::now();
        let mut slept = Duration::ZERO;
        let result = {
            let mut shared = self.machine.lock();
            let mut here = Here::new(self.machine.space, self.nonce, arrays);
            let process = self.process();
            let mut answer = shared.world.command(process, command, args, &mut here);
            shared.drop_pages();
            shared.poke(self.file.as_fd());
            self.machine.wake_waits(&mut shared);
            loop {
                match answer {
                    Answer::Done(result) => break result.map(|()| 0),
                    Answer::Counted(count) => break Ok(count),
                    Answer::Rebind(process) => {
                        shared.world.close(self.process());
                        self.process.store(process.0, Ordering::Relaxed);
                        // The waits of the process that is gone end.
                        self.machine.events.notify_all();
                        break Ok(0);
                    }
                    Answer::Sleep(mut wait) => {
                        let before = Instant::now();
                        shared = self.machine.sleep(shared, wait.deadline);
                        slept += before.elapsed();
                        answer = shared.world.wait_again(process, &mut wait, &mut here);
                        let (_, bytes) = wait.argument();
                        args.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                    }
                }
            }
        };
        let inside = start.elapsed().saturating_sub(slept);
        self.inside.fetch_add(inside.as_nanos() as u64, Ordering::Relaxed);
        result
    }
}

impl Drop for EmbeddedKfd {
    fn drop(&mut self) {
        let mut shared = self.machine.lock();
        shared.world.close(self.process());
        shared.drop_pages();
    }
}

impl AsFd for EmbeddedKfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

// SAFETY: the machine is safe code that works on the bytes of the struct and reaches the caller's memory only through
// `Here`, which keeps to `Arrays`. A descriptor in its answer is new (`Here::install`). `EmbeddedSpace` answers what
// `HostSpace` does, or numbers behind which there is no memory.
unsafe impl Transport for EmbeddedKfd {
    type Space = EmbeddedSpace;

    unsafe fn get<const OPCODE: Opcode, T: Args>(&self) -> Result<T, Errno> {
        let mut args = T::new_zeroed();
        self.answer(const { device::command(OPCODE) }, args.as_mut_bytes(), &Arrays::NONE)?;
        Ok(args)
    }

    unsafe fn set<const OPCODE: Opcode, T: Args>(&self, mut args: T) -> Result<(), Errno> {
        self.answer(const { device::command(OPCODE) }, args.as_mut_bytes(), &Arrays::NONE).map(drop)
    }

    unsafe fn update<const OPCODE: Opcode, T: Args>(&self, args: &mut T, arrays: &Arrays<'_>) -> Result<(), Errno> {
        self.answer(const { device::command(OPCODE) }, args.as_mut_bytes(), arrays).map(drop)
    }

    unsafe fn update_counted<const OPCODE: Opcode, T: Args>(
        &self,
        args: &mut T,
        arrays: &Arrays<'_>,
    ) -> Result<u32, Errno> {
        self.answer(const { device::command(OPCODE) }, args.as_mut_bytes(), arrays)
    }

    unsafe fn command<const OPCODE: Opcode>(&self) -> Result<(), Errno> {
        self.answer(const { device::command(OPCODE) }, &mut [], &Arrays::NONE).map(drop)
    }

    unsafe fn update_sized(&self, request: Opcode, args: &mut [u8]) -> Result<(), Errno> {
        let (_, number, _) = opcode::parts(request);
        self.answer(Command::from_number(number).ok_or(Errno::NOTTY)?, args, &Arrays::NONE).map(drop)
    }

    fn open_render(&self, minor: u32) -> Result<RenderNode, Errno> {
        let mut shared = self.machine.lock();
        if let Some(error) = shared.world.faults.strike("open") {
            return Err(error);
        }
        let mut shown = shared.world.machine().shown();
        let index = shown.find_map(|(index, _)| (Machine::render_minor(index) == minor).then_some(index));
        shared.render(index.ok_or(Errno(libc::ENOENT))?)
    }

    fn topology(&self, svm_api: bool) -> Result<Topology, TopologyError> {
        self.machine.topology(svm_api)
    }

    fn check_topology(&self, svm_api: bool) -> Result<(), TopologyError> {
        self.machine.topology(svm_api).map(drop)
    }

    fn space(&self) -> EmbeddedSpace {
        EmbeddedSpace::new(self.machine.clone())
    }
}
