//! The simulated machine behind real system calls: [`run`] starts any program, unmodified, and answers the calls that
//! are about AMD GPUs.
//!
//! ```text
//! launch -> the program, under filter -> stopped calls -> listener -> Supervisor::handle
//!                                                                      |- ioctl 'K' -> machine
//!                                                                      |- ioctl 'd' -> drm
//!                                                                      '- paths     -> files (device memfds, sysfs tree)
//! ```
//! One thread, one loop, one call at a time: stopped calls, deaths, signals and deadlines come out of one `poll`, and
//! after each the simulated GPU's queues have a turn (`queues`, `bus`). The
//! order there matters: when a call is ready, deaths that happened before it are seen first, so a parent that has
//! reaped its child finds the child's memory free.
//!
//! State belongs to processes, as in the kernel: an inherited descriptor is `EBADF` in the child; exec and death free
//! everything; a second open of `/dev/kfd` finds the same process. The supervisor ends when no supervised process is
//! left.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use hsakmt_core::driver::Errno;
use hsakmt_core::node::GpuId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use super::description::Machine;
use super::machine::{Answer, Faults, SvmMode, World};
use super::memfd::{self, DeviceFile};
use super::probe;
use super::sysfs::{Given, Tree};

mod bus;
mod descriptor;
mod drm;
mod files;
mod filter;
mod janitor;
mod journal;
mod launch;
mod listener;
mod path;
mod processes;
mod queues;
mod signals;
mod sleepers;
mod stat;
mod stopped;
mod task;

use drm::Gems;
use files::Reply;
use janitor::Janitor;
use journal::Journal;
use listener::{Call, Listener};
pub use path::NEXT;
use path::Target;
use processes::Processes;
use queues::Pace;
use signals::Signals;
use sleepers::Sleeper;
use stopped::Stopped;
use task::Tasks;

