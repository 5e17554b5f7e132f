//! Calls with a descriptor that a device answers otherwise than the memory file that stands for it.
//!
//! In: a stopped lseek, ftruncate, fsync or mmap. Out: the device's error, or the call goes on. read and write never stop:
//! the file's position lies at the end of all numbers, where both are EINVAL as on the device.

use hsakmt_core::driver::Errno;
use serde_json::json;

use super::Supervisor;
use super::listener::Call;
use crate::sim::memfd::DeviceFile;

/// ioctls that the kernel answers for every file. Any other is the driver's, whatever its type byte.
pub(super) const OF_ANY_FILE: [u64; 4] = [libc::FIOCLEX, libc::FIONCLEX, libc::FIONBIO, libc::FIOASYNC];

impl Supervisor {
    /// A call on `/dev/kfd` fails with `error`; on any other file it goes on.
    pub(super) fn unless_kfd(&mut self, call: &Call, error: Errno) {
        match self.device(call, call.arguments[0]) {
            Some(DeviceFile::Kfd(_)) => self.listener.answer(call.id, Err(error)),
            _ => self.listener.go_on(call.id),
        }
    }

    /// The simulated file behind a descriptor of the caller.
    fn device(&mut self, call: &Call, fd: u64) -> Option<DeviceFile> {
        let link = self.tasks.descriptor(call.tid, fd as i32)?;
        DeviceFile::from_link(&link, self.world.nonce())
    }

    /// Maps of what the kfd file does not show fail. A fault strikes the calls a process makes after it opened `/dev/kfd`.
    pub(super) fn mmap(&mut self, call: &Call) {
        let [_, length, _, flags, fd, offset] = call.arguments;
        if flags & libc::MAP_ANONYMOUS as u64 == 0
            && let Some(DeviceFile::Kfd(_)) = self.device(call, fd)
            && let Err(error) = self.world.shows(offset, length)
        {
            return self.listener.answer(call.id, Err(error));
        }
        if !self.world.faults.concerns("mmap") {
            return self.listener.go_on(call.id);
        }
        let Ok(process) = self.tasks.get(call.tid).map(|task| task.process) else {
            return self.listener.go_on(call.id);
        };
        if !self.processes.is_guest(process) {
            return self.listener.go_on(call.id);
        }
        let fault = self.world.faults.strike("mmap");
        if let Some(journal) = &mut self.journal {
            // What the kernel answers to one that goes on is not known here.
            let detail = json!({ "length": format!("{:#x}", call.arguments[1]) });
            journal.line(process, call.tid, "mmap", detail, fault.map_or(Ok(()), Err));
        }
        match fault {
            Some(error) => self.listener.answer(call.id, Err(error)),
            None => self.listener.go_on(call.id),
        }
    }
}
