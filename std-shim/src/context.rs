//! A context's life: open, close, fork; and the lock that writers take.
//!
//! In: calls of any thread, in any order. Out: [`Context::query_pointer`] (`query`), which takes no lock, and
//! `Context::manage`, which gives one caller at a time the memory manager. What never happens: a query that waits for a
//! writer, a child that waits for a lock of its parent's threads, an object of a closed channel that a query still finds.
//!
//! Readers touch [`crate::shared`] alone. What a writer needs besides (manager, device, counts) is the `State` behind
//! the shelf's lock. In a forked child the shelf is wiped, `live` is 0, and the state is the parent's: the child leaves
//! it where it is, closes the descriptors it inherited - all of them, once, before it has any of its own - and begins
//! anew when it opens.

mod query;

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use hsakmt_core::address::PageSize;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::manager::{Manager, Opened};
use hsakmt_core::reader::Reader;
use hsakmt_core::registry::Writer;

use crate::backend::{Backend, open_kfd};
use crate::connection::Connection;
use crate::events::EventPage;
use crate::lock::Held;
use crate::memory::Mmap;
use crate::queues::Queues;
use crate::reason::Reason;
use crate::shared::{CONTEXTS, SHARED, Shelf};
use crate::thread::{self, Threads};
use crate::{environment, snapshots, system};

/// The major version of the kernel driver's interface that this library speaks.
const KFD_MAJOR: u32 = 1;

/// The memory manager of a context.
pub type ContextManager = Manager<'static, Box<dyn Backend>, Threads, Mmap>;

/// The writer of a context.
type ContextWriter = Writer<'static, Threads, Mmap>;

/// What only the holder of a shelf's lock touches.
struct State {
    /// The open channel's. On the heap, so that opening and closing need little stack.
    manager: Option<Box<ContextManager>>,
    /// A closed channel's writer: its memory stays, so that node lists given out stay readable.
    parked: Option<Box<ContextWriter>>,
    /// The minor version of the open channel's interface.
    kfd_minor: u32,
    /// Where events have their slots.
    event_page: EventPage,
    /// The open channel's.
    queues: Queues,
}

/// A shelf's state; written first when the shelf comes alive.
struct StateCell(UnsafeCell<MaybeUninit<State>>);

// SAFETY: reached only through `Context::locked`, that is with the shelf's lock held.
unsafe impl Sync for StateCell {}

static STATES: [StateCell; CONTEXTS] = [const { StateCell(UnsafeCell::new(MaybeUninit::uninit())) }; CONTEXTS];

/// How often each context is open. Outside the wiped memory: a child still knows what its parent had.
static OPENS: [AtomicU32; CONTEXTS] = [const { AtomicU32::new(0) }; CONTEXTS];

/// How many processes, this one and those it was forked from, have had a context alive. Outside of the wiped memory.
static PROCESS: AtomicUsize = AtomicUsize::new(0);

/// Versions a process may publish before their numbers could be a forked child's: a million a second for twelve days. A
/// caller that remembers a generation of the parent's never takes one of the child's for it.
const OF_A_PROCESS: usize = 1 << (usize::BITS / 8 * 5);

/// Descriptors of one context that a child inherits and must close, plus 1; 0 is none.
type Inherited = [AtomicI32; 132];

static INHERITED: [Inherited; CONTEXTS] = [const { [const { AtomicI32::new(0) }; 132] }; CONTEXTS];

/// An open (or not yet open) channel with its objects. The primary one is what the plain C calls mean.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    index: usize,
    shelf: &'static Shelf,
}