/// Why a program could not be supervised.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not let a process answer another's system calls.
    #[error("this kernel has no seccomp user notification (or this process already runs under one): {0}")]
    NoNotification(#[source] io::Error),
    /// The program cannot be started.
    #[error("cannot run {0}: {1}")]
    Program(String, #[source] io::Error),
    /// The supervisor cannot do its own work.
    #[error("{0}: {1}")]
    System(&'static str, #[source] io::Error),
}

/// What to simulate.
#[derive(Debug)]
pub struct Config {
    /// The machine.
    pub machine: Machine,
    /// How the SVM ioctl behaves.
    pub svm: SvmMode,
    /// Faults to inject.
    pub faults: Faults,
    /// Lists of GPUs that the kernel shows one after the other: the first when the program looks for [`NEXT`].
    pub next: Vec<Vec<GpuId>>,
    /// Files that stand in for what the machine would show.
    pub given: Given,
    /// Where to log.
    pub log: Option<PathBuf>,
}

/// Everything about one supervised program and its descendants.
struct Supervisor {
    world: World,
    tree: Tree,
    next: std::vec::IntoIter<Vec<GpuId>>,
    listener: Listener,
    tasks: Tasks,
    processes: Processes,
    renders: Vec<OwnedFd>,
    cards: Vec<OwnedFd>,
    gems: Gems,
    sleepers: Vec<Sleeper>,
    /// [`World::event_changes`] when the sleepers were last looked at.
    events_seen: u64,
    /// When to look whether one has a signal to handle.
    next_look: Instant,
    journal: Option<Journal>,
    pace: Pace,
    _janitor: Option<Janitor>,
}

/// Runs `command` on the simulated machine, until it and all that it started are gone.
pub fn run(command: Command, config: Config) -> Result<ExitStatus, Error> {
    let system = |what| move |error: io::Error| Error::System(what, error);
    let mut tree = Tree::create(&config.machine).map_err(system("the topology's files"))?;
    tree.replace(&config.given).map_err(system("the files that are given"))?;
    let janitor = Janitor::hire(tree.root()).inspect_err(|error| log::warn!("no shell to clean up: {error}")).ok();
    let journal = config.log.as_deref().map(Journal::create).transpose().map_err(system("the log"))?;
    let gpus = config.machine.gpus.len();
    let more = more_calls(&config);
    let mut world = World::new(config.machine, config.svm, config.faults);
    world.tracing = journal.is_some();
    let device = |file| memfd::create(world.nonce(), file, memfd::DEVICE_BYTES);
    let renders = (0..gpus).map(|gpu| device(DeviceFile::Render(gpu))).collect::<Result<_, _>>();
    let cards = (0..gpus).map(|gpu| device(DeviceFile::Card(gpu))).collect::<Result<_, _>>();
    let (renders, cards) = (
        renders.map_err(|error| Error::System("the devices' files", error.into()))?,
        cards.map_err(|error| Error::System("the devices' files", error.into()))?,
    );
    let (mut child, listener) = launch::launch(command, &more)?;
    if let Err(error) = probe::allowed(child.id() as i32) {
        let _ = child.kill().and_then(|()| child.wait());
        return Err(Error::System("this process may not read another's memory", error));
    }
    let supervisor = Supervisor {
        world,
        tree,
        next: config.next.into_iter(),
        listener,
        tasks: Tasks::default(),
        processes: Processes::default(),
        renders,
        cards,
        gems: Gems::default(),
        sleepers: Vec::new(),
        events_seen: 0,
        next_look: Instant::now(),
        journal,
        pace: Pace::default(),
        _janitor: janitor,
    };
    supervisor.serve(child).map_err(system("supervising"))
}

impl Supervisor {
    fn serve(mut self, child: Child) -> io::Result<ExitStatus> {
        let signals = Signals::take()?;
        // Who died before anyone listened left no signal.
        let mut status = signals.reap(child.id(), false);
        loop {
            let ready = self.wait(&signals)?;
            for process in ready.dead {
                self.bury(process);
            }
            if ready.call
                && let Some(call) = self.listener.receive()?
            {
                self.handle(&call);
            }
            if ready.signal {
                signals.pass_on(child.id());
                status = signals.reap(child.id(), false).or(status);
            }
            self.run_queues();
            self.wake_sleepers();
            if ready.hung_up {
                // Nobody is under the filter any more, so whoever is left is dead.
                let status = status.or_else(|| signals.reap(child.id(), true));
                return status.ok_or_else(|| io::ErrorKind::NotFound.into());
            }
        }
    }

    /// Waits until something is to be done.
    fn wait(&self, signals: &Signals) -> io::Result<Ready> {
        let processes: Vec<u32> = self.processes.iter().map(|(process, _)| process).collect();
        // The calls first: whoever died before a call was made has then died before it is looked for.
        let mut fds =
            vec![PollFd::new(&self.listener, PollFlags::IN), PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        fds.extend(self.processes.iter().map(|(_, pidfd)| PollFd::new(pidfd, PollFlags::IN)));
        let deadline = self.sleepers.iter().filter_map(|sleeper| sleeper.wait.deadline).min();
        let look = (!self.sleepers.is_empty()).then_some(self.next_look);
        let deadline = [deadline, look, self.pace.next()].into_iter().flatten().min();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut events = fds.iter().map(PollFd::revents);
        let listener = events.next().unwrap_or(PollFlags::empty());
        let signal = events.next().is_some_and(|events| !events.is_empty());
        let dead =
            processes.into_iter().zip(events).filter(|(_, events)| !events.is_empty()).map(|(process, _)| process);
        Ok(Ready {
            call: listener.contains(PollFlags::IN),
            hung_up: listener.contains(PollFlags::HUP) && !listener.contains(PollFlags::IN),
            signal,
            dead: dead.collect(),
        })
    }

    /// A process is gone: so is everything it had.
    fn bury(&mut self, process: u32) {
        self.processes.bury(process, &mut self.world);
        self.gems.close(process, &mut self.world);
        // Its waits ended with it.
        let (listener, world) = (&self.listener, &mut self.world);
        self.sleepers.retain(|sleeper| {
            let valid = listener.is_valid(sleeper.call.id);
            if !valid {
                world.abandon(sleeper.kfd, sleeper.wait);
            }
            valid
        });
        self.drop_pages();
    }

    /// Gives the pages of freed memory back to the host.
    fn drop_pages(&mut self) {
        for (gpu, offset, size) in self.world.take_freed() {
            if let Some(file) = self.renders.get(gpu) {
                memfd::drop_pages(file.as_fd(), offset, size);
            }
        }
    }

    /// Answers one stopped call.
    fn handle(&mut self, call: &Call) {
        match call.number {
            libc::SYS_ioctl => self.ioctl(call),
            libc::SYS_mmap => self.mmap(call),
            libc::SYS_munmap => self.munmap(call),
            libc::SYS_lseek => self.unless_kfd(call, Errno(libc::ESPIPE)),
            libc::SYS_ftruncate | libc::SYS_fsync | libc::SYS_fdatasync => self.unless_kfd(call, Errno::INVAL),
            _ => self.path_call(call),
        }
        self.drop_pages();
    }

    fn ioctl(&mut self, call: &Call) {
        let [fd, request, argument, ..] = call.arguments;
        let (listener, nonce) = (&self.listener, self.world.nonce());
        let link = self.tasks.descriptor(call.tid, fd as i32);
        let device = link.and_then(|link| DeviceFile::from_link(&link, nonce));
        let (Some(device), Some(task)) = (device, self.tasks.known(call.tid)) else {
            return listener.go_on(call.id);
        };
        let process = task.process;
        match (device, (request >> 8) as u8) {
            // The kernel answers these for every file; any other is the driver's, whatever its type byte.
            (DeviceFile::Kfd(_), _) if descriptor::OF_ANY_FILE.contains(&(request & 0xffff_ffff)) => {
                listener.go_on(call.id)
            }
            (DeviceFile::Kfd(open), _) => self.kfd_ioctl(call, process, open),
            (DeviceFile::Render(gpu) | DeviceFile::Card(gpu), b'd') => {
                let mut caller = Stopped { task, listener, call: call.id, nonce };
                let world = &mut self.world;
                let kfd = self.processes.primary(process);
                let result = self.gems.ioctl(world, (process, kfd), gpu, request as u32, argument, &mut caller);
                listener.answer(call.id, result);
                if let Some(journal) = &mut self.journal {
                    let detail = json!({ "request": format!("{request:#x}") });
                    journal.line(process, call.tid, "drm", detail, result.map(drop));
                }
            }
            _ => listener.go_on(call.id),
        }
    }

    fn kfd_ioctl(&mut self, call: &Call, process: u32, open: u64) {
        let Some(kfd) = self.processes.owner(process, open, &mut self.world) else {
            return self.listener.answer(call.id, Err(Errno(libc::EBADF)));
        };
        let [_, request, argument, ..] = call.arguments;
        let Some(task) = self.tasks.known(call.tid) else { return self.listener.go_on(call.id) };
        let nonce = self.world.nonce();
        let mut caller = Stopped { task, listener: &self.listener, call: call.id, nonce };
        let answer = self.world.ioctl(kfd, request as u32, argument, &mut caller);
        for (pid, kfd) in self.world.take_adopted() {
            self.processes.adopt(pid, kfd, &mut self.world);
        }
        self.poke(process);
        if self.world.has_active_queues(kfd) {
            self.pace.hurry();
        }
        let counted = match answer {
            Answer::Done(result) => result.map(|()| 0),
            Answer::Counted(count) => Ok(count),
            Answer::Rebind(kfd) => {
                self.processes.rebind(open, kfd);
                Ok(0)
            }
            Answer::Sleep(wait) => return self.sleepers.push(Sleeper { call: *call, kfd, wait }),
        };
        let result = counted.map(|_| ());
        // The line first: a program that reads the log finds its own call there.
        if let Some(journal) = &mut self.journal {
            match &self.world.trace {
                Some(trace) => journal.ioctl(process, call.tid, trace, result),
                None => {
                    let detail = json!({ "request": format!("{request:#x}") });
                    journal.line(process, call.tid, "unknown", detail, result);
                }
            }
        }
        self.listener.answer(call.id, counted.map(i64::from));
    }

    /// Shared ranges end with their memory.
    fn munmap(&mut self, call: &Call) {
        let process = self.tasks.get(call.tid).map(|task| task.process).ok();
        if let Some(kfd) = process.and_then(|process| self.processes.primary(process)) {
            let [start, size, ..] = call.arguments;
            self.world.unmapped(kfd, start, size);
        }
        self.listener.go_on(call.id);
    }

    fn path_call(&mut self, call: &Call) {
        let Ok(task) = self.tasks.get(call.tid) else { return self.listener.go_on(call.id) };
        let process = task.process;
        let caller = Stopped { task, listener: &self.listener, call: call.id, nonce: self.world.nonce() };
        match files::answer(call, &caller, &self.tree, self.world.machine()) {
            Reply::GoOn => self.listener.go_on(call.id),
            Reply::Return(result) => self.listener.answer(call.id, result),
            Reply::OpenFile(file, cloexec) => self.listener.answer_with(call.id, file.as_fd(), cloexec),
            Reply::ShowNext => {
                let result = self.show_next();
                self.listener.answer(call.id, result.map(|()| 0));
            }
            Reply::OpenDevice(target, cloexec) => {
                let result = self.open_device(call, process, &target, cloexec);
                if let Some(journal) = &mut self.journal {
                    journal.line(process, call.tid, "open", json!({ "device": format!("{target:?}") }), result);
                }
                if let Err(error) = result {
                    self.listener.answer(call.id, Err(error));
                }
            }
        }
    }

    /// The kernel shows other GPUs from now on; `ENOENT` when the last list has been shown.
    fn show_next(&mut self) -> Result<(), Errno> {
        let gpus = self.next.next().ok_or(Errno(libc::ENOENT))?;
        self.world.show(&gpus).map_err(|_| Errno::INVAL)?;
        self.tree.show(self.world.machine()).map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// Opens a device for a process and answers the call; on an error the call still waits.
    fn open_device(&mut self, call: &Call, process: u32, target: &Target, cloexec: bool) -> Result<(), Errno> {
        if let Some(error) = self.world.faults.strike("open") {
            return Err(error);
        }
        let listener = &self.listener;
        let answer = |file: BorrowedFd<'_>| listener.answer_with(call.id, file, cloexec);
        match target {
            Target::Kfd => {
                let file = self.processes.open(process, &mut self.world);
                let file = file.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
                answer(file.as_fd());
            }
            Target::Render(gpu) => answer(self.renders.get(*gpu).ok_or(Errno(libc::ENOENT))?.as_fd()),
            Target::Card(gpu) => answer(self.cards.get(*gpu).ok_or(Errno(libc::ENOENT))?.as_fd()),
            Target::File(_) | Target::Next => return Err(Errno(libc::ENOENT)),
        }
        Ok(())
    }
}

/// Calls that stop besides those about devices: mmap if a fault is to be injected there, munmap if shared ranges can be set,
/// which end with their memory.
fn more_calls(config: &Config) -> Vec<libc::c_long> {
    let shares = config.svm == SvmMode::Machine && config.machine.gpus.iter().any(|gpu| gpu.svm);
    let mmap = config.faults.concerns("mmap").then_some(libc::SYS_mmap);
    mmap.into_iter().chain(shares.then_some(libc::SYS_munmap)).collect()
}

/// What a [`Supervisor::wait`] found.
struct Ready {
    call: bool,
    hung_up: bool,
    signal: bool,
    dead: Vec<u32>,
}
