//! Where versions get their nodes from and how they come back: the pools, what waits for readers, and the rule for when
//! to ask about them.
//!
//! In: what a publish has replaced. Out: nodes for the next edits. Retired memory goes in batches: a grace period may
//! interrupt every core, so one begins per [`BATCH`] publishes; a writer that is alone takes everything back every
//! [`ALONE_INTERVAL`] publishes, while it is still in the cache. What never happens: memory reused under a reader, and a
//! reader that pays for any of this.
//!
//! A reader that does not move holds a batch back, and all that is retired after it. When more than the limit waits
//! ([`Writer::limit_retired`]), one write pauses for the reader ([`Grace::pause`]); after that writes fail at once, until a
//! period passes.

use core::ptr::NonNull;

use super::Writer;
use crate::aperture::Layout;
use crate::epoch::{Domain, Grace, NEVER};
use crate::error::{Error, Result};
use crate::list::{KEEP_EPOCHS, Lists};
use crate::nodes::{Needs, Nodes, RetiredNodes, Sizes};
use crate::pool::{Chain, Memory, Pool, beside};
use crate::record::Record;
use crate::version::{GpuvmRoots, Version};

/// Publishes per grace period, unless the domain says otherwise. A machine with small addresses has little memory.
pub const BATCH: usize = match () {
    _ if cfg!(loom) => 1,
    _ if cfg!(test) => 8,
    _ if cfg!(target_pointer_width = "64") => 1024,
    _ => 8,
};

/// Bytes of replaced memory that may wait for readers before writes are refused, unless [`Writer::limit_retired`] says
/// otherwise. A machine with small addresses has little memory.
pub const RETIRED_LIMIT: usize = match () {
    _ if cfg!(any(test, loom)) => 256 << 10,
    _ if cfg!(target_pointer_width = "64") => 256 << 20,
    _ => 256 << 10,
};

/// How often a write tries to reclaim before it pauses or fails: crossbeam-epoch needs three attempts to end a period.
const ATTEMPTS: usize = 3;

/// Periods that are begun when memory is short: as many as end the lists of the last publish, and one under way before.
const EARLY_PERIODS: usize = KEEP_EPOCHS + 2;

/// Edits of a verb that ends an object: it is taken out, and put back if the device refuses.
pub(crate) const ENDING_EDITS: usize = 2;

/// Waiting lists that a short period looks at.
const EARLY_LISTS: usize = 8;

/// Publishes between two calls of [`Grace::alone`], which costs as much as a small edit.
const ALONE_INTERVAL: usize = if cfg!(loom) {
    1
} else if cfg!(test) {
    2
} else {
    8
};

/// What versions are made of, by size class.
pub(super) struct Pools {
    pub(super) nodes: Nodes,
    pub(super) versions: Pool<Version>,
    pub(super) layouts: Pool<Layout>,
    pub(super) gpuvms: Pool<GpuvmRoots>,
}

impl Pools {
    pub(super) const fn new() -> Pools {
        Pools { nodes: Nodes::new(), versions: Pool::new(), layouts: Pool::new(), gpuvms: Pool::new() }
    }

    /// Takes back a batch that no reader can see.
    fn take_back(&mut self, batch: &mut Retired) {
        self.nodes.take_back(&mut batch.nodes);
        for version in batch.versions.iter() {
            // SAFETY: `Retired::version` wrote it, and only the writer looks at it.
            if let Some(record) = unsafe { beside(version).read() } {
                // SAFETY: from this pool, in no chain; its last version was in this batch, so no reader can see it.
                unsafe { self.nodes.records.give(record) };
            }
        }
        self.versions.give_all(&mut batch.versions);
        self.layouts.give_all(&mut batch.layouts);
        self.gpuvms.give_all(&mut batch.gpuvms);
    }

