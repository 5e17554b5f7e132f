//! Faults on purpose: [`Faults`], which says of the k-th call of a verb that it fails, and how.
//!
//! `verb:k=ERRNO` (k from 1, `*` for every call) and `map:k:n_success=M`: the k-th map (or unmap) does M GPUs and then
//! fails with ENOMEM. Verbs are the short names of the ioctls and [`OTHERS`].

use std::collections::HashMap;

use hsakmt_core::driver::Errno;

use crate::opcode::Command;

/// What else can fail: opening a simulated device, an ioctl of a render node, and any mmap from the moment a process has
/// opened `/dev/kfd`.
const OTHERS: [&str; 3] = ["open", "drm", "mmap"];

/// Every ioctl's short name.
pub fn short_name(command: Command) -> &'static str {
    match command {
        Command::GetVersion => "version",
        Command::CreateQueue => "create_queue",
        Command::DestroyQueue => "destroy_queue",
        Command::SetMemoryPolicy => "policy",
        Command::GetClockCounters => "clocks",
        Command::GetProcessApertures => "apertures_old",
        Command::UpdateQueue => "update_queue",
        Command::CreateEvent => "create_event",
        Command::DestroyEvent => "destroy_event",
        Command::SetEvent => "set_event",
        Command::ResetEvent => "reset_event",
        Command::WaitEvents => "wait_events",
        Command::DbgRegisterDeprecated => "dbg_register",
        Command::DbgUnregisterDeprecated => "dbg_unregister",
        Command::DbgAddressWatchDeprecated => "dbg_address_watch",
        Command::DbgWaveControlDeprecated => "dbg_wave_control",
        Command::SetScratchBackingVa => "scratch",
        Command::GetTileConfig => "tile_config",
        Command::SetTrapHandler => "trap_handler",
        Command::GetProcessAperturesNew => "apertures",
        Command::AcquireVm => "acquire_vm",
        Command::AllocMemoryOfGpu => "alloc",
        Command::FreeMemoryOfGpu => "free",
        Command::MapMemoryToGpu => "map",
        Command::UnmapMemoryFromGpu => "unmap",
        Command::SetCuMask => "cu_mask",
        Command::GetQueueWaveState => "wave_state",
        Command::GetDmabufInfo => "dmabuf_info",
        Command::ImportDmabuf => "dmabuf_import",
        Command::AllocQueueGws => "alloc_gws",
        Command::SmiEvents => "smi_events",
        Command::Svm => "svm",
        Command::SetXnackMode => "xnack",
        Command::CriuOp => "criu",
        Command::AvailableMemory => "available",
        Command::ExportDmabuf => "dmabuf_export",
        Command::RuntimeEnable => "runtime_enable",
        Command::DbgTrap => "dbg_trap",
        Command::CreateProcess => "create_process",
        Command::IpcImportHandle => "ipc_import",
        Command::IpcExportHandle => "ipc_export",
        Command::CrossMemoryCopy => "cross_copy",
        Command::RlcSpm => "spm",
        Command::PcSample => "pc_sample",
    }
}

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Fail(Errno),
    StopAfter(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    verb: String,
    /// `None`: every call.
    call: Option<u64>,
    effect: Effect,
}

/// The faults to inject, and how often each verb was called so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    rules: Vec<Rule>,
    calls: HashMap<String, u64>,
    pending: Option<usize>,
}

impl Faults {
    /// Reads `verb:k=ERRNO,map:k:n_success=M`.
    pub fn parse(spec: &str) -> Result<Faults, String> {
        let mut faults = Faults::default();
        for part in spec.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            faults.rules.push(rule(part).ok_or_else(|| format!("{part:?} is not verb:k=ERRNO or map:k:n_success=M"))?);
            let verb = faults.rules.last().map_or("", |rule| rule.verb.as_str());
            let names = || OTHERS.iter().copied().chain(Command::ALL.iter().map(|it| short_name(*it)));
            if !names().any(|name| name == verb) {
                return Err(format!("{verb:?} is none of {}", names().collect::<Vec<_>>().join(", ")));
            }
        }
        Ok(faults)
    }

    /// From now on, the `k`-th call (from 1, counted from now) of `verb` fails with `error`.
    pub fn fail(&mut self, verb: &str, k: u64, error: Errno) {
        let call = self.calls.get(verb).copied().unwrap_or(0) + k;
        self.rules.push(Rule { verb: verb.into(), call: Some(call), effect: Effect::Fail(error) });
    }

    /// From now on, the `k`-th call of `map` or `unmap` stops after `done` GPUs.
    pub fn stop_after(&mut self, verb: &str, k: u64, done: usize) {
        let call = self.calls.get(verb).copied().unwrap_or(0) + k;
        self.rules.push(Rule { verb: verb.into(), call: Some(call), effect: Effect::StopAfter(done) });
    }

    /// No more faults; counting goes on.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// Whether some rule is about `verb`.
    pub fn concerns(&self, verb: &str) -> bool {
        self.rules.iter().any(|rule| rule.verb == verb)
    }

    /// How often `verb` was called.
    pub fn calls(&self, verb: &str) -> u64 {
        self.calls.get(verb).copied().unwrap_or(0)
    }

    /// Counts a call; the error it is to fail with, if any.
    pub fn strike(&mut self, verb: &str) -> Option<Errno> {
        let calls = match self.calls.get_mut(verb) {
            Some(calls) => calls,
            None => self.calls.entry(verb.into()).or_default(),
        };
        *calls += 1;
        self.pending = None;
        let rule = self.rules.iter().find(|rule| rule.verb == verb && rule.call.is_none_or(|call| call == *calls))?;
        match rule.effect {
            Effect::Fail(error) => Some(error),
            Effect::StopAfter(done) => {
                self.pending = Some(done);
                None
            }
        }
    }

    /// After how many GPUs the call just counted is to stop.
    pub(crate) fn partial(&mut self) -> Option<usize> {
        self.pending.take()
    }
}

