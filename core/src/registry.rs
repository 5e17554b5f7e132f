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
use crate::index::{self, IndexRoot};
use crate::list::{List, Lists};
use crate::pool::{Memory, Nothing};
use crate::primitive::{AtomicPtr, AtomicUsize, Ordering, const_fn};
use crate::reader::Readers;
use crate::record::Record;
use crate::snapshot::Snapshot;
use crate::tree::Root;
use crate::version::{Published, Version};

/// What readers and the writer share.
#[derive(Debug)]
#[repr(C)]
pub struct Registry<D> {
    /// The newest version ([`Published`]); null while closed, before the first writer, and in a child whose copy was wiped by
    /// fork.
    pub(crate) root: AtomicPtr<u8>,
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
        Published::from_raw(self.root.load(Ordering::Acquire)).map(|published| unsafe { Snapshot::new(published) })
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
            uses_pages: index::uses_pages::<M>(page),
            in_bounds: true,
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
    current: Option<Published>,
    /// Objects stand in page indexes.
    uses_pages: bool,
    /// Each object of the SVM index lies in SVM by the newest layout.
    in_bounds: bool,
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
        self.pools.versions.reserve(1, &mut self.memory)?;
        self.pools.layouts.reserve(1, &mut self.memory)?;
        if self.uses_pages {
            self.pools.nodes.pages.reserve(1, &mut self.memory)?;
        }
        let layout = self.pools.layouts.make(Layout::empty(page)).ok_or(Error::NoMemory)?;
        let first = Version {
            generation: self.registry.generation.load(Ordering::Relaxed),
            layout,
            svm: IndexRoot::EMPTY,
            userptrs: Root::EMPTY,
            svm_alt: IndexRoot::EMPTY,
            mem_handle: IndexRoot::EMPTY,
            cpuvm: IndexRoot::EMPTY,
            gpuvm: None,
        };
        self.opened = true;
        self.publish(first, None)
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

    /// The newest version. The writer needs no guard: only its own `&mut self` methods retire or reuse versions.
    pub fn snapshot(&self) -> Snapshot<'_> {
        // SAFETY: `current` is always `Some` once `begin` succeeded, without which there is no writer to call this on.
        let newest = unsafe { self.current.unwrap_unchecked() };
        // SAFETY: the newest version is not retired while the writer is borrowed.
        unsafe { Snapshot::new(newest) }
    }

    #[inline(always)]
    pub(crate) fn version(&self) -> &Version {
        self.snapshot().version()
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
        let newest = self.current.map_or(ptr::null_mut(), Published::raw);
        self.registry.root.store(newest, Ordering::Release);
    }

    /// Makes `next` the newest version, which no longer has the record `gone`. [`Writer::reserve`] has seen to the memory.
    fn publish(&mut self, mut next: Version, gone: Option<NonNull<Record>>) -> Result<()> {
        next.generation = next.generation.wrapping_add(1);
        let generation = next.generation;
        let version = self.pools.versions.take().ok_or(Error::NoMemory)?;
        let published = if self.uses_pages {
            let top = self.index_edit(generation).of_pages().top(next.svm.word(), version)?;
            next.svm = top.into();
            // SAFETY: alive for as long as the version that is being published.
            let layout = unsafe { next.layout.as_ref() };
            Published::of_pages(top, self.in_bounds && layout.asks_svm_first())
        } else {
            Published::of_version(version)
        };
        // SAFETY: a slot just taken is valid for a `Version` and the writer's alone.
        unsafe { version.write(next) };
        let old = self.current.replace(published);
        if self.opened {
            self.show();
        }
        self.registry.generation.store(generation, Ordering::Release);
        if let Some(old) = old {
            self.retired.version(old.version_pointer(), gone);
        }
        Ok(())
    }

    /// The nodes for an edit that makes this version.
    fn index_edit(&mut self, generation: usize) -> index::Edit<'_> {
        index::Edit { nodes: &mut self.pools.nodes, retired: &mut self.retired.nodes, generation }
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
pub(crate) mod tests;