    /// Gives everything back to the source.
    ///
    /// # Safety
    /// Nobody, reader or writer, uses anything of these pools any more, and all of it came from `memory`; so did `lists`.
    pub(super) unsafe fn dissolve(&mut self, lists: &mut Lists, memory: &mut impl Memory) {
        // SAFETY: by contract.
        unsafe { self.nodes.records.dissolve(memory) };
        // SAFETY: by contract.
        unsafe { self.nodes.pages.dissolve(memory) };
        // SAFETY: by contract.
        unsafe { self.nodes.branches.dissolve(memory) };
        // SAFETY: by contract.
        unsafe { self.nodes.intervals.dissolve(memory) };
        // SAFETY: by contract.
        unsafe { self.versions.dissolve(memory) };
        // SAFETY: by contract.
        unsafe { self.layouts.dissolve(memory) };
        // SAFETY: by contract.
        unsafe { self.gpuvms.dissolve(memory) };
        // SAFETY: by contract; the lists of the last version go with it.
        unsafe { lists.dissolve(memory) };
    }
}

/// What the newest version does not use, by size class.
pub(super) struct Retired {
    pub(super) nodes: RetiredNodes,
    versions: Chain<Version>,
    pub(super) layouts: Chain<Layout>,
    pub(super) gpuvms: Chain<GpuvmRoots>,
    /// How many versions were replaced. All but those that were taken back early are in `versions`.
    publishes: usize,
}

impl Retired {
    pub(super) const fn new() -> Retired {
        Retired {
            nodes: RetiredNodes::new(),
            versions: Chain::new(),
            layouts: Chain::new(),
            gpuvms: Chain::new(),
            publishes: 0,
        }
    }

    /// Retires the version that was just replaced, and the record that the new one no longer has.
    pub(super) fn version(&mut self, version: NonNull<Version>, gone: Option<NonNull<Record>>) {
        // SAFETY: what stands beside a version is the writer's.
        unsafe { beside(version).write(gone) };
        // SAFETY: from the writer's pool, replaced just now, retired once.
        unsafe { self.versions.push(version) };
        self.publishes += 1;
    }

    /// Bytes that it holds.
    fn bytes(&self) -> usize {
        let records = self.versions.len() * size_of::<Record>();
        self.nodes.bytes() + records + self.versions.bytes() + self.layouts.bytes() + self.gpuvms.bytes()
    }
}

/// The writer's side of `D`.
type GraceOf<'r, D> = <D as Domain>::Grace<'r>;

