//! A reader's memory of its last hits: a repeated query without the walk.
//!
//! Programs query the same few buffers again and again (once per message, on every free), or all of them in no order. The
//! first kind is answered here in a third of the time. The second would pay for looking and noting in vain: after
//! `PATIENCE` misses in a row a reader walks straight for the next `IDLE` queries.
//!
//! In: a version and an address. Out: the answer that the walk gives. A place holds a record's pointer and the generation
//! that it is of; on a generation mismatch the pointer is stale and is never dereferenced. Only objects that answer for
//! all of their addresses are noted: none while a userptr, which may lie over a part of one, is registered. What never
//! happens: a store outside the reader's own memory, or a search: an address has one place.
//!
//! A signal handler of the reader's thread may query in the middle of a query. It notes nothing in the middle of a note
//! (`noting`), and a place is two words that are right in any mixture that is left:
//!
//! | atomic | stores | loads | what holds |
//! |---|---|---|---|
//! | `generation` | `query_and_note`: 0 before `record`, the version's after it; `forget`: 0 | `recall`, before `record` | no version has generation 0 |
//! | `record` | `query_and_note`, between the two | `recall`, after `generation` | a record of the generation read, or of a newer one: the guard that keeps that generation keeps both |
//! | `noting` | around all three | `query_and_note` | no handler comes between them with a newer pair |
//!
//! One thread makes all of these, so program order is enough: compiler fences.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, compiler_fence};

use crate::aperture::Aperture;
use crate::epoch::slots::Kept;
use crate::info::PointerInfo;
use crate::record::Record;
use crate::snapshot::Snapshot;

/// Places; a power of two. Enough that a dozen buffers rarely share one.
const PLACES: usize = 64;

/// Addresses that share their upper bits share a place.
const GRANULE: u32 = 14;

/// Misses in a row before a reader skips the places for a while.
const PATIENCE: u32 = if cfg!(test) { 40 } else { 16 };

/// How long, in queries.
const IDLE: u32 = if cfg!(test) { 2 } else { 64 };

/// One reader's last answers. 1 KiB on a 64-bit machine, all bits 0 when new.
#[derive(Debug)]
pub struct Recent {
    /// Queries left that skip the places.
    idle: AtomicU32,
    /// Misses left before `idle` begins.
    patience: AtomicU32,
    /// A place is being written.
    noting: AtomicBool,
    places: [Place; PLACES],
}

/// A record, and the generation it is of; generation 0 for none.
#[derive(Debug)]
struct Place {
    generation: AtomicUsize,
    record: AtomicPtr<Record>,
}

impl Place {
    const fn empty() -> Place {
        Place { generation: AtomicUsize::new(0), record: AtomicPtr::new(core::ptr::null_mut()) }
    }
}

impl Kept for Recent {
    const EMPTY: Recent = Recent::new();
}

impl Default for Recent {
    fn default() -> Recent {
        Recent::new()
    }
}

impl Recent {
    /// No hit yet.
    pub const fn new() -> Recent {
        Recent {
            idle: AtomicU32::new(0),
            patience: AtomicU32::new(0),
            noting: AtomicBool::new(false),
            places: [const { Place::empty() }; PLACES],
        }
    }

    /// Forgets all hits: for a reader that changes its registry, finds itself in a forked child, or takes over from another thread.
    pub fn forget(&self) {
        self.places.iter().for_each(|place| place.generation.store(0, Ordering::Relaxed));
        self.idle.store(0, Ordering::Relaxed);
        self.patience.store(PATIENCE, Ordering::Relaxed);
        self.noting.store(false, Ordering::Relaxed);
    }

    /// Where an address has its place: the upper bits of a product (Fibonacci hashing).
    #[inline(always)]
    fn place(&self, address: usize) -> &Place {
        let product = (address >> GRANULE).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize);
        &self.places[(product >> (usize::BITS - PLACES.ilog2())) & (PLACES - 1)]
    }
}

