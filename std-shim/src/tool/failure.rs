//! What ends the tool with code 1, and what the user can do about it.

use std::io;

use hsakmt::reason::Reason;
use hsakmt::status::Status;
use hsakmt_core::driver::Errno;
use hsakmt_core::error::Error;
use hsakmt_kfd::device::words;

/// Why the tool stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// A device that is there does not open.
    #[error("{file}: {}\n  {}", words(*errno), fix(*errno))]
    Open {
        /// Which.
        file: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
    /// The simulated machine does not come up.
    #[error("the simulated machine {name}: {}", words(*errno))]
    Simulation {
        /// Its name.
        name: String,
        /// What went wrong.
        errno: Errno,
    },
    /// Opening or Acquire was refused.
    #[error("{call}: {} ({reason})", Status::from(reason.error()).name())]
    Refused {
        /// Which call.
        call: &'static str,
        /// Why.
        reason: Reason,
    },
    /// The library refused.
    #[error("{what}: {} ({hint})", Status::from(*error).name())]
    Call {
        /// Which call, for what.
        what: String,
        /// Its error.
        error: Error,
        /// What to do.
        hint: String,
    },
    /// The output cannot be written.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
    /// Some of what was asked could not be done; it has been said before.
    #[error("{0}")]
    Incomplete(String),
}

impl Failure {
    /// A call that failed, with the advice that fits any.
    pub(super) fn call(what: impl Into<String>, error: Error) -> Failure {
        let hint = match error {
            Error::NoMemory => "out of memory, of the GPU, the host, or addresses".into(),
            Error::NotSupported => "this machine or kernel does not do that".into(),
            _ => "HSAKMT_DEBUG_LEVEL=7 in the environment tells more".into(),
        };
        Failure::Call { what: what.into(), error, hint }
    }
}

/// What to do when `/dev/kfd` does not open.
fn fix(errno: Errno) -> &'static str {
    match errno.0 {
        libc::EACCES | libc::EPERM => {
            "This user may not open it. Join the groups that may, then log in again:\n    \
             sudo usermod -aG render,video \"$USER\"\n  \
             In a container, pass the devices: --device=/dev/kfd --device=/dev/dri\n  \
             Without a GPU: --simulated"
        }
        libc::ENXIO | libc::ENODEV => {
            "The file is there and the driver is not. Load it, and see what it says:\n    \
             sudo modprobe amdgpu && sudo dmesg | grep -i kfd\n  \
             Without a GPU: --simulated"
        }
        libc::EINVAL => {
            "The driver is there and has no GPU node. See what it says:\n    \
             sudo dmesg | grep -i kfd\n  \
             Without a GPU: --simulated"
        }
        libc::EMFILE | libc::ENFILE => "Too many open files: raise the limit (ulimit -n).",
        _ => "See what the driver says: sudo dmesg | grep -i kfd\n  Without a GPU: --simulated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_file_and_the_fix() {
        let text = Failure::Open { file: "/dev/kfd", errno: Errno(libc::EACCES) }.to_string();
        for word in ["/dev/kfd", "Permission denied", "render,video", "--simulated"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let text = Failure::call("hsaKmtAllocMemory", Error::NoMemory).to_string();
        assert!(text.starts_with("hsaKmtAllocMemory: HSAKMT_STATUS_NO_MEMORY"), "{text}");
    }
}
