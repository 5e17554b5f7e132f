//! What a reader asked for last: a few places, private to it, that answer a repeated question without the walk.
//!
//! Programs ask about the same few buffers again and again (once per message, on every free), or about all of them in no
//! order. The first kind is answered here in a third of the time. The second would pay for looking and noting in vain:
//! after `PATIENCE` misses in a row a reader walks straight for the next `IDLE` questions.
//!
//! In: a snapshot and an address. Out: the same answer as the walk's. A place names a record and the generation that it
//! is of; in another generation what it points to is nobody's business and is not touched. Only objects that answer for
//! all of their addresses are noted: none while a userptr, which may lie over a part of one, is registered. What never
//! happens: a store outside the reader's own memory, or a search: an address has one place.
//!
//! A signal handler of the reader's thread may ask in the middle of a question. It notes nothing in the middle of a note
//! (`noting`), and a place is two words that are right in any mixture that is left:
//!
//! | atomic | stores | loads | what holds |
//! |---|---|---|---|
//! | `record` | `query_and_note`: `NOTHING` before `generation`, the record after it; `forget`: `NOTHING` | `recall`, after `generation` | `NOTHING`, a record of the generation read, or of a newer one: the guard that keeps that generation keeps both |
//! | `generation` | `query_and_note`, between the two | `recall`, before `record` | one thread, so program order is enough: compiler fences |
//! | `noting` | around all three | `query_and_note` | no handler comes between them with a newer pair |

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, compiler_fence};

use crate::aperture::Aperture;
use crate::info::PointerInfo;
use crate::record::Record;
use crate::snapshot::Snapshot;

/// Places; a power of two. Enough that a dozen buffers rarely share one.
const PLACES: usize = 64;

/// Addresses that share their upper bits share a place.
const GRANULE: u32 = 14;

/// Misses in a row before looking here is given up for a while.
const PATIENCE: u32 = if cfg!(test) { 40 } else { 16 };

/// How long, in questions.
const IDLE: u32 = if cfg!(test) { 2 } else { 64 };

/// One reader's last answers. 1 KiB on a 64-bit machine.
#[derive(Debug)]
pub struct Recent {
    /// Questions left that are not looked up here.
    idle: AtomicU32,
    /// Misses left before that.
    patience: AtomicU32,
    /// A place is being written.
    noting: AtomicBool,
    places: [Place; PLACES],
}

/// A record, and the generation it is of. [`NOTHING`], of any: nothing is noted.
#[derive(Debug)]
struct Place {
    generation: AtomicUsize,
    record: AtomicPtr<Record>,
}

/// Holds no address.
const NOTHING: &Record = &Record::NONE;

impl Place {
    const fn nothing() -> Place {
        Place { generation: AtomicUsize::new(0), record: AtomicPtr::new(core::ptr::from_ref(NOTHING).cast_mut()) }
    }

    fn forget(&self) {
        self.record.store(core::ptr::from_ref(NOTHING).cast_mut(), Ordering::Relaxed);
    }
}

impl Default for Recent {
    fn default() -> Recent {
        Recent::new()
    }
}

impl Recent {
    /// Nothing was asked.
    pub const fn new() -> Recent {
        Recent {
            idle: AtomicU32::new(0),
            patience: AtomicU32::new(1),
            noting: AtomicBool::new(false),
            places: [const { Place::nothing() }; PLACES],
        }
    }

    /// Nothing is known any more: for a reader that changes its registry, or finds itself in a forked child.
    pub fn forget(&self) {
        self.places.iter().for_each(Place::forget);
    }

    /// Where an address has its place: the upper bits of a product (Fibonacci hashing).
    #[inline(always)]
    fn place(&self, address: usize) -> &Place {
        let product = (address >> GRANULE).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize);
        &self.places[(product >> (usize::BITS - PLACES.ilog2())) & (PLACES - 1)]
    }
}

