//! Lists of ids, interned: every list of the same ids in a context is the same [`List`], one word in a record.
//!
//! A list is written once, before any record points to it, and read by anyone without a lock. Counting (how many
//! records and ledger entries hold it) is the writer's alone and stands *beside* what readers read. A C caller keeps
//! the pointer it was given, so a list outlives its last holder: it waits until [`KEEP_PUBLISHES`] further publishes
//! and [`KEEP_EPOCHS`] further grace periods have passed, and comes back to life if the same ids are asked for again.
//!
//! Crate rule, on which the `unsafe` here rests: a `List` value is empty, or stands in a record of a live version, or
//! is counted (from `Lists::intern` until `Lists::release`).

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use crate::error::{Error, Result};
use crate::pool::{Memory, Pool, pooled};

/// Publishes that a list without holders keeps its bytes for, unless the domain says otherwise. A machine with small
/// addresses has little memory and no C callers.
pub const KEEP_PUBLISHES: usize = match () {
    _ if cfg!(any(test, loom)) => 64,
    _ if cfg!(target_pointer_width = "64") => 4096,
    _ => 64,
};

/// Grace periods that a list without holders keeps its bytes for.
pub const KEEP_EPOCHS: usize = 2;

/// Longest list there can be.
pub const MAX_LIST: usize = 4096;

/// Ids that fit a pooled list; longer ones get a block of their own.
pub(crate) const SMALL: usize = 21;

const BUCKETS: usize = 64;

/// A pointer to the ids, before which stands how many they are; null for the empty list. As C callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct List(*const u32);

// SAFETY: what a `List` points to is written before it is shared and never again while a `List` exists (crate rule).
unsafe impl Send for List {}
// SAFETY: as above; shared reads of immutable words.
unsafe impl Sync for List {}

impl List {
    /// No ids.
    pub(crate) const EMPTY: List = List(ptr::null());

    /// Whether there are no ids.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_null()
    }

    /// The first id, for C callers; null when empty.
    #[inline]
    pub(crate) fn ids_ptr(self) -> *const u32 {
        self.0
    }

    /// How many ids.
    #[inline]
    pub(crate) fn len(self) -> usize {
        if self.0.is_null() {
            return 0;
        }
        // SAFETY: by the crate rule the list is alive; the word before its ids is the length, written before it was shared.
        (unsafe { *self.0.wrapping_sub(1) }) as usize
    }

    /// The ids. The caller's lifetime must not outlive what keeps the list alive: a guard, or a count.
    #[inline]
    pub(crate) fn ids<'a>(self) -> &'a [u32] {
        if self.0.is_null() {
            return &[];
        }
        // SAFETY: by the crate rule the list is alive: `len` initialised ids, never written again.
        unsafe { core::slice::from_raw_parts(self.ids_ptr(), self.len()) }
    }
}

/// What only the writer reads and writes of a list; `len` and the ids follow it in memory.
#[repr(C)]
#[derive(Clone, Copy)]
struct Own {
    next_in_bucket: *mut Own,
    next_waiting: *mut Own,
    generation: usize,
    epoch: usize,
    count: u32,
    capacity: u16,
    waiting: bool,
}

/// A small list's slot.
#[repr(C)]
#[derive(Clone, Copy)]
struct Small {
    own: Own,
    len: u32,
    ids: [u32; SMALL],
}

pooled!(Small);

const _: () = assert!(size_of::<usize>() != 8 || size_of::<Small>() == 128);
const IDS_AT: usize = core::mem::offset_of!(Small, ids);
const _: () = assert!(IDS_AT == core::mem::offset_of!(Small, len) + size_of::<u32>());

/// Bytes of the blocks that hold `count` lists of up to [`SMALL`] ids where memory is little.
#[cfg(all(target_has_atomic = "ptr", not(loom)))]
pub(crate) const fn bytes_for(count: usize, grain: usize) -> usize {
    Pool::<Small>::bytes_for(count, grain)
}

