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

mod change;
mod find;
mod reclaim;

pub use crate::list::{KEEP_EPOCHS, KEEP_PUBLISHES, MAX_LIST};
pub(crate) use find::Wanted;
#[cfg(not(loom))]
pub(crate) use reclaim::ENDING_EDITS;
pub use reclaim::{BATCH, RETIRED_LIMIT};

use reclaim::{Pools, Retired};

use core::ptr::{self, NonNull};

use crate::address::PageSize;
use crate::aperture::Layout;
use crate::epoch::{Domain, Grace};
use crate::error::{Error, Result};
use crate::list::{List, Lists};
use crate::pool::{Memory, Nothing};
use crate::primitive::{AtomicPtr, AtomicUsize, Ordering, const_fn};
use crate::reader::Readers;
use crate::snapshot::Snapshot;
use crate::tree::Root;
use crate::version::Version;

/// What readers and the writer share.
#[derive(Debug)]
#[repr(C)]
pub struct Registry<D> {
    /// The newest version; null while closed, before the first writer, and in a child whose copy was wiped by fork.
    pub(crate) root: AtomicPtr<Version>,
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
    const_fn! {
        /// A registry whose readers are tracked by `domain`; fit for a `static`.
        pub const fn with_domain(domain: D) -> Registry<D> {
            Registry {
                root: AtomicPtr::new(ptr::null_mut()),
                generation: AtomicUsize::new(0),
                writers: AtomicUsize::new(0),
                domain,
            }
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
    /// asked. Wait-free, one load. A word: where that is 32 bits, it is the same again 2^32 publishes later.
    #[inline]
    pub fn generation(&self) -> usize {
        self.generation.load(Ordering::Acquire)
    }

    /// Counts on from `generation`, if it has not come so far: for a forked child, so that no version of its own has a number
    /// that its parent's had.
    ///
    /// # Safety
    /// `generation` is at most half of [`usize::MAX`], so that generations never start over, and there is no writer: one
    /// that is there goes on with its own count.
    #[doc(hidden)]
    pub unsafe fn count_from(&self, generation: usize) {
        self.generation.fetch_max(generation, Ordering::AcqRel);
    }

    /// The newest version, for readers that are inside the domain by their own means.
    ///
    /// # Safety
    /// The caller is inside this registry's domain for all of `'s`.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn current<'s>(&self) -> Option<Snapshot<'s>> {
        // SAFETY: not null means published, hence initialised before the Release store that this Acquire load pairs
        // with; inside the domain (contract) its memory is not reused.
        unsafe { self.root.load(Ordering::Acquire).as_ref() }.map(Snapshot::new)
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
            // SAFETY: `reclaim` begins no period while a batch waits for one; the drop begins one more.
            grace: unsafe { self.domain.grace() },
            memory,
            pools: Pools::new(),
            lists: Lists::new(),
            current: None,
            opened: false,
            retired: Retired::new(),
            waiting: None,
            limit: RETIRED_LIMIT,
            over_limit: false,
            stalled: false,
            reclaimed: self.generation.load(Ordering::Relaxed),
            passed: 0,
        };
        writer.begin(page)?;
        Ok(writer)
    }
}

/// The write side: the only one who allocates, edits, publishes and reclaims.
pub struct Writer<'r, D: Domain + 'r, M: Memory> {
    registry: &'r Registry<D>,
    grace: D::Grace<'r>,
    memory: M,
    pools: Pools,
    lists: Lists,
    /// The newest version, `None` only until `begin` has made the first.
    current: Option<NonNull<Version>>,
    opened: bool,
    retired: Retired,
    waiting: Option<(usize, Retired)>,
    /// Bytes that may wait for readers.
    limit: usize,
    /// More waited when `reclaim` last ran.
    over_limit: bool,
    /// A write has paused for readers in vain, and no period has passed since.
    stalled: bool,
    /// The generation at which memory was last asked back.
    reclaimed: usize,
    /// Grace periods that have passed.
    passed: usize,
}

// SAFETY: the pointers inside are to memory that the writer alone manages; `M` and the grace side decide for themselves.
unsafe impl<'r, D: Domain + 'r, M: Memory + Send> Send for Writer<'r, D, M> where D::Grace<'r>: Send {}

impl<'r, D: Domain, M: Memory> Writer<'r, D, M> {
    fn begin(&mut self, page: PageSize) -> Result<()> {
        self.pools.snapshots.reserve(1, &mut self.memory)?;
        self.pools.layouts.reserve(1, &mut self.memory)?;
        let layout = self.pools.layouts.make(Layout::empty(page)).ok_or(Error::NoMemory)?;
        let first = Version {
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

    /// Where memory comes from: how much of it is left, for one.
    pub fn source(&self) -> &M {
        &self.memory
    }

    /// The newest version. The writer needs no guard: it is the one who would retire it.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::new(self.version())
    }

    #[inline(always)]
    pub(crate) fn version(&self) -> &Version {
        // SAFETY: `current` is always `Some` once `begin` succeeded, without which there is no writer to call this on;
        // only `&mut self` methods retire or reuse versions.
        unsafe { self.current.unwrap_or(NonNull::dangling()).as_ref() }
    }

    /// Bounds, page size and node table of the newest version.
    pub fn layout(&self) -> &Layout {
        self.version().layout()
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
    fn publish(&mut self, mut next: Version) -> Result<()> {
        next.generation = next.generation.wrapping_add(1);
        let next_generation = next.generation;
        let next = self.pools.snapshots.make(next).ok_or(Error::NoMemory)?;
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

    /// The list of `id(0), ..., id(len - 1)`, held once more; [`Writer::release`] ends the hold.
    pub(crate) fn intern(&mut self, len: usize, id: impl Fn(usize) -> u32) -> Result<List> {
        if M::SCARCE {
            // What waits, before more memory: pools never give any back.
            match self.lists.intern(len, &id, &mut Nothing) {
                Err(Error::NoMemory) if len <= MAX_LIST => self.reclaim_early(),
                known => return known,
            }
        }
        self.lists.intern(len, &id, &mut self.memory).or_else(|error| {
            if error == Error::NoMemory && len <= MAX_LIST {
                self.reclaim_early();
                return self.lists.intern(len, id, &mut self.memory);
            }
            Err(error)
        })
    }

    /// Ends one hold of a list.
    pub(crate) fn release(&mut self, list: List) {
        let generation = self.version().generation;
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
            // SAFETY: the root is null and every reader that may have loaded an older one has left.
            unsafe { self.pools.dissolve(&mut self.lists, &mut self.memory) };
        }
        self.registry.writers.store(0, Ordering::Release);
    }
}

impl<D: Domain, M: Memory> core::fmt::Debug for Writer<'_, D, M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Writer").field("generation", &self.version().generation).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "alloc"))]
mod stress;
#[cfg(all(test, feature = "alloc"))]
mod tests;