/// A shelf that was taken for a context that has not opened yet; dropped, by an error or a panic, it is free again.
struct Unopened(Option<&'static Shelf>);

impl Drop for Unopened {
    fn drop(&mut self) {
        if let Some(shelf) = self.0 {
            shelf.taken.store(0, Ordering::Release);
        }
    }
}

/// The shelf's lock, and the state behind it.
struct Locked {
    _lock: Held,
    state: &'static mut State,
}

impl Context {
    /// The context of the plain calls.
    #[inline(always)]
    pub fn primary() -> Context {
        Context { index: 0, shelf: &SHARED.shelves[0] }
    }

    /// A reader for sessions: many questions under one guard. `None` when all slots are taken. It is this process's own: a
    /// forked child's copy answers [`Error::NotOpened`], and a child that has opened makes its own.
    pub fn reader(self) -> Option<Reader<'static, Threads>> {
        self.shelf.registry.readers().reader()
    }

    /// A new secondary context: a channel and a kernel process of its own, which shares nothing with the others but the
    /// topology. [`Error::NotSupported`] on a kernel that knows one process per process; [`Error::NoMemory`] when there
    /// are too many. Blocking.
    #[doc(alias = "hsaKmtOpenSecondaryKFDCtx")]
    pub fn open_secondary() -> Result<Context> {
        Context::new_secondary(open_kfd).map_err(|reason| reason.logged("hsaKmtOpenSecondaryKFDCtx"))
    }

    /// As [`Context::open_secondary`], on a channel that the caller makes.
    pub fn open_secondary_with(channel: impl FnOnce() -> Result<Box<dyn Backend>>) -> Result<Context> {
        let opened = Context::new_secondary(|| Ok(channel()?));
        opened.map_err(|reason| reason.logged("hsaKmtOpenSecondaryKFDCtx"))
    }

    fn new_secondary(channel: impl FnOnce() -> Result<Box<dyn Backend>, Reason>) -> Result<Context, Reason> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(2, Ordering::Relaxed);
        let free = |shelf: &Shelf| shelf.taken.compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let mut shelves = SHARED.shelves.iter().enumerate().skip(1);
        let (index, shelf) = shelves.find(|(_, shelf)| free(shelf)).ok_or(Error::NoMemory)?;
        let context = Context { index, shelf };
        let mut unopened = Unopened(Some(shelf));
        context.open_counted(|| {
            let channel = channel()?;
            channel.create_process().map_err(Reason::CreateProcess)?;
            Ok(channel)
        })?;
        unopened.0 = None;
        Ok(context)
    }

    /// Ends a secondary context with all its objects. [`Error::InvalidParameter`] for the primary, and for one that is
    /// not open in this process: of two calls at once one ends it. Blocking.
    #[doc(alias = "hsaKmtCloseSecondaryKFDCtx")]
    pub fn close_secondary(self) -> Result<()> {
        match self.shelf.taken.load(Ordering::Acquire) {
            0 => Err(Error::InvalidParameter),
            number => self.close_if(|| self.shelf.taken.load(Ordering::Relaxed) == number),
        }
    }

    /// What C callers hold: an address that is compared, never followed.
    pub fn as_raw(self) -> *const c_void {
        std::ptr::from_ref(self.shelf).cast()
    }

    /// The context of such an address; `None` for any other, and for a secondary one that is not open in this process.
    pub fn from_raw(raw: *const c_void) -> Option<Context> {
        let offset = raw.addr().checked_sub(SHARED.shelves.as_ptr().addr())?;
        let (index, rest) = (offset / size_of::<Shelf>(), offset % size_of::<Shelf>());
        let shelf = SHARED.shelves.get(index).filter(|_| rest == 0)?;
        (index == 0 || shelf.taken.load(Ordering::Acquire) != 0).then_some(Context { index, shelf })
    }

    /// Its place among the contexts.
    pub(crate) fn index(self) -> usize {
        self.index
    }

    /// Whether it is the one of the plain calls.
    pub fn is_primary(self) -> bool {
        self.index == 0
    }

    /// Whether it is open in this process. Wait-free.
    pub fn is_open(self) -> bool {
        self.shelf.registry.is_open()
    }

    /// Counts publishes: a caller's remembered answer is good while this has not moved, and in a forked child never again.
    /// Wait-free.
    pub fn generation(self) -> usize {
        self.shelf.registry.generation()
    }

    /// Opens `/dev/kfd`. Counted: [`Error::AlreadyOpened`] has counted too. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`] if the file does not open, [`Error::Failed`] if the driver does not say which version of the
    /// interface it speaks, or if a render node does not open for another reason than that it is missing or forbidden by a
    /// device cgroup; [`Error::DriverMismatch`] if it is not version 1. The reason is logged;
    /// [`Context::try_open_with`] returns it.
    #[doc(alias = "hsaKmtOpenKFD")]
    pub fn open(self) -> Result<()> {
        self.try_open_with(open_kfd).map_err(|reason| reason.logged("hsaKmtOpenKFD"))
    }

    /// Opens a channel of the caller's making. A secondary context that has been closed stays so: [`Error::NotOpened`].
    pub fn open_with(self, channel: impl FnOnce() -> Result<Box<dyn Backend>>) -> Result<()> {
        self.try_open_with(|| Ok(channel()?)).map_err(|reason| reason.logged("hsaKmtOpenKFD"))
    }

    /// As [`Context::open_with`], with the reason of a refusal, which is not logged. Blocking.
    ///
    /// # Errors
    /// Says what was refused, by what file or ioctl, and why.
    pub fn try_open_with(self, channel: impl FnOnce() -> Result<Box<dyn Backend>, Reason>) -> Result<(), Reason> {
        self.open_counted(|| if self.is_primary() { channel() } else { Err(Error::NotOpened.into()) })
    }

    fn open_counted(self, channel: impl FnOnce() -> Result<Box<dyn Backend>, Reason>) -> Result<(), Reason> {
        let lock = self.lock()?;
        if self.shelf.live.load(Ordering::Relaxed) == 0 {
            self.come_alive()?;
        }
        let locked = self.locked(lock).ok_or(Error::Failed)?;
        if locked.state.manager.is_some() {
            OPENS[self.index].fetch_add(1, Ordering::Relaxed);
            return Err(Error::AlreadyOpened.into());
        }
        environment::start_log();
        self.connect(locked.state, channel()?)?;
        OPENS[self.index].store(1, Ordering::Relaxed);
        Ok(())
    }

    /// A manager on a fresh channel. What goes wrong leaves the context closed, its writer parked.
    fn connect(self, state: &mut State, device: Box<dyn Backend>) -> Result<(), Reason> {
        let (major, minor) = device.version().map_err(Reason::Version)?;
        if major != KFD_MAJOR {
            return Err(Reason::Mismatch { major, minor });
        }
        // As in C, which opens the render nodes here: what it may not use this process learns at once. A secondary context
        // goes by what the primary has found.
        if self.is_primary() {
            device.check_topology(environment::use_svm())?;
        }
        let opened = environment::at_open(minor, self.index != 0);
        self.remember(&device.fds());
        let writer = self.writer(state)?;
        let assembled = assemble(state, writer, device, opened);
        let mut manager = assembled.inspect_err(|_| self.remember(&[]))?;
        // What is noted is another opening's, or a parent process's.
        let stands = snapshots::with(|table| (table.note_set_up(self.index, None), table.current()));
        let set_up = match stands.map(|(_, current)| current) {
            Ok(Some(topology)) => system::set_up(self, &mut manager, &topology),
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        };
        let connected = set_up.and_then(|()| Ok(self.connected(&manager, minor)?));
        if let Err(reason) = connected {
            self.remember(&[]);
            park(state, manager);
            return Err(reason);
        }
        manager.show();
        state.manager = Some(manager);
        state.kfd_minor = minor;
        Ok(())
    }

    /// The writer of the last channel, or the context's first.
    #[inline(never)]
    fn writer(self, state: &mut State) -> Result<Box<ContextWriter>> {
        if let Some(writer) = state.parked.take() {
            return Ok(writer);
        }
        let page = PageSize::new(rustix::param::page_size()).unwrap_or(PageSize::FOUR_KIB);
        Ok(Box::new(self.shelf.registry.writer(page, Mmap::new())?))
    }

    /// Closes once; the last close ends every object, gives their addresses back and closes the device. Blocking.
    #[doc(alias = "hsaKmtCloseKFD")]
    pub fn close(self) -> Result<()> {
        self.close_if(|| true)
    }

    /// Closes once, if `still` says, under the lock, that it is the context that was meant.
    fn close_if(self, still: impl FnOnce() -> bool) -> Result<()> {
        let lock = self.lock()?;
        if !still() {
            return Err(Error::InvalidParameter);
        }
        let opens = OPENS[self.index].load(Ordering::Relaxed);
        let Some(locked) = self.locked(lock) else { return self.close_inherited(opens) };
        if locked.state.manager.is_none() {
            return Err(Error::NotOpened);
        }
        OPENS[self.index].store(opens.saturating_sub(1), Ordering::Relaxed);
        if opens > 1 {
            return Ok(());
        }
        if let Some(mut manager) = locked.state.manager.take() {
            manager.hide();
            locked.state.queues.end_all(&mut manager);
            locked.state.event_page.close(&mut manager, self.is_primary());
            manager.tear_down();
            self.remember(&[]);
            // Of calls that wait it is the last but one: the device closes when they return.
            drop(snapshots::with(|table| table.set_connection(self.index, None)));
            park(locked.state, manager);
            // Of no use any more; the next opening does not look at it.
            drop(snapshots::with(|table| table.note_set_up(self.index, None)));
            // Whoever takes the shelf next waits for this lock before it opens.
            self.shelf.taken.store(0, Ordering::Release);
        }
        Ok(())
    }

    /// Shows the device to calls that need no memory manager. Out of line: opening needs little stack.
    #[inline(never)]
    fn connected(self, manager: &ContextManager, kfd_minor: u32) -> Result<()> {
        let new = Some(Arc::new(Connection::new(manager.driver().services(), kfd_minor)));
        // A close takes its own away: what stands there is a parent process's, whose descriptors this one has closed.
        std::mem::forget(snapshots::with(|table| table.set_connection(self.index, new))?);
        Ok(())
    }

    /// A forked child may close what its parent had open; nothing of the parent changes.
    fn close_inherited(self, opens: u32) -> Result<()> {
        let left = opens.checked_sub(1).ok_or(Error::NotOpened)?;
        OPENS[self.index].store(left, Ordering::Relaxed);
        if left == 0 {
            close_fds(self.index);
        }
        Ok(())
    }

    /// Notes the descriptors that a child must close.
    pub(crate) fn remember(self, fds: &[i32]) {
        let given = fds.iter().map(|fd| fd.saturating_add(1)).chain(std::iter::repeat(0));
        INHERITED[self.index].iter().zip(given).for_each(|(slot, fd)| slot.store(fd, Ordering::Relaxed));
    }

    /// Calls `look` with the memory manager: what the context has, at one instant. Blocking: it waits for writers, and they
    /// for it.
    ///
    /// # Errors
    /// [`Error::NotOpened`], and what `look` returns.
    pub fn inspect<T>(self, look: impl FnOnce(&ContextManager) -> Result<T>) -> Result<T> {
        self.manage(|manager| look(manager))
    }

    /// Runs a verb of the memory manager that has no method here, for benchmarks.
    ///
    /// # Safety
    /// The manager is not replaced or swapped with another context's: each has the descriptors that a forked child closes
    /// noted beside it.
    #[doc(hidden)]
    pub unsafe fn manage_mut<T>(self, verb: impl FnOnce(&mut ContextManager) -> Result<T>) -> Result<T> {
        self.manage(verb)
    }

    /// One caller at a time: runs a verb of the memory manager. Blocking: it waits for other writers, and the verb may
    /// wait for the device.
    #[inline]
    pub(crate) fn manage<T>(self, verb: impl FnOnce(&mut ContextManager) -> Result<T>) -> Result<T> {
        self.manage_or(verb)
    }

    /// [`Context::manage`] with errors of another kind.
    #[inline(always)]
    pub(crate) fn manage_or<T, E>(self, verb: impl FnOnce(&mut ContextManager) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        let locked = self.locked(self.lock()?).ok_or(Error::NotOpened)?;
        verb(locked.state.manager.as_mut().ok_or(Error::NotOpened)?)
    }

    /// [`Context::manage`] with the context's event page.
    pub(crate) fn manage_events<T>(
        self,
        verb: impl FnOnce(&mut ContextManager, &mut EventPage) -> Result<T>,
    ) -> Result<T> {
        let locked = self.locked(self.lock()?).ok_or(Error::NotOpened)?;
        let State { manager, event_page, .. } = locked.state;
        verb(manager.as_mut().ok_or(Error::NotOpened)?, event_page)
    }

    /// As [`Context::manage`], for verbs that also need the books of the queues.
    pub(crate) fn manage_queues<T>(
        self,
        verb: impl FnOnce(&mut ContextManager, &mut Queues) -> Result<T>,
    ) -> Result<T> {
        let locked = self.locked(self.lock()?).ok_or(Error::NotOpened)?;
        verb(locked.state.manager.as_mut().ok_or(Error::NotOpened)?, &mut locked.state.queues)
    }

    /// The minor version of the kernel driver's interface, as it was at open.
    pub(crate) fn kfd_minor(self) -> Result<u32> {
        let locked = self.locked(self.lock()?).ok_or(Error::NotOpened)?;
        if locked.state.manager.is_some() { Ok(locked.state.kfd_minor) } else { Err(Error::NotOpened) }
    }

    /// Takes the lock. [`Error::Failed`] for a thread that has it already: a signal handler or an allocator hook that
    /// interrupted a verb of its own thread would wait for itself. Nor does a thread wait that has another context's lock, or
    /// that of the topology snapshots: two such threads could wait for each other. A writer that panicked has given its lock
    /// back: it built its edit aside, so what is published is whole.
    #[inline(always)]
    fn lock(self) -> Result<Held> {
        // A fork must never find a lock taken that it does not wipe.
        SHARED.prepare();
        let me = thread::me().get();
        let has_none =
            || !SHARED.snapshots.is_owned_by(me) && SHARED.shelves.iter().all(|shelf| !shelf.lock.is_owned_by(me));
        self.shelf.lock.take(me, has_none).ok_or(Error::Failed)
    }

    /// The state, unless this process has none yet (never opened, or forked).
    #[inline(always)]
    fn locked(self, lock: Held) -> Option<Locked> {
        if self.shelf.live.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // SAFETY: the lock is held and goes into the result: no other reference to the cell's content exists.
        let cell = unsafe { &mut *STATES[self.index].0.get() };
        // SAFETY: `live` is 1 only after `come_alive` wrote the state, in this process.
        Some(Locked { _lock: lock, state: unsafe { cell.assume_init_mut() } })
    }

    /// First use in this process. A parent's state is overwritten without being dropped: it is the parent's.
    fn come_alive(self) -> Result<()> {
        part_from_parent()?;
        let first = PROCESS.load(Ordering::Relaxed).saturating_mul(OF_A_PROCESS).min(usize::MAX / 2);
        // SAFETY: at most half of what a word holds; the lock is held, and a registry that was not alive has no writer.
        unsafe { self.shelf.registry.count_from(first) };
        OPENS[self.index].store(0, Ordering::Relaxed);
        let fresh = State {
            manager: None,
            parked: None,
            kfd_minor: 0,
            event_page: EventPage::default(),
            queues: Queues::new(),
        };
        let fresh = MaybeUninit::new(fresh);
        // SAFETY: the lock is held by the caller, and while `live` is 0 nobody has a reference to the content.
        unsafe { STATES[self.index].0.get().write(fresh) };
        self.shelf.live.store(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A manager that shows nothing before all of it stands. Out of line, as [`park`] and [`Context::writer`] are: each moves
/// values of a few KiB, which are off the stack when it returns.
#[inline(never)]
fn assemble(
    state: &mut State,
    mut writer: Box<ContextWriter>,
    device: Box<dyn Backend>,
    opened: Opened,
) -> Result<Box<ContextManager>> {
    writer.close();
    writer.limit_retired(environment::retired_limit());
    // An object that a close without memory has left behind is no object of this channel.
    if writer.snapshot().iter().next().is_some()
        && let Err(error) = writer.clear_objects()
    {
        state.parked = Some(writer);
        return Err(error);
    }
    Manager::new_boxed(device, writer, opened)
}

/// Ends a channel; its writer waits for the next one.
#[inline(never)]
fn park(state: &mut State, manager: Box<ContextManager>) {
    let (device, writer) = manager.into_parts_boxed();
    state.parked = Some(Box::new(writer));
    drop(device);
}

/// Once per process, before anything in it is alive: closes what a parent had open. Whatever [`INHERITED`] says later is
/// this process's own. [`Error::Failed`] for a signal handler that interrupted just this.
fn part_from_parent() -> Result<()> {
    // Acquire, Release: whoever sees 1 sees every slot empty, and fills its own after that.
    if SHARED.parted.load(Ordering::Acquire) == 1 {
        return Ok(());
    }
    // No other lock is taken while this one is held.
    let _held = SHARED.parting.take(thread::me().get(), || true).ok_or(Error::Failed)?;
    if SHARED.parted.load(Ordering::Relaxed) == 0 {
        (0..CONTEXTS).for_each(close_fds);
        PROCESS.fetch_add(1, Ordering::Relaxed);
        SHARED.parted.store(1, Ordering::Release);
    }
    Ok(())
}

/// Closes the descriptors of a context that lives in a parent of this process only.
fn close_fds(index: usize) {
    for slot in &INHERITED[index] {
        let fd = slot.swap(0, Ordering::Relaxed);
        if fd > 0 {
            // SAFETY: noted by `remember` in the parent, where the owner still has it; here, in the child, that owner is
            // abandoned with the parent's state and will never use or close it.
            drop(unsafe { OwnedFd::from_raw_fd(fd - 1) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;

    #[test]
    fn descriptors_are_a_parents_only_until_the_first_context_comes_alive() {
        let pipe = || std::io::pipe().unwrap();
        let context = |index: usize| Context { index, shelf: &SHARED.shelves[index] };
        let come_alive = |context: Context| {
            let _held = context.lock().unwrap();
            context.come_alive().unwrap();
        };
        let [theirs, ours, third] = [60, 61, 62].map(context);
        // As in a fork's child: noted, and nothing alive yet.
        let (reader, mut writer) = pipe();
        theirs.remember(&[reader.into_raw_fd()]);
        come_alive(ours);
        assert!(std::io::Write::write(&mut writer, b"x").is_err(), "the reading end is closed");
        // Another thread that is a moment behind must not take this process's own for a parent's.
        let (reader, mut writer) = pipe();
        theirs.remember(&[reader.as_raw_fd()]);
        come_alive(third);
        assert!(std::io::Write::write(&mut writer, b"x").is_ok());
        theirs.remember(&[]);
    }
}