/// All lists of one context, the waiting ones too.
pub(crate) struct Lists {
    buckets: [*mut Own; BUCKETS],
    waiting_first: *mut Own,
    waiting_last: *mut Own,
    small: Pool<Small>,
}

impl Lists {
    pub(crate) const fn new() -> Lists {
        Lists {
            buckets: [ptr::null_mut(); BUCKETS],
            waiting_first: ptr::null_mut(),
            waiting_last: ptr::null_mut(),
            small: Pool::new(),
        }
    }

    /// The list of `id(0), id(1), ... id(len - 1)`, counted once more.
    pub(crate) fn intern(&mut self, len: usize, id: impl Fn(usize) -> u32, memory: &mut impl Memory) -> Result<List> {
        if len == 0 {
            return Ok(List::EMPTY);
        }
        let capacity = u16::try_from(len).ok().filter(|_| len <= MAX_LIST).ok_or(Error::NoMemory)?;
        let bucket = Self::bucket(len, &id);
        if let Some(own) = self.find(bucket, len, &id) {
            // SAFETY: a list in a bucket is alive and its own part the writer's alone.
            unsafe { (*own.as_ptr()).count += 1 };
            return Ok(list_of(own));
        }
        let own = self.allocate(len, memory)?;
        let head = self.buckets.get_mut(bucket).ok_or(Error::Failed)?;
        let value = Own {
            next_in_bucket: *head,
            next_waiting: ptr::null_mut(),
            generation: 0,
            epoch: 0,
            count: 1,
            capacity,
            waiting: false,
        };
        // SAFETY: just allocated with room for `Own`, nobody else's.
        unsafe { own.as_ptr().write(value) };
        let ids = list_of(own).0.cast_mut();
        // SAFETY: the allocation has room for the length between `Own` and the ids.
        unsafe { ids.wrapping_sub(1).write(u32::from(capacity)) };
        for position in 0..len {
            // SAFETY: the allocation has room for `len` ids.
            unsafe { ids.wrapping_add(position).write(id(position)) };
        }
        *head = own.as_ptr();
        Ok(list_of(own))
    }

    /// One holder less. At zero the list starts to wait; `generation` and `epoch` are now's.
    pub(crate) fn release(&mut self, list: List, generation: usize, epoch: usize) {
        let Some(mut own) = own_of(list) else { return };
        // SAFETY: by the crate rule a released list was counted, hence alive; the writer's part is ours through `&mut
        // self`, and readers never look at it.
        let own_ref = unsafe { own.as_mut() };
        own_ref.count = own_ref.count.saturating_sub(1);
        if own_ref.count > 0 {
            return;
        }
        own_ref.generation = generation;
        own_ref.epoch = epoch;
        if !own_ref.waiting {
            self.enqueue(own);
        }
    }

    /// Ends waiting lists whose time has come, which is after `keep` publishes and [`KEEP_EPOCHS`]; looks at most at
    /// `limit`, and at each once.
    pub(crate) fn reclaim(
        &mut self,
        generation: usize,
        epoch: usize,
        keep: usize,
        limit: usize,
        memory: &mut impl Memory,
    ) {
        let mut first_kept = None;
        for _ in 0..limit {
            let Some(own) = NonNull::new(self.waiting_first).filter(|own| Some(*own) != first_kept) else { return };
            // SAFETY: a waiting list is alive; its own part is the writer's.
            let state = unsafe { own.read() };
            let old =
                generation.wrapping_sub(state.generation) >= keep && epoch.wrapping_sub(state.epoch) >= KEEP_EPOCHS;
            self.dequeue(own, state.next_waiting);
            if state.count == 0 && old {
                self.end(own, memory);
            } else if state.count == 0 {
                // Too early. To the end of the queue: one that keeps coming back never holds up the rest.
                self.enqueue(own);
                first_kept.get_or_insert(own);
            }
        }
    }

