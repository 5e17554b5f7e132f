//! A debugger's session: whom it debugs, how it hears of exceptions, and what it holds.
//!
//! As in the kernel, a process may debug itself and each process whose thread its calling thread traces (ptrace), one that
//! has not opened `/dev/kfd` yet included. The session ends with the debugger's process. A runtime that begins or ends while
//! a debugger is attached sleeps until the debugger has answered ([`Waiting`]).

use std::os::fd::{AsFd, OwnedFd};

use hsakmt_core::driver::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zerocopy::IntoBytes;

use super::super::event::Wait;
use super::super::{Answer, BADF, BUSY, NODEV, PERM, Process, ProcessId, World, typed};
use super::exception;
use crate::sim::caller::Caller;
use crate::uapi::{
    DEBUG_RUNTIME_STATE_DISABLED, DEBUG_RUNTIME_STATE_ENABLED, DbgTrapArgs, DbgTrapEnableArgs, EC_PROCESS_RUNTIME,
    KFD_IOC_DBG_TRAP_DISABLE, KFD_IOC_DBG_TRAP_ENABLE, KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK, RuntimeEnableArgs,
    RuntimeInfo, from_caller,
};

/// A debugger is attached.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Exceptions that it wants to hear of.
    pub(super) wanted: u64,
    /// `KFD_DBG_TRAP_FLAG_*`
    pub(super) flags: u32,
    /// GPU and number of each address that is watched.
    pub(super) watched: Vec<(usize, u32)>,
    /// Whose it is; `None`: the process's own.
    debugger: Option<ProcessId>,
    /// Where a byte tells it of an exception. A device file takes none.
    announce: Option<OwnedFd>,
}

impl Session {
    /// Tells the debugger of exceptions, if it wants to hear of one of them: whether it does.
    fn tell(&self, raised: u64) -> bool {
        let wanted = self.wanted & raised != 0;
        if let Some(file) = self.announce.as_ref().filter(|_| wanted) {
            let mut ready = [PollFd::new(file, PollFlags::OUT)];
            // A full pipe would stop the simulator: the debugger has bytes enough to read.
            if poll(&mut ready, Some(&Timespec::default())) == Ok(1) {
                let _ = rustix::io::write(file.as_fd(), b".");
            }
        }
        wanted
    }
}

/// How far a runtime is with the debugger's answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// Answers that no call has taken yet.
    answers: u32,
    /// A signal interrupted the call that waits: the next one goes on with it.
    interrupted: bool,
}

impl Process {
    /// Raises an exception of a queue: whether a debugger hears of it.
    pub(crate) fn tell_debugger(&self, raised: u64) -> bool {
        self.debugger.as_ref().is_some_and(|session| session.tell(raised))
    }

    /// All exceptions that are raised.
    fn raised(&self) -> u64 {
        self.queues.list.values().fold(self.exceptions, |all, queue| all | queue.exceptions)
    }

    pub(super) fn want_exceptions(&mut self, wanted: u64) {
        let raised = self.raised();
        if let Some(session) = &mut self.debugger {
            session.wanted = wanted;
            session.tell(raised);
        }
    }

    /// A signal interrupts the call that waits for the debugger.
    pub(crate) fn interrupt_runtime(&mut self) {
        self.waiting.interrupted = true;
    }

    /// The debugger has seen that the runtime begins or ends.
    pub(super) fn answer_runtime(&mut self) {
        self.waiting.answers += 1;
    }
}

impl World {
    /// The process that an operation is about; `None`: the caller itself.
    pub(super) fn debugged(
        &mut self,
        p: &Process,
        args: &DbgTrapArgs,
        caller: &mut dyn Caller,
    ) -> Result<Option<ProcessId>, Errno> {
        if args.pid == p.pid {
            return Ok(None);
        }
        let known = self.processes.iter().find(|(_, it)| it.primary && it.pid == args.pid).map(|(id, _)| *id);
        let traces = caller.traces(args.pid)?;
        match known {
            Some(_) if !traces && args.op != KFD_IOC_DBG_TRAP_DISABLE => Err(PERM),
            Some(id) => Ok(Some(id)),
            None if traces && args.op == KFD_IOC_DBG_TRAP_ENABLE => {
                let id = self.open();
                self.name_process(id, args.pid, "");
                self.adopted.push((args.pid, id));
                Ok(Some(id))
            }
            None => Err(Errno(libc::ESRCH)),
        }
    }

