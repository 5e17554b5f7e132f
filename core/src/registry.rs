//! One writer, many readers, and the single store that connects them.
//!
//! A [`Registry`] is what both sides share: the root, the generation beside it, and the domain that tracks readers.
//! [`Registry::split`] gives the [`Writer`], of which there is never more than one, and [`Readers`] to copy around.
//!
//! An edit is old version + change -> new version (`tree::edit`), then `publish`: one Release store of the
//! root. What the old version alone used is retired and comes back to the writer's pools when its grace period has
//! passed; periods are begun once per [`BATCH`] publishes, since each may interrupt every core. Before it promises
//! anything to a device a verb calls [`Writer::reserve`]; after that its edits take what is there and cannot fail.
//!
//! | atomic | store | load | what holds |
//! |---|---|---|---|
//! | `root` | `publish`, `open`, `close`: Release | reader: Acquire, inside the domain | a version is whole before it is seen |
//! | `generation` | `publish`: Release, after the root | anyone: Acquire | equal to a remembered one: nothing was published since |
//! | `writers` | `writer`, drop: AcqRel swap | itself | one writer at a time |

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::address::PageSize;
use crate::aperture::{Aperture, Layout};
use crate::epoch::{Domain, Grace, NEVER};
use crate::error::{Error, Result};
use crate::list::{List, Lists};
use crate::pool::{Chain, Memory, Pool};
use crate::reader::Readers;
use crate::record::Record;
use crate::snapshot::{GpuvmRoots, Snapshot};
use crate::tree::edit::{Edit, Limbo, Nodes};
use crate::tree::{ByAddress, LAST_KEY, Order, Root};
use crate::userptr::ByUserptr;

/// Publishes per grace period.
pub const BATCH: usize = if cfg!(test) { 8 } else { 1024 };

/// Publishes whose leftovers may wait for readers before writes are refused.
pub const MAX_WAITING: usize = 32 * BATCH;

/// What readers and the writer share.
#[derive(Debug)]
#[repr(C)]
pub struct Registry<D> {
    /// The newest version; null while closed, before the first writer, and in a child whose copy was wiped by fork.
    pub(crate) root: AtomicPtr<Snapshot>,
    generation: AtomicUsize,
    writers: AtomicUsize,
    pub(crate) domain: D,
}

#[cfg(feature = "alloc")]
impl Registry<crate::epoch::crossbeam::Crossbeam> {
    /// A registry whose readers are tracked by crossbeam-epoch.
    pub fn new() -> Self {
        Registry::with_domain(crate::epoch::crossbeam::Crossbeam::new())
    }
}

#[cfg(feature = "alloc")]
impl Default for Registry<crate::epoch::crossbeam::Crossbeam> {
    fn default() -> Self {
        Registry::new()
    }
}

impl<D> Registry<D> {
    /// A registry whose readers are tracked by `domain`; fit for a `static`.
    pub const fn with_domain(domain: D) -> Registry<D> {
        Registry {
            root: AtomicPtr::new(ptr::null_mut()),
            generation: AtomicUsize::new(0),
            writers: AtomicUsize::new(0),
            domain,
        }
    }

    /// The domain.
    pub fn domain(&self) -> &D {
        &self.domain
    }

    /// Whether there is anything to see. Wait-free, one load.
    #[inline]
    pub fn is_open(&self) -> bool {
        // Relaxed: nothing behind the pointer is read.
        !self.root.load(Ordering::Relaxed).is_null()
    }

    /// Counts publishes. A caller that remembers answers may use one as long as this has not moved since before it
    /// asked. Wait-free, one load.
    #[inline]
    pub fn generation(&self) -> usize {
        self.generation.load(Ordering::Acquire)
    }