    fn enqueue(&mut self, own: NonNull<Own>) {
        // SAFETY: alive, and the link is the writer's.
        unsafe { (*own.as_ptr()).next_waiting = ptr::null_mut() };
        // SAFETY: alive, and the flag is the writer's.
        unsafe { (*own.as_ptr()).waiting = true };
        if self.waiting_last.is_null() {
            self.waiting_first = own.as_ptr();
        } else {
            // SAFETY: the last waiting list is alive, and the link is the writer's.
            unsafe { (*self.waiting_last).next_waiting = own.as_ptr() };
        }
        self.waiting_last = own.as_ptr();
    }

    fn dequeue(&mut self, own: NonNull<Own>, next: *mut Own) {
        self.waiting_first = next;
        if next.is_null() {
            self.waiting_last = ptr::null_mut();
        }
        // SAFETY: alive, and the flag is the writer's.
        unsafe { (*own.as_ptr()).waiting = false };
    }

    /// Takes a list out of its bucket and gives its memory back.
    fn end(&mut self, own: NonNull<Own>, memory: &mut impl Memory) {
        let ids = list_of(own).ids();
        let bucket = Self::bucket(ids.len(), &|position| ids.get(position).copied().unwrap_or(0));
        let Some(mut link) = self.buckets.get_mut(bucket).map(ptr::from_mut) else { return };
        loop {
            // SAFETY: `link` is the bucket's head or the link of a live list in it; both are the writer's.
            let here = unsafe { *link };
            let Some(here) = NonNull::new(here) else { return };
            // SAFETY: a list in a bucket is alive.
            let next = unsafe { (*here.as_ptr()).next_in_bucket };
            if here == own {
                // SAFETY: as where `link` was read.
                unsafe { *link = next };
                break;
            }
            // SAFETY: `here` is alive: the address of its link stays valid while it is.
            link = unsafe { &raw mut (*here.as_ptr()).next_in_bucket };
        }
        self.free(own, memory);
    }

    fn find(&self, bucket: usize, len: usize, id: &impl Fn(usize) -> u32) -> Option<NonNull<Own>> {
        let mut here = NonNull::new(self.buckets.get(bucket).copied()?);
        while let Some(own) = here {
            let ids = list_of(own).ids();
            if ids.len() == len && ids.iter().enumerate().all(|(position, known)| *known == id(position)) {
                return Some(own);
            }
            // SAFETY: a list in a bucket is alive.
            here = NonNull::new(unsafe { (*own.as_ptr()).next_in_bucket });
        }
        None
    }

    /// FNV-1a over the ids.
    fn bucket(len: usize, id: &impl Fn(usize) -> u32) -> usize {
        let hash = (0..len).fold(0x811c_9dc5_u32, |hash, position| (hash ^ id(position)).wrapping_mul(0x0100_0193));
        (hash ^ (hash >> 16)) as usize % BUCKETS
    }

    fn allocate(&mut self, len: usize, memory: &mut impl Memory) -> Result<NonNull<Own>> {
        if len <= SMALL {
            self.small.reserve(1, memory)?;
            return self.small.take().map(NonNull::cast).ok_or(Error::NoMemory);
        }
        let layout = large_layout(len).ok_or(Error::NoMemory)?;
        memory.take(layout).map(NonNull::cast).ok_or(Error::NoMemory)
    }

    fn free(&mut self, own: NonNull<Own>, memory: &mut impl Memory) {
        let len = list_of(own).len();
        #[cfg(test)]
        for position in 0..len {
            let id = list_of(own).ids_ptr().cast_mut().wrapping_add(position);
            // SAFETY: the list's time has passed: nobody reads its ids, and there are `len` of them.
            unsafe { id.write(0xdddd_dddd) };
        }
        if len <= SMALL {
            // SAFETY: a small list came from this pool; it is out of bucket and queue, and no reader holds it any more.
            unsafe { self.small.give(own.cast()) };
        } else if let Some(layout) = large_layout(len) {
            // SAFETY: a large list came from `memory` with this layout, and nobody holds it any more.
            unsafe { memory.give(own.cast(), layout) };
        }
    }

