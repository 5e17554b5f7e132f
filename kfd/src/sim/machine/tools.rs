//! Tools' ioctls: management events, performance counters, program counter sampling, copies between processes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use hsakmt_core::driver::Errno;

use super::{Process, World};
use crate::sim::caller::Caller;
use crate::uapi::SmiEventsArgs;

/// One opening of a GPU's event stream. The process reads and writes the other end by itself.
#[derive(Debug)]
pub(crate) struct SmiClient {
    gpu: usize,
    stream: UnixStream,
    /// Bit `code - 1`: the process wants this event.
    wanted: u64,
}

impl SmiClient {
    /// Takes in what the process wrote last: eight bytes, which events it wants.
    fn update(&mut self) {
        let mut mask = [0; 8];
        while self.stream.read_exact(&mut mask).is_ok() {
            self.wanted = u64::from_ne_bytes(mask);
        }
    }
}

impl World {
    /// SMI_EVENTS: a descriptor that takes a mask of events and gives lines of text, without waiting.
    pub(crate) fn smi_events(
        &mut self,
        p: &mut Process,
        args: &mut SmiEventsArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        let gpu = self.gpu(args.gpuid)?;
        let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EMFILE));
        let (here, there) = UnixStream::pair().map_err(failed)?;
        here.set_nonblocking(true).and_then(|()| there.set_nonblocking(true)).map_err(failed)?;
        args.anon_fd = caller.install(there.into())? as u32;
        p.smi.push(SmiClient { gpu, stream: here, wanted: 0 });
        Ok(())
    }

    /// Tells every listener on a GPU: the event's number, a space, and what `text` makes of the process's id and name.
    pub(crate) fn smi_event(&mut self, gpu: usize, event: u32, of: &mut Process, text: impl Fn(u32, &str) -> String) {
        let line = format!("{event:x} {}\n", text(of.pid, &of.name));
        for client in self.processes.values_mut().chain([of]).flat_map(|process| &mut process.smi) {
            client.update();
            if client.gpu == gpu && client.wanted >> (event - 1) & 1 != 0 {
                // A full or closed stream loses the event, as in the kernel.
                let _ = client.stream.write_all(line.as_bytes());
            }
        }
    }
}