    /// The newest version, for readers who are inside the domain by their own means.
    ///
    /// # Safety
    /// The caller is inside this registry's domain for all of `'s`.
    #[inline(always)]
    pub unsafe fn current<'s>(&self) -> Option<&'s Snapshot> {
        // SAFETY: not null means published, hence initialised before the Release store that this Acquire load pairs
        // with; inside the domain (contract) its memory is not reused.
        unsafe { self.root.load(Ordering::Acquire).as_ref() }
    }
}

impl<D: Domain> Registry<D> {
    /// The writer and the readers' side. The registry is open and empty.
    pub fn split<M: Memory>(&mut self, page: PageSize, memory: M) -> Result<(Writer<'_, D, M>, Readers<'_, D>)> {
        let writer = self.writer(page, memory)?;
        Ok((writer, Readers::new(self)))
    }

    /// The readers' side alone.
    pub fn readers(&self) -> Readers<'_, D> {
        Readers::new(self)
    }

    /// The writer alone, for a registry in a `static`. [`Error::AlreadyOpened`] while there is one.
    pub fn writer<M: Memory>(&self, page: PageSize, memory: M) -> Result<Writer<'_, D, M>> {
        if self.writers.swap(1, Ordering::AcqRel) != 0 {
            return Err(Error::AlreadyOpened);
        }
        let mut writer = Writer {
            registry: self,
            grace: self.domain.grace(),
            memory,
            nodes: Nodes::new(),
            snapshots: Pool::new(),
            layouts: Pool::new(),
            gpuvms: Pool::new(),
            lists: Lists::new(),
            current: None,
            opened: false,
            retired: Retired::new(),
            waiting: None,
            passed: 0,
        };
        writer.begin(page)?;
        Ok(writer)
    }
}

/// What the newest version does not use, by size class.
struct Retired {
    trees: Limbo,
    snapshots: Chain<Snapshot>,
    layouts: Chain<Layout>,
    gpuvms: Chain<GpuvmRoots>,
    publishes: usize,
}

impl Retired {
    const fn new() -> Retired {
        Retired {
            trees: Limbo::new(),
            snapshots: Chain::new(),
            layouts: Chain::new(),
            gpuvms: Chain::new(),
            publishes: 0,
        }
    }
}

/// How a writer asks for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// At the address, whatever its size, if that is unambiguous (size 0 in C).
    Any,
    /// At the address, with this size if it is a userptr.
    Exact(usize),
    /// The address may be anywhere inside.
    Range,
}

/// The write side: the only one who allocates, edits, publishes and reclaims.
pub struct Writer<'r, D: Domain + 'r, M: Memory> {
    registry: &'r Registry<D>,
    grace: D::Grace<'r>,
    memory: M,
    nodes: Nodes,
    snapshots: Pool<Snapshot>,
    layouts: Pool<Layout>,
    gpuvms: Pool<GpuvmRoots>,
    lists: Lists,
    /// The newest version, `None` only until `begin` has made the first.
    current: Option<NonNull<Snapshot>>,
    opened: bool,
    retired: Retired,
    waiting: Option<(usize, Retired)>,
    /// Grace periods that have passed.
    passed: usize,
}

// SAFETY: the pointers inside are to memory that the writer alone manages; `M` and the grace side decide for themselves.
unsafe impl<'r, D: Domain + 'r, M: Memory + Send> Send for Writer<'r, D, M> where D::Grace<'r>: Send {}

impl<'r, D: Domain, M: Memory> Writer<'r, D, M> {
    fn begin(&mut self, page: PageSize) -> Result<()> {
        self.snapshots.reserve(1, &mut self.memory)?;
        self.layouts.reserve(1, &mut self.memory)?;
        let layout = self.layouts.make(Layout::empty(page)).ok_or(Error::NoMemory)?;
        let first = Snapshot {
            generation: self.registry.generation.load(Ordering::Relaxed),
            layout,
            svm: Root::EMPTY,
            userptrs: Root::EMPTY,
            svm_alt: Root::EMPTY,
            mem_handle: Root::EMPTY,
            cpuvm: Root::EMPTY,
            gpuvm: None,
        };
        self.opened = true;
        self.publish(first)
    }