    /// Gives everything back.
    ///
    /// # Safety
    /// No `List` of this context is used any more, and `memory` is where they came from.
    pub(crate) unsafe fn dissolve(&mut self, memory: &mut impl Memory) {
        for position in 0..BUCKETS {
            while let Some(own) = self.buckets.get(position).copied().and_then(NonNull::new) {
                self.end(own, memory);
            }
        }
        // SAFETY: by contract nobody uses a list; all small ones went back above.
        unsafe { self.small.dissolve(memory) };
    }
}

fn large_layout(len: usize) -> Option<Layout> {
    let bytes = len.checked_mul(size_of::<u32>())?.checked_add(IDS_AT)?;
    Layout::from_size_align(bytes, align_of::<Own>()).ok()
}

fn list_of(own: NonNull<Own>) -> List {
    List(own.as_ptr().cast_const().cast::<u8>().wrapping_add(IDS_AT).cast())
}

fn own_of(list: List) -> Option<NonNull<Own>> {
    if list.0.is_null() {
        return None;
    }
    NonNull::new(list.0.cast_mut().cast::<u8>().wrapping_sub(IDS_AT).cast())
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::pool::Heap;

    fn intern(lists: &mut Lists, ids: &[u32]) -> List {
        lists.intern(ids.len(), |position| ids[position], &mut Heap).unwrap()
    }

    #[test]
    fn equal_lists_are_one_and_live_on_after_the_last_holder() {
        let mut lists = Lists::new();
        let long: std::vec::Vec<u32> = (0..300).collect();
        let a = intern(&mut lists, &[1, 2]);
        let b = intern(&mut lists, &[2, 1]);
        let c = intern(&mut lists, &long);
        assert_eq!(a, intern(&mut lists, &[1, 2]));
        assert_ne!(a, b);
        assert_eq!((a.ids(), b.ids(), c.ids()), (&[1, 2][..], &[2, 1][..], &long[..]));

        lists.release(a, 1, 1);
        lists.release(a, 2, 1);
        lists.release(b, 3, 1);
        lists.release(c, 3, 1);
        lists.reclaim(2 + KEEP_PUBLISHES, KEEP_EPOCHS, KEEP_PUBLISHES, 100, &mut Heap);
        assert_eq!(a.ids(), [1, 2], "one epoch too early");
        assert_eq!(a, intern(&mut lists, &[1, 2]), "asked for again: back to life");
        lists.reclaim(3 + KEEP_PUBLISHES, 1 + KEEP_EPOCHS, KEEP_PUBLISHES, 100, &mut Heap);
        assert_eq!(a.ids(), [1, 2]);
        let small_before = lists.small.available();
        assert_eq!(intern(&mut lists, &[7]).ids(), [7], "takes the slot that b gave back");
        assert_eq!(lists.small.available(), small_before - 1);
        // SAFETY: no list is used after this.
        unsafe { lists.dissolve(&mut Heap) };
    }

    #[test]
    fn a_list_that_keeps_coming_back_holds_nobody_up() {
        let mut lists = Lists::new();
        let popular = intern(&mut lists, &[1]);
        lists.release(popular, 0, 0);
        for id in 2..50 {
            let list = intern(&mut lists, &[id]);
            lists.release(list, 0, 0);
        }
        let before = lists.small.available();
        let now = KEEP_PUBLISHES;
        assert_eq!(intern(&mut lists, &[1]), popular);
        lists.release(popular, now, KEEP_EPOCHS);
        lists.reclaim(now, KEEP_EPOCHS, KEEP_PUBLISHES, 100, &mut Heap);
        assert_eq!(lists.small.available(), before + 48, "all but the popular one");
        // SAFETY: no list is used after this.
        unsafe { lists.dissolve(&mut Heap) };
    }

    #[test]
    fn empty_and_too_long() {
        let mut lists = Lists::new();
        assert_eq!(intern(&mut lists, &[]), List::EMPTY);
        assert_eq!(List::EMPTY.ids(), []);
        assert_eq!(lists.intern(MAX_LIST + 1, |_| 0, &mut Heap), Err(Error::NoMemory));
    }
}