impl<'r, D: Domain, M: Memory> Writer<'r, D, M> {
    const BATCH: usize = if M::SCARCE { 1 } else { <GraceOf<'r, D> as Grace>::BATCH };
    /// Node lists of a scarce memory have no C callers.
    const KEEP_PUBLISHES: usize = if M::SCARCE { 0 } else { <GraceOf<'r, D> as Grace>::KEEP_PUBLISHES };

    /// Memory is little, or a period costs nothing: what was replaced comes back with the next write.
    const LITTLE: bool = Self::BATCH == 1 && !cfg!(loom);

    /// Edits kept in hand where memory is little: a verb that makes something leaves enough for one that ends it.
    pub(crate) const ENDING: usize = if Self::LITTLE { ENDING_EDITS } else { 0 };

    /// Sets how many bytes of replaced memory may wait for readers ([`RETIRED_LIMIT`] by default). A writer may pass the
    /// limit by what a few publishes retire. Has no effect where memory is scarce ([`Memory::SCARCE`]): there the
    /// memory's end is the limit.
    pub fn limit_retired(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// Makes the next `edits` inserts, replacements and removals impossible to fail for want of memory.
    ///
    /// # Errors
    /// [`Error::ReadersStalled`] when more than the limit ([`Writer::limit_retired`]) waits for a reader that does not
    /// move; [`Error::NoMemory`].
    pub fn reserve(&mut self, edits: usize) -> Result<()> {
        self.reserve_plain(edits.saturating_add(Self::ENDING))
    }

    /// As [`Writer::reserve`], without room for ending an object later.
    pub(crate) fn reserve_plain(&mut self, edits: usize) -> Result<()> {
        self.reclaim_at_times();
        if self.over_limit {
            self.wait_for_readers()?;
        }
        self.top_up(edits)
    }

    /// Reserves for one replacement, which needs less than other edits.
    pub(crate) fn reserve_in_place(&mut self) -> Result<()> {
        self.reclaim_at_times();
        if self.over_limit {
            self.wait_for_readers()?;
        }
        self.top_up_in_place(1)
    }

    /// Reserves for one removal. A stalled reader does not refuse it.
    pub(crate) fn reserve_removal(&mut self) -> Result<()> {
        self.reclaim_at_times();
        self.top_up_in_place(0)
    }

    /// Reserves for verbs that end or unmap something. A stalled reader does not refuse them: they work for as long as
    /// there is memory. With little left, one edit is still a replacement or removal.
    pub(crate) fn reserve_to_end(&mut self, edits: usize) -> Result<()> {
        self.reclaim_at_times();
        self.top_up(edits).or_else(|error| if edits == 1 { self.top_up_in_place(1) } else { Err(error) })
    }

    /// The part of `reserve` that an edit repeats: does nothing when the verb has reserved.
    pub(super) fn top_up(&mut self, edits: usize) -> Result<()> {
        if M::SCARCE && !self.at_hand(edits) {
            self.reclaim_early();
        }
        self.grow(edits).or_else(|_| {
            self.reclaim_early();
            self.grow(edits)
        })
    }

    /// Room for one more layout. The one before the newest comes back for it, unless a reader holds it.
    pub(super) fn top_up_layouts(&mut self) -> Result<()> {
        if M::SCARCE && self.pools.layouts.available() == 0 {
            self.reclaim_early();
        }
        self.pools.layouts.reserve(1, &mut self.memory).or_else(|_| {
            self.reclaim_early();
            self.pools.layouts.reserve(1, &mut self.memory)
        })
    }

    /// As [`Writer::top_up`], for one replacement (`records` is 1) or removal (0). Succeeds after every insertion that did, however full the memory is,
    /// unless a reader holds what was replaced.
    pub(super) fn top_up_in_place(&mut self, records: usize) -> Result<()> {
        if M::SCARCE && !self.at_hand_in_place(records) {
            self.reclaim_early();
        }
        self.grow_in_place(records).or_else(|_| {
            self.reclaim_early();
            self.grow_in_place(records)
        })
    }

    /// How large the indexes are.
    fn sizes(&self) -> Sizes {
        let version = self.version();
        let tree = if self.uses_pages { None } else { Some(version.height()) };
        Sizes { tree, userptrs: version.userptrs.height() }
    }

    /// Whether [`Writer::grow`] has nothing to do. Where memory is scarce it is asked first: pools never give blocks
    /// back, so what one of them takes because a look-up held something up for a moment would be missing in another.
    fn at_hand(&self, edits: usize) -> bool {
        self.pools.nodes.hold(Needs::edits(edits, self.sizes())) && self.versions_at_hand(edits)
    }

    /// Whether [`Writer::grow_in_place`] has nothing to do.
    fn at_hand_in_place(&self, records: usize) -> bool {
        self.pools.nodes.hold(Needs::to_join(records, self.sizes())) && self.versions_at_hand(1)
    }

    fn versions_at_hand(&self, edits: usize) -> bool {
        let gpuvms = if self.layout().gpuvm_count > 0 { edits } else { 0 };
        self.pools.versions.available() >= edits && self.pools.gpuvms.available() >= gpuvms
    }

    fn grow_in_place(&mut self, records: usize) -> Result<()> {
        let sizes = self.sizes();
        let least = Needs::in_place(records, sizes, self.version().level());
        self.pools.nodes.reserve(least, &mut self.memory)?;
        self.grow_versions(1)?;
        if !self.pools.nodes.hold(Needs::to_join(records, sizes)) {
            // Without it the removal works, and the tree is larger than it need be.
            let _ = self.pools.nodes.reserve(Needs::to_join(records, sizes), &mut self.memory);
        }
        Ok(())
    }

    /// Room for versions themselves.
    #[inline(always)]
    fn grow_versions(&mut self, edits: usize) -> Result<()> {
        self.pools.versions.reserve(edits, &mut self.memory)?;
        // Objects may still stand in an aperture that the newest layout does not have.
        if self.layout().gpuvm_count > 0 || self.version().gpuvm.is_some() {
            self.pools.gpuvms.reserve(edits, &mut self.memory)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn grow(&mut self, edits: usize) -> Result<()> {
        let needs = Needs::edits(edits, self.sizes());
        if !self.pools.nodes.hold(needs) {
            self.pools.nodes.reserve(needs, &mut self.memory)?;
        }
        self.grow_versions(edits)
    }

    /// Reclaims until less than the limit waits. Does not pause again after it has paused in vain.
    #[cold]
    fn wait_for_readers(&mut self) -> Result<()> {
        for attempt in 0_usize.. {
            self.reclaim();
            if !self.over_limit {
                self.stalled = false;
                return Ok(());
            }
            // A period that `reclaim` has just begun needs a few looks, and no time.
            let waits = attempt.checked_sub(ATTEMPTS);
            if waits.is_some_and(|waits| self.stalled || !self.grace.pause(waits)) {
                break;
            }
        }
        self.stalled = true;
        Err(Error::ReadersStalled)
    }

    /// Reclaims once per [`ALONE_INTERVAL`] publishes, or with each where memory is little.
    fn reclaim_at_times(&mut self) {
        if Self::LITTLE || self.version().generation.wrapping_sub(self.reclaimed) >= ALONE_INTERVAL {
            self.reclaim();
        }
    }

    /// Takes back what has waited long enough, and starts the next period when a batch is full.
    fn reclaim(&mut self) {
        self.reclaimed = self.version().generation;
        if self.grace.alone() {
            self.over_limit = false;
            return self.reclaim_all();
        }
        self.end_period();
        if self.waiting.is_none() && self.is_batch() {
            self.begin_period();
            if Self::LITTLE {
                // Mostly it has passed by now.
                self.end_period();
            }
        }
        self.over_limit = !M::SCARCE && self.waiting_bytes() > self.limit;
    }

    /// Whether what is retired is worth a period: it is a batch, or on its way to the limit.
    fn is_batch(&self) -> bool {
        self.retired.publishes >= Self::BATCH || (!M::SCARCE && self.retired.bytes() > self.limit / 2)
    }

    /// Bytes that wait for readers, or for their batch to be full.
    fn waiting_bytes(&self) -> usize {
        self.retired.bytes() + self.waiting.as_ref().map_or(0, |(_, batch)| batch.bytes())
    }

    /// Everything retired starts to wait.
    fn begin_period(&mut self) {
        let batch = core::mem::replace(&mut self.retired, Retired::new());
        self.waiting = Some((self.grace.begin(), batch));
    }

    /// Takes back what waits, if its period has passed.
    #[inline(always)]
    fn end_period(&mut self) {
        let Some((mut period, mut batch)) = self.waiting.take() else { return };
        if period == NEVER {
            period = self.grace.begin();
        }
        if self.grace.passed(period) {
            self.pools.take_back(&mut batch);
            self.turn(batch.publishes);
        } else {
            self.waiting = Some((period, batch));
        }
    }

    /// Memory is short: takes back what no reader holds, though no batch is full, and lists whose time has come. Where
    /// it is scarce, look-ups under way on other cores are waited for.
    #[cold]
    pub(super) fn reclaim_early(&mut self) {
        let mut attempt = 0;
        for _ in 0..EARLY_PERIODS {
            if self.waiting.is_none() {
                self.begin_period();
            }
            self.end_period();
            while M::SCARCE && self.waiting.is_some() && self.grace.pause(attempt) {
                attempt += 1;
                self.end_period();
            }
        }
    }

    /// Takes everything back: there is no reader.
    fn reclaim_all(&mut self) {
        if let Some((_, mut batch)) = self.waiting.take() {
            self.pools.take_back(&mut batch);
            self.retired.publishes += batch.publishes;
        }
        self.pools.take_back(&mut self.retired);
        // Lists given to C callers live by the count of publishes and periods, readers or not.
        if self.retired.publishes >= Self::BATCH {
            let publishes = core::mem::take(&mut self.retired.publishes);
            self.turn(publishes);
        }
    }

    /// A period has passed.
    fn turn(&mut self, publishes: usize) {
        self.passed += 1;
        let generation = self.version().generation;
        // A period begun early ends few publishes, and may end lists all the same. Where memory is scarce, few wait.
        let limit = if M::SCARCE { usize::MAX } else { publishes.max(EARLY_LISTS) };
        self.lists.reclaim(generation, self.passed, Self::KEEP_PUBLISHES, limit, &mut self.memory);
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