    /// The readers' side.
    pub fn readers(&self) -> Readers<'r, D> {
        Readers::new(self.registry)
    }

    /// Where memory comes from, for what else the writer's side keeps.
    pub(crate) fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The newest version. The writer needs no guard: it is the one who would retire it.
    pub fn snapshot(&self) -> &Snapshot {
        // SAFETY: `current` is always `Some` once `begin` succeeded, without which there is no writer to call this on;
        // only `&mut self` methods retire or reuse versions.
        unsafe { self.current.unwrap_or(NonNull::dangling()).as_ref() }
    }

    /// Bounds, page size and node table of the newest version.
    pub fn layout(&self) -> &Layout {
        self.snapshot().layout()
    }

    /// SPEC's `find`: routes the address, then asks the userptr index, the address index, and CPUVM.
    pub(crate) fn find(&self, address: usize, wanted: Wanted) -> Option<(Aperture, Record)> {
        let (snapshot, layout) = (self.snapshot(), self.layout());
        let route = layout.route(address);
        let userptr = || match wanted {
            Wanted::Any => snapshot.userptrs().only_at(address),
            Wanted::Exact(size) => snapshot.userptrs().exact(crate::tree::node::Key { address, size }),
            Wanted::Range => snapshot.userptrs().stab(address),
        };
        if route.userptr
            && let Some(found) = userptr()
        {
            return Some((Aperture::Svm, *found));
        }
        if let Some(aperture) = route.address
            && let Some(found) = self.find_object(aperture, address, wanted)
        {
            return Some((aperture, found));
        }
        if !route.cpuvm {
            return None;
        }
        let found = match wanted {
            Wanted::Range => self.find_inside(Aperture::Cpuvm, address),
            Wanted::Any | Wanted::Exact(_) => self.find_start(Aperture::Cpuvm, address),
        };
        found.map(|record| (Aperture::Cpuvm, record))
    }

    /// The address index's part: exact finds round down to the page, and a userptr found so must agree in its page
    /// offset and, if one is given, its size.
    fn find_object(&self, aperture: Aperture, address: usize, wanted: Wanted) -> Option<Record> {
        if wanted == Wanted::Range {
            return self.find_inside(aperture, address);
        }
        let page = self.layout().page;
        let record = self.find_start(aperture, page.floor(address))?;
        let size_fits = !matches!(wanted, Wanted::Exact(size) if size != record.size);
        let fits = !record.is_userptr() || (page.offset(record.cpu) == page.offset(address) && size_fits);
        fits.then_some(record)
    }

    /// Of several userptrs that share a base, the smallest: what the manager's Deregister and Free end first.
    pub(crate) fn smallest_userptr_at(&self, address: usize) -> Option<(Aperture, Record)> {
        if !self.layout().route(address).userptr {
            return None;
        }
        self.snapshot().userptrs().smallest_at(address).map(|record| (Aperture::Svm, *record))
    }

    /// The object of an address index that starts at `start`.
    pub(crate) fn find_start(&self, aperture: Aperture, start: usize) -> Option<Record> {
        self.snapshot().objects(aperture).floor(start).copied().filter(|record| record.start == start)
    }

    /// The object of an address index that holds `address`.
    pub(crate) fn find_inside(&self, aperture: Aperture, address: usize) -> Option<Record> {
        self.snapshot().inside(aperture, address).copied()
    }

    /// The first object of an address index that starts at `from` or later.
    pub(crate) fn next(&self, aperture: Aperture, from: usize) -> Option<Record> {
        self.snapshot().objects(aperture).ceil(from).copied()
    }

    /// Adds an object and publishes. Both indexes at once for a userptr.
    pub(crate) fn insert(&mut self, aperture: Aperture, record: Record) -> Result<()> {
        let end = record.start.checked_add(record.extent(self.layout().page)).filter(|end| *end < LAST_KEY);
        let user_end = record.cpu.checked_add(record.size).filter(|end| *end < LAST_KEY);
        if end.is_none() || record.size == 0 || (record.is_userptr() && user_end.is_none()) {
            return Err(Error::InvalidParameter);
        }
        if self.find_start(aperture, record.start).is_some() {
            return Err(Error::Failed);
        }
        self.top_up(1)?;
        self.edit(aperture, &record, |edit, root| edit.insert(root, &record), |edit, root| edit.insert(root, &record))
    }

    /// Replaces the object with the same start (and the same userptr) and publishes.
    pub(crate) fn replace(&mut self, aperture: Aperture, record: Record) -> Result<()> {
        let known = self.find_start(aperture, record.start).ok_or(Error::Failed)?;
        if known.is_userptr() != record.is_userptr() || ByUserptr::key(&known) != ByUserptr::key(&record) {
            return Err(Error::Failed);
        }
        self.top_up(1)?;
        self.replace_known(aperture, &record)
    }

    /// The same for a verb that has just found the record and reserved.
    pub(crate) fn replace_known(&mut self, aperture: Aperture, record: &Record) -> Result<()> {
        self.edit(aperture, record, |edit, root| edit.replace(root, record), |edit, root| edit.replace(root, record))
    }

    /// Takes the object at `start` away and publishes.
    pub(crate) fn remove(&mut self, aperture: Aperture, start: usize) -> Result<()> {
        let known = self.find_start(aperture, start).ok_or(Error::Failed)?;
        self.top_up(1)?;
        let (by_address, by_userptr) = (ByAddress::key(&known), ByUserptr::key(&known));
        self.edit(
            aperture,
            &known,
            |edit, root| edit.remove(root, by_address),
            |edit, root| edit.remove(root, by_userptr),
        )
    }

    /// One change to one object, in its address index and, for a userptr, in the userptr index; then publishes.
    fn edit(
        &mut self,
        aperture: Aperture,
        record: &Record,
        objects: impl FnOnce(&mut Edit<'_>, Root<ByAddress>) -> Result<Root<ByAddress>>,
        userptrs: impl FnOnce(&mut Edit<'_>, Root<ByUserptr>) -> Result<Root<ByUserptr>>,
    ) -> Result<()> {
        let mut next = *self.snapshot();
        let mut edit = Edit { nodes: &mut self.nodes, limbo: &mut self.retired.trees };
        let root = objects(&mut edit, next.root(aperture))?;
        if record.is_userptr() {
            next.userptrs = userptrs(&mut edit, next.userptrs)?;
        }
        match aperture {
            Aperture::Svm => next.svm = root,
            Aperture::SvmAlt => next.svm_alt = root,
            Aperture::MemHandle => next.mem_handle = root,
            Aperture::Cpuvm => next.cpuvm = root,
            Aperture::Gpuvm(position) => self.set_gpuvm(&mut next, position, root)?,
        }
        self.publish(next)
    }

    fn set_gpuvm(&mut self, next: &mut Snapshot, position: u8, root: Root<ByAddress>) -> Result<()> {
        let mut roots = next.gpuvm_roots();
        *roots.get_mut(usize::from(position)).ok_or(Error::Failed)? = root;
        if let Some(old) = next.gpuvm {
            // SAFETY: from this pool, part of the version that is about to be replaced, retired once.
            unsafe { self.retired.gpuvms.push(old) };
        }
        next.gpuvm = Some(self.gpuvms.make(roots).ok_or(Error::NoMemory)?);
        Ok(())
    }

    /// Other bounds, page size or node table, with the objects kept. Publishes.
    pub fn set_layout(&mut self, layout: Layout) -> Result<()> {
        self.reserve(1)?;
        self.layouts.reserve(1, &mut self.memory)?;
        let mut next = *self.snapshot();
        let old = core::mem::replace(&mut next.layout, self.layouts.make(layout).ok_or(Error::NoMemory)?);
        // SAFETY: from this pool; the version that used it is being replaced, and retired no later than its layout.
        unsafe { self.retired.layouts.push(old) };
        self.publish(next)
    }

    /// Takes every object away, then the layout. Publishes after each; the lists of the records are the caller's.
    pub(crate) fn clear(&mut self) -> Result<()> {
        let gpuvm = (0..self.layout().gpuvm_count).map(Aperture::Gpuvm);
        let fixed = [Aperture::Svm, Aperture::SvmAlt, Aperture::MemHandle, Aperture::Cpuvm];
        for aperture in fixed.into_iter().chain(gpuvm) {
            while let Some(record) = self.next(aperture, 0) {
                self.remove(aperture, record.start)?;
            }
        }
        self.set_layout(Layout::empty(self.layout().page))
    }

    /// Hides everything: readers get [`Error::NotOpened`] until [`Writer::open`].
    pub fn close(&mut self) {
        self.opened = false;
        // Release for uniformity: null carries nothing.
        self.registry.root.store(ptr::null_mut(), Ordering::Release);
    }

    /// Shows the newest version again.
    pub fn open(&mut self) {
        self.opened = true;
        self.show();
    }

    /// The single store of a root that readers may follow.
    fn show(&self) {
        let newest = self.current.map_or(ptr::null_mut(), NonNull::as_ptr);
        self.registry.root.store(newest, Ordering::Release);
    }

    /// Makes `next` the newest version. [`Writer::reserve`] has seen to its slot.
    fn publish(&mut self, mut next: Snapshot) -> Result<()> {
        next.generation = next.generation.wrapping_add(1);
        let next_generation = next.generation;
        let next = self.snapshots.make(next).ok_or(Error::NoMemory)?;
        let old = self.current.replace(next);
        if self.opened {
            self.show();
        }
        self.registry.generation.store(next_generation, Ordering::Release);
        if let Some(old) = old {
            // SAFETY: from this pool, replaced just now, retired once.
            unsafe { self.retired.snapshots.push(old) };
        }
        self.retired.publishes += 1;
        Ok(())
    }

    /// Makes the next `edits` inserts, replacements and removals impossible to fail for want of memory.
    /// [`Error::ReadersStalled`] when too much waits for a reader that does not move.
    pub fn reserve(&mut self, edits: usize) -> Result<()> {
        self.reclaim();
        if self.retired.publishes >= MAX_WAITING {
            self.wait_for_readers()?;
        }
        self.top_up(edits)
    }

    /// The same for verbs that end or unmap something, which a stalled reader must not refuse: they go on for as long as
    /// there is memory.
    pub(crate) fn reserve_to_end(&mut self, edits: usize) -> Result<()> {
        self.reclaim();
        self.top_up(edits)
    }

    /// The part of `reserve` that an edit repeats: does nothing when the verb has reserved.
    fn top_up(&mut self, edits: usize) -> Result<()> {
        let (height, userptrs) = (self.snapshot().height(), self.snapshot().userptrs.height());
        if !self.nodes.hold(edits, height, userptrs) {
            self.nodes.reserve(edits, height, userptrs, &mut self.memory)?;
        }
        self.snapshots.reserve(edits, &mut self.memory)?;
        if self.layout().gpuvm_count > 0 {
            self.gpuvms.reserve(edits, &mut self.memory)?;
        }
        Ok(())
    }

    #[cold]
    fn wait_for_readers(&mut self) -> Result<()> {
        for attempt in 0.. {
            self.reclaim();
            if self.retired.publishes < MAX_WAITING {
                return Ok(());
            }
            if !self.grace.pause(attempt) {
                break;
            }
        }
        Err(Error::ReadersStalled)
    }

    /// Takes back what has waited long enough, and starts the next period when a batch is full.
    fn reclaim(&mut self) {
        if self.grace.alone() {
            return self.reclaim_all();
        }
        if let Some((mut period, mut batch)) = self.waiting.take() {
            if period == NEVER {
                period = self.grace.begin();
            }
            if self.grace.passed(period) {
                self.take_back(&mut batch);
                self.turn(batch.publishes);
            } else {
                self.waiting = Some((period, batch));
            }
        }
        if self.waiting.is_none() && self.retired.publishes >= BATCH {
            let batch = core::mem::replace(&mut self.retired, Retired::new());
            self.waiting = Some((self.grace.begin(), batch));
        }
    }

    /// Takes everything back: there is no reader.
    fn reclaim_all(&mut self) {
        if let Some((_, mut batch)) = self.waiting.take() {
            self.take_back(&mut batch);
            self.retired.publishes += batch.publishes;
        }
        let mut batch = core::mem::replace(&mut self.retired, Retired::new());
        self.take_back(&mut batch);
        if batch.publishes >= BATCH {
            self.turn(batch.publishes);
        } else {
            // Lists given to C callers live by the count of publishes and periods, readers or not.
            self.retired.publishes = batch.publishes;
        }
    }

    fn take_back(&mut self, batch: &mut Retired) {
        self.nodes.leaves.give_all(&mut batch.trees.leaves);
        self.nodes.branches.give_all(&mut batch.trees.branches);
        self.nodes.reaching.give_all(&mut batch.trees.reaching);
        self.snapshots.give_all(&mut batch.snapshots);
        self.layouts.give_all(&mut batch.layouts);
        self.gpuvms.give_all(&mut batch.gpuvms);
    }

    /// A period has passed.
    fn turn(&mut self, publishes: usize) {
        self.passed += 1;
        let generation = self.snapshot().generation;
        self.lists.reclaim(generation, self.passed, publishes, &mut self.memory);
    }

    /// The list of `id(0), ..., id(len - 1)`, held once more; [`Writer::release`] ends the hold.
    pub(crate) fn intern(&mut self, len: usize, id: impl Fn(usize) -> u32) -> Result<List> {
        self.lists.intern(len, id, &mut self.memory)
    }

    /// Ends one hold of a list.
    pub(crate) fn release(&mut self, list: List) {
        let generation = self.snapshot().generation;
        self.lists.release(list, generation, self.passed);
    }
}

impl<'r, D: Domain + 'r, M: Memory> Drop for Writer<'r, D, M> {
    /// Hides everything and gives the memory back, unless a reader stays inside: then it is left to it.
    fn drop(&mut self) {
        self.registry.root.store(ptr::null_mut(), Ordering::Release);
        let period = self.grace.begin();
        let mut attempts = 0..;
        let left = loop {
            if self.grace.passed(period) {
                break true;
            }
            if !attempts.next().is_some_and(|attempt| self.grace.pause(attempt)) {
                break false;
            }
        };
        if left {
            let memory = &mut self.memory;
            // SAFETY: the root is null and every reader that may have loaded an older one has left.
            unsafe { self.nodes.leaves.dissolve(memory) };
            // SAFETY: as above.
            unsafe { self.nodes.branches.dissolve(memory) };
            // SAFETY: as above.
            unsafe { self.nodes.reaching.dissolve(memory) };
            // SAFETY: as above.
            unsafe { self.snapshots.dissolve(memory) };
            // SAFETY: as above.
            unsafe { self.layouts.dissolve(memory) };
            // SAFETY: as above.
            unsafe { self.gpuvms.dissolve(memory) };
            // SAFETY: as above; the lists of the last version go with it.
            unsafe { self.lists.dissolve(memory) };
        }
        self.registry.writers.store(0, Ordering::Release);
    }
}

impl<D: Domain, M: Memory> core::fmt::Debug for Writer<'_, D, M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Writer").field("generation", &self.snapshot().generation).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