impl Snapshot {
    /// What [`Snapshot::query_pointer`] finds, through the memory of what was asked before. Wait-free.
    ///
    /// # Safety
    /// Since it was new or forgot, `recent` has been given to snapshots of one registry only, by one thread (and its
    /// signal handlers) of this process; or of other registries too whose snapshots have no generation of this one's.
    #[inline(always)]
    pub unsafe fn query_recent(&self, address: usize, recent: &Recent) -> Option<PointerInfo<'_>> {
        // SAFETY: by contract.
        let known = unsafe { self.recall(address, recent) };
        // SAFETY: by contract.
        known.or_else(|| unsafe { self.query_unknown(address, recent) })
    }

    /// The first half of [`Snapshot::query_recent`]: the noted object that holds `address`. For callers that keep the way
    /// of a repeated question short, and go on with `query_unknown`.
    ///
    /// # Safety
    /// As for [`Snapshot::query_recent`].
    #[inline(always)]
    pub unsafe fn recall(&self, address: usize, recent: &Recent) -> Option<PointerInfo<'_>> {
        let place = recent.place(address);
        if recent.idle.load(Ordering::Relaxed) > 0 || place.generation.load(Ordering::Relaxed) != self.generation() {
            return None;
        }
        compiler_fence(Ordering::Acquire);
        // SAFETY: a place of this generation of this registry (contract; no two of its snapshots have the same) names
        // `NOTHING` or a record of this snapshot - or of a newer one, if a handler noted it just now; the caller's guard, which
        // keeps this snapshot, keeps everything newer too.
        let record = unsafe { &*place.record.load(Ordering::Relaxed) };
        if address.wrapping_sub(record.start) >= record.size {
            return None;
        }
        recent.patience.store(PATIENCE, Ordering::Relaxed);
        // No userptr, whose address would have to be made of two: none is noted.
        Some(PointerInfo { gpu_address: record.start as u64, ..self.info(record) })
    }

    /// For after `recall`, while noting is given up: the walk, if it is one of the most frequent kind, in the SVM aperture
    /// without a userptr. `None` for what `query_unknown` does.
    #[inline(always)]
    pub fn walk_plainly(&self, address: usize, recent: &Recent) -> Option<Option<PointerInfo<'_>>> {
        let left = recent.idle.load(Ordering::Relaxed).checked_sub(1)?;
        if !self.layout().direct().contains(address) || (self.layout().mmap && self.userptrs().top().is_some()) {
            return None;
        }
        recent.idle.store(left, Ordering::Relaxed);
        Some(self.inside(Aperture::Svm, address).map(|record| self.info(record)))
    }

    /// The second half: the walk, noted unless noting has been given up for a while.
    ///
    /// # Safety
    /// As for [`Snapshot::query_recent`].
    #[inline(always)]
    pub unsafe fn query_unknown(&self, address: usize, recent: &Recent) -> Option<PointerInfo<'_>> {
        let found = match recent.idle.load(Ordering::Relaxed).checked_sub(1) {
            Some(left) => {
                recent.idle.store(left, Ordering::Relaxed);
                self.object_at(address)
            }
            None => self.query_and_note(address, recent),
        };
        found.map(|record| self.info(record))
    }

    /// The walk, noted.
    #[inline]
    #[cold]
    fn query_and_note(&self, address: usize, recent: &Recent) -> Option<&Record> {
        match recent.patience.load(Ordering::Relaxed).checked_sub(1) {
            Some(left) => recent.patience.store(left, Ordering::Relaxed),
            None => recent.idle.store(IDLE, Ordering::Relaxed),
        }
        let record = self.object_at(address)?;
        // All of the object, since a layout may have shrunk under it.
        let direct = self.layout().direct().contains_range(record.start, record.size);
        let whole = direct && self.userptrs().top().is_none();
        if whole && !recent.noting.load(Ordering::Relaxed) {
            let place = recent.place(address);
            recent.noting.store(true, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            // The place may hold a newer generation, a handler's: its number must not meet this record.
            place.forget();
            compiler_fence(Ordering::SeqCst);
            place.generation.store(self.generation(), Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            place.record.store(core::ptr::from_ref(record).cast_mut(), Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            recent.noting.store(false, Ordering::Relaxed);
        }
        Some(record)
    }
}