    pub(super) fn debug_enable(
        &self,
        p: &mut Process,
        debugger: Option<ProcessId>,
        enable: &mut DbgTrapEnableArgs,
        caller: &mut dyn Caller,
    ) -> Result<u32, Errno> {
        if p.debugger.is_some() {
            return Err(Errno(libc::EALREADY));
        }
        if self.machine.shown().any(|(_, gpu)| gpu.gfx_target_version < 90000) {
            return Err(NODEV);
        }
        // GPUs before gfx90a cannot be debugged while a queue has global wave sync.
        if p.queues.list.values().any(|queue| queue.has_gws() && self.version(queue.gpu) < 90010) {
            return Err(BUSY);
        }
        let file = caller.duplicate(enable.dbg_fd as i32).map_err(|_| BADF)?;
        let announce = caller.file(enable.dbg_fd as i32).is_none().then_some(file);
        let copied = p.runtime.as_bytes().get(..enable.rinfo_size as usize).unwrap_or(p.runtime.as_bytes());
        let result = caller.write(enable.rinfo_ptr, copied);
        enable.rinfo_size = size_of::<RuntimeInfo>() as u32;
        let wanted = if result.is_ok() { enable.exception_mask } else { 0 };
        p.debugger = Some(Session { wanted, debugger, announce, ..Session::default() });
        result.map(|()| 0)
    }

    /// The debugger leaves: queues go on, and nothing is remembered.
    pub(super) fn end_session(&mut self, p: &mut Process) {
        let Some(session) = p.debugger.take() else { return };
        for watched in session.watched {
            self.watched.remove(&watched);
        }
        p.exceptions = 0;
        for queue in p.queues.list.values_mut() {
            (queue.suspended, queue.exceptions) = (false, 0);
        }
    }

    /// A process ends: so do its own session and those in which it is the debugger.
    pub(crate) fn end_sessions_of(&mut self, process: ProcessId) {
        let own = |session: &Session, id: ProcessId| session.debugger.map_or(id == process, |by| by == process);
        let ids: Vec<ProcessId> = (self.processes.iter())
            .filter(|(id, it)| **id == process || it.debugger.as_ref().is_some_and(|session| own(session, **id)))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            if let Some(mut p) = self.processes.remove(&id) {
                self.end_session(&mut p);
                self.processes.insert(id, p);
            }
        }
    }

    /// RUNTIME_ENABLE, which also disables. With a debugger attached it sleeps until that has answered.
    pub(crate) fn runtime_enable(&mut self, p: &mut Process, bytes: &mut [u8]) -> Answer {
        let result = typed(bytes, |args| begin_runtime(p, args));
        if result.is_err() || p.debugger.is_none() {
            return Answer::Done(result);
        }
        self.runtime_answered(p, Wait::for_debugger(from_caller(bytes)))
    }

    /// Ends the wait for the debugger, if it has answered.
    pub(crate) fn runtime_answered(&mut self, p: &mut Process, wait: Wait) -> Answer {
        if p.waiting.answers == 0 {
            return Answer::Sleep(wait);
        }
        p.waiting = Waiting { answers: p.waiting.answers - 1, interrupted: false };
        end_runtime(p);
        Answer::Done(Ok(()))
    }
}

fn begin_runtime(p: &mut Process, args: &mut RuntimeEnableArgs) -> Result<(), Errno> {
    let enable = args.mode_mask & 1 != 0;
    let repeated = p.waiting.interrupted && p.debugger.is_some();
    if enable && !repeated {
        if p.runtime.runtime_state != DEBUG_RUNTIME_STATE_DISABLED {
            return Err(BUSY);
        }
        if p.queues.any() {
            return Err(Errno(libc::EEXIST));
        }
        let ttmp_setup = u32::from(args.mode_mask & KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK != 0);
        p.runtime = RuntimeInfo { r_debug: args.r_debug, runtime_state: DEBUG_RUNTIME_STATE_ENABLED, ttmp_setup };
    } else if !enable {
        (p.runtime.r_debug, p.runtime.runtime_state) = (0, DEBUG_RUNTIME_STATE_DISABLED);
        p.queues.list.values_mut().for_each(|queue| queue.suspended = false);
    }
    args.capabilities_mask = 0;
    if p.debugger.is_none() {
        end_runtime(p);
    } else if !repeated {
        p.exceptions |= exception(EC_PROCESS_RUNTIME);
        p.tell_debugger(exception(EC_PROCESS_RUNTIME));
    }
    Ok(())
}

fn end_runtime(p: &mut Process) {
    if p.runtime.runtime_state == DEBUG_RUNTIME_STATE_DISABLED {
        p.runtime.ttmp_setup = 0;
    }
}