/// What a memory of last hits adds to a look-up, for the C interface. Not part of the public interface.
#[doc(hidden)]
impl<'g> Snapshot<'g> {
    /// The allocation that contains `address`, through the memory of the last hits. Wait-free.
    ///
    /// # Safety
    /// Since it was new or forgot, `recent` has been given to versions of one registry only, by one thread (and its
    /// signal handlers) of this process; or of other registries too whose versions have no generation of this one's.
    #[inline(always)]
    pub unsafe fn query_recent(&self, address: usize, recent: &Recent) -> Option<PointerInfo<'g>> {
        // SAFETY: by contract.
        let known = unsafe { self.recall(address, recent) };
        // SAFETY: by contract.
        known.or_else(|| unsafe { self.query_unknown(address, recent) })
    }

    /// The first half of [`Snapshot::query_recent`]: the noted object that contains `address`. For callers that keep the
    /// path of a repeated query short, and go on with `query_unknown`.
    ///
    /// # Safety
    /// As for [`Snapshot::query_recent`].
    #[inline(always)]
    pub unsafe fn recall(&self, address: usize, recent: &Recent) -> Option<PointerInfo<'g>> {
        let place = recent.place(address);
        if recent.idle.load(Ordering::Relaxed) > 0
            || place.generation.load(Ordering::Relaxed) != self.version.generation
        {
            return None;
        }
        compiler_fence(Ordering::Acquire);
        // SAFETY: a place of this generation of this registry (contract; no two of its versions have the same) points to a
        // record of this version - or of a newer one, if a handler noted it just now; the caller's guard, which keeps this
        // version, keeps everything newer too.
        let record = unsafe { &*place.record.load(Ordering::Relaxed) };
        if address.wrapping_sub(record.start) >= record.size {
            return None;
        }
        recent.patience.store(PATIENCE, Ordering::Relaxed);
        // No userptr is noted: its GPU address would have to be made of two.
        Some(PointerInfo { gpu_address: record.start as u64, ..self.version.info(record) })
    }

    /// After `recall`, while the places are skipped: the walk, if it is of the most frequent kind, in the SVM aperture
    /// without a userptr. `None` where `query_unknown` is needed.
    #[inline(always)]
    pub fn walk_plainly(&self, address: usize, recent: &Recent) -> Option<Option<PointerInfo<'g>>> {
        let left = recent.idle.load(Ordering::Relaxed).checked_sub(1)?;
        if !self.version.layout().direct().contains(address)
            || (self.version.layout().mmap && self.version.userptrs().top().is_some())
        {
            return None;
        }
        recent.idle.store(left, Ordering::Relaxed);
        Some(self.version.inside(Aperture::Svm, address).map(|record| self.version.info(record)))
    }

    /// The second half: the walk, noted unless the places are skipped for a while.
    ///
    /// # Safety
    /// As for [`Snapshot::query_recent`].
    #[inline(always)]
    pub unsafe fn query_unknown(&self, address: usize, recent: &Recent) -> Option<PointerInfo<'g>> {
        let found = match recent.idle.load(Ordering::Relaxed).checked_sub(1) {
            Some(left) => {
                recent.idle.store(left, Ordering::Relaxed);
                self.version.object_at(address)
            }
            None => self.query_and_note(address, recent),
        };
        found.map(|record| self.version.info(record))
    }

    /// The walk, noted.
    #[inline]
    #[cold]
    fn query_and_note(&self, address: usize, recent: &Recent) -> Option<&'g Record> {
        match recent.patience.load(Ordering::Relaxed).checked_sub(1) {
            Some(left) => recent.patience.store(left, Ordering::Relaxed),
            None => recent.idle.store(IDLE, Ordering::Relaxed),
        }
        let record = self.version.object_at(address)?;
        // All of the object, since a layout may have shrunk under it.
        let direct = self.version.layout().direct().contains_range(record.start, record.size);
        let whole = direct && self.version.userptrs().top().is_none();
        if whole && !recent.noting.load(Ordering::Relaxed) {
            let place = recent.place(address);
            recent.noting.store(true, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            // The place may hold a newer generation, a handler's: its number must not meet this record.
            place.generation.store(0, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            place.record.store(core::ptr::from_ref(record).cast_mut(), Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            place.generation.store(self.version.generation, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            recent.noting.store(false, Ordering::Relaxed);
        }
        Some(record)
    }
}
