//! The processes that opened `/dev/kfd`: born with the first opening (or when a debugger attaches), the same for every further one, gone with death or
//! exec. A secondary context is a process of the simulated kernel that lives and dies with one opening.

use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::super::machine::{ProcessId, World};
use super::super::memfd::{self, DeviceFile, Watch};
use super::task::Alive;

/// A process that opened `/dev/kfd`.
#[derive(Debug)]
struct Guest {
    alive: Alive,
    primary: ProcessId,
}

/// One opening of `/dev/kfd`.
#[derive(Debug)]
struct Open {
    process: u32,
    kfd: ProcessId,
    secondary: bool,
    watch: Watch,
}

/// All of them, and their openings.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    guests: HashMap<u32, Guest>,
    opens: HashMap<u64, Open>,
    last_open: u64,
}

impl Processes {
    /// Whether it has opened `/dev/kfd`.
    pub(crate) fn is_guest(&self, process: u32) -> bool {
        self.guests.contains_key(&process)
    }

    /// Everyone, with the descriptor that tells of the death.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &OwnedFd)> {
        self.guests.iter().map(|(process, guest)| (*process, &guest.alive.pidfd))
    }

    /// What a process is to the machine, if it has opened `/dev/kfd`.
    pub(crate) fn primary(&self, process: u32) -> Option<ProcessId> {
        self.guests.get(&process).map(|guest| guest.primary)
    }

    /// A debugger has made a process known to the machine before it opened `/dev/kfd`.
    pub(crate) fn adopt(&mut self, process: u32, kfd: ProcessId, world: &mut World) {
        match Alive::open(process) {
            Ok(alive) => self.welcome(process, Guest { alive, primary: kfd }, world),
            // It has just died.
            Err(_) => world.close(kfd),
        }
    }

    fn welcome(&mut self, process: u32, guest: Guest, world: &mut World) {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        world.name_process(guest.primary, process, name.trim_end());
        self.guests.insert(process, guest);
    }

    /// Every process and what it is to the machine; a secondary context too.
    pub(crate) fn machines(&self) -> Vec<(u32, ProcessId)> {
        let secondary = self.opens.values().filter(|open| open.secondary).map(|open| (open.process, open.kfd));
        self.guests.iter().map(|(process, guest)| (*process, guest.primary)).chain(secondary).collect()
    }

    /// The files of a process's openings.
    pub(crate) fn files(&self, process: u32) -> Vec<BorrowedFd<'_>> {
        self.opens.values().filter(|open| open.process == process).map(|open| open.watch.file()).collect()
    }

    /// Whether a process still runs the program that opened `/dev/kfd`.
    pub(crate) fn is_same_program(&self, process: u32) -> bool {
        self.guests.get(&process).is_some_and(|guest| guest.alive.same_program())
    }

    /// `open("/dev/kfd")`: the new descriptor's file.
    pub(crate) fn open(&mut self, process: u32, world: &mut World) -> io::Result<OwnedFd> {
        self.sweep(world);
        if self.is_another_program(process) {
            self.bury(process, world);
        }
        let kfd = match self.guests.get(&process) {
            Some(guest) => guest.primary,
            None => {
                let alive = Alive::open(process)?;
                let primary = world.open();
                self.welcome(process, Guest { alive, primary }, world);
                primary
            }
        };
        self.last_open += 1;
        let file = memfd::create(world.nonce(), DeviceFile::Kfd(self.last_open), memfd::DEVICE_BYTES)?;
        memfd::write_resting(&file, world.machine().gpus.len())?;
        let watch = Watch::new(&file)?;
        // A device that cannot be read or written answers EINVAL: from this position so does the file.
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(i64::MAX as u64))?;
        self.opens.insert(self.last_open, Open { process, kfd, secondary: false, watch });
        Ok(file)
    }

    /// Whose ioctl on this opening is: nobody's but the process's that opened it, and not after exec.
    pub(crate) fn owner(&mut self, process: u32, open: u64, world: &mut World) -> Option<ProcessId> {
        if self.opens.values().any(|open| open.secondary) {
            self.sweep(world);
        }
        if self.is_another_program(process) {
            self.bury(process, world);
        }
        self.opens.get(&open).filter(|open| open.process == process).map(|open| open.kfd)
    }

    /// An opening becomes a process of its own.
    pub(crate) fn rebind(&mut self, open: u64, kfd: ProcessId) {
        if let Some(open) = self.opens.get_mut(&open) {
            (open.kfd, open.secondary) = (kfd, true);
        }
    }

    fn is_another_program(&self, process: u32) -> bool {
        self.guests.get(&process).is_some_and(|guest| !guest.alive.same_program())
    }

    /// A process is gone, or has become another program: so is everything it had.
    pub(crate) fn bury(&mut self, process: u32, world: &mut World) {
        if let Some(guest) = self.guests.remove(&process) {
            world.close(guest.primary);
        }
        self.opens.retain(|_, open| {
            if open.process == process && open.secondary {
                world.close(open.kfd);
            }
            open.process != process
        });
    }

    /// Forgets closed openings, and with a secondary one its process.
    fn sweep(&mut self, world: &mut World) {
        self.opens.retain(|_, open| {
            let alive = open.watch.alive();
            if !alive && open.secondary {
                world.close(open.kfd);
            }
            alive
        });
    }
}