fn rule(part: &str) -> Option<Rule> {
    let (verb, rest) = part.split_once(':')?;
    let parse_call = |text: &str| if text == "*" { Some(None) } else { text.parse().ok().filter(|k| *k > 0).map(Some) };
    let (call, effect) = if let Some((call, count)) = rest.split_once(":n_success=") {
        if verb != "map" && verb != "unmap" {
            return None;
        }
        (parse_call(call)?, Effect::StopAfter(count.parse().ok()?))
    } else {
        let (call, error) = rest.split_once('=')?;
        (parse_call(call)?, Effect::Fail(errno_from_name(error)?))
    };
    Some(Rule { verb: verb.into(), call, effect })
}

const ERRNO_NAMES: &[(&str, i32)] = &[
    ("EPERM", libc::EPERM),
    ("ENOENT", libc::ENOENT),
    ("ESRCH", libc::ESRCH),
    ("EINTR", libc::EINTR),
    ("EIO", libc::EIO),
    ("ENXIO", libc::ENXIO),
    ("E2BIG", libc::E2BIG),
    ("EBADF", libc::EBADF),
    ("EAGAIN", libc::EAGAIN),
    ("ENOMEM", libc::ENOMEM),
    ("EACCES", libc::EACCES),
    ("EFAULT", libc::EFAULT),
    ("EBUSY", libc::EBUSY),
    ("EEXIST", libc::EEXIST),
    ("ENODEV", libc::ENODEV),
    ("EINVAL", libc::EINVAL),
    ("ENFILE", libc::ENFILE),
    ("EMFILE", libc::EMFILE),
    ("ENOTTY", libc::ENOTTY),
    ("ENOSPC", libc::ENOSPC),
    ("ERANGE", libc::ERANGE),
    ("ENOSYS", libc::ENOSYS),
    ("ETIME", libc::ETIME),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("EADDRINUSE", libc::EADDRINUSE),
    ("ETIMEDOUT", libc::ETIMEDOUT),
];

/// `"ENOMEM"` or `"12"`.
pub fn errno_from_name(name: &str) -> Option<Errno> {
    let number = ERRNO_NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    number.or_else(|| name.parse().ok().filter(|number| (1..4096).contains(number))).map(Errno)
}

/// `"ENOMEM"`, or the number of one that has no name here.
pub fn errno_name(error: Errno) -> String {
    let name = ERRNO_NAMES.iter().find(|(_, number)| *number == error.0);
    name.map_or_else(|| error.0.to_string(), |(name, _)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kth_call_fails_and_no_other() {
        let mut faults = Faults::parse("alloc:2=ENOMEM, map:1:n_success=1").unwrap();
        assert_eq!(faults.strike("alloc"), None);
        assert_eq!(faults.strike("alloc"), Some(Errno::NOMEM));
        assert_eq!(faults.strike("alloc"), None);
        assert_eq!(faults.strike("map"), None);
        assert_eq!(faults.partial(), Some(1));
        assert_eq!(faults.strike("map"), None);
        assert_eq!(faults.partial(), None);
        faults.fail("alloc", 1, Errno::INVAL);
        assert_eq!(faults.strike("alloc"), Some(Errno::INVAL));
    }

    #[test]
    fn a_wrong_spec_says_what_is_wrong() {
        assert!(Faults::parse("alloc:0=ENOMEM").is_err());
        assert!(Faults::parse("alloc:1=EWHAT").is_err());
        assert!(Faults::parse("free:1:n_success=1").is_err());
        let unknown = Faults::parse("allocate:1=ENOMEM").unwrap_err();
        assert!(unknown.contains("alloc,"), "{unknown}");
        assert!(Faults::parse("svm:*=EPERM").unwrap().concerns("svm"));
    }
}
