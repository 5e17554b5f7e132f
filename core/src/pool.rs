//! Where the writer's memory comes from: [`Memory`] gives blocks, a `Pool` cuts them into slots of one size, a
//! `Chain` strings slots together without allocating.
//!
//! Only the writer is ever here. A slot is in exactly one place at a time: free in its pool, in the writer's hand, in
//! a published version, or retired and waiting in a chain. The link that strings chains stands *beside* the value, with
//! what else only the writer keeps (`Pooled::Beside`): retiring a node writes no byte that a reader may still look at.
//! Values that are never retired in a chain of their own (`Pooled::LINK_INSIDE`) have no room beside them: their link
//! takes the place of the value while the slot is free.
//!
//! Blocks go back to [`Memory`] only when the pool is dropped; a steady state therefore allocates nothing.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use crate::error::{Error, Result};

/// A source of memory blocks.
///
/// # Safety
/// `take` returns a block of at least `layout.size()` bytes at `layout.align()`, valid and nobody else's until it is
/// given back with the same layout: also when the source was moved, dropped or leaked meanwhile. A writer that leaves
/// while a reader stands inside drops its source and leaves the blocks to the reader.
pub unsafe trait Memory {
    /// Whether there is little, and no more than a plan counted with ([`Capacity`](crate::fixed::Capacity)): then the
    /// writer takes back what was replaced with every write, whatever the domain prefers, and only the memory's end
    /// limits what waits for readers. Objects stand in B+ trees then, whose bytes do not depend on addresses.
    const SCARCE: bool = false;

    /// How many slots of `bytes` each a pool asks for at a time; at least 1. Many make growing rare, few waste little.
    fn slots_per_block(&self, bytes: usize) -> usize {
        slots_per_block(bytes)
    }

    /// A block, or `None` when there is no more.
    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>>;

    /// Gives a block back.
    ///
    /// # Safety
    /// `block` came from [`Memory::take`] of this source with this layout, and nobody uses it any more.
    unsafe fn give(&mut self, block: NonNull<u8>, layout: Layout);
}

/// A source that always fails; callers fall back to pooled nodes.
pub(crate) struct Nothing;

// SAFETY: no block is ever given.
unsafe impl Memory for Nothing {
    fn take(&mut self, _: Layout) -> Option<NonNull<u8>> {
        None
    }

    unsafe fn give(&mut self, _: NonNull<u8>, _: Layout) {}
}

/// The global allocator.
#[cfg(feature = "alloc")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap;

#[cfg(feature = "alloc")]
// SAFETY: the global allocator's own contract is this trait's, for layouts of non-zero size, which `take` ensures.
unsafe impl Memory for Heap {
    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        if layout.size() == 0 {
            return None;
        }
        // SAFETY: the layout's size is not 0.
        NonNull::new(unsafe { alloc::alloc::alloc(layout) })
    }

    unsafe fn give(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: by this method's contract the block came from `alloc` with this layout.
        unsafe { alloc::alloc::dealloc(block.as_ptr(), layout) }
    }
}

/// The global allocator, as if there were little memory: address indexes are trees then.
#[cfg(all(test, feature = "alloc"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scarce;

#[cfg(all(test, feature = "alloc"))]
// SAFETY: `Heap`'s.
unsafe impl Memory for Scarce {
    const SCARCE: bool = true;

    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        Heap.take(layout)
    }

    unsafe fn give(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: by contract.
        unsafe { Heap.give(block, layout) }
    }
}

/// What [`Memory::slots_per_block`] answers unless told otherwise.
const fn slots_per_block(bytes: usize) -> usize {
    match bytes {
        _ if cfg!(loom) => 4,
        _ if cfg!(not(target_pointer_width = "64")) => few_slots_per_block(bytes),
        512.. => 16,
        _ => 64,
    }
}

/// For little memory: about half a KiB at a time.
pub(crate) const fn few_slots_per_block(bytes: usize) -> usize {
    match 512_usize.checked_div(bytes) {
        Some(slots) if slots > 0 => slots,
        _ => 1,
    }
}

/// What a pool can hold.
pub(crate) trait Pooled: Copy {
    /// What stands beside the value. The writer writes it before it publishes the value, and again when it retires it.
    type Beside: Copy;

    /// The link stands in the value's own bytes while the slot is free. Such a value is never in a chain while a reader may
    /// look at it.
    const LINK_INSIDE: bool = false;
}

/// Types without anything beside them.
macro_rules! pooled {
    ($($of:ty),*) => { $(impl $crate::pool::Pooled for $of { type Beside = (); })* };
}
pooled!(crate::aperture::Layout, crate::version::GpuvmRoots);
pub(crate) use pooled;

/// A value and, beside it, the link of the chain its slot is in.
#[repr(C)]
struct Slot<T: Pooled> {
    value: MaybeUninit<T>,
    link: *mut T,
    beside: MaybeUninit<T::Beside>,
    /// In models: told of every reading and every reuse.
    #[cfg(loom)]
    watch: crate::primitive::Watch,
}

/// Bytes from one slot to the next.
const fn stride<T: Pooled>() -> usize {
    if T::LINK_INSIDE {
        assert!(size_of::<T>() >= size_of::<*mut T>() && align_of::<T>() >= align_of::<*mut T>() && !cfg!(loom));
        size_of::<T>()
    } else {
        size_of::<Slot<T>>()
    }
}

/// Where the link of a slot is.
fn link_of<T: Pooled>(value: *mut T) -> *mut *mut T {
    let at = if T::LINK_INSIDE { 0 } else { core::mem::offset_of!(Slot<T>, link) };
    value.wrapping_byte_add(at).cast()
}

/// Where that stands which is beside a value.
pub(crate) fn beside<T: Pooled>(value: NonNull<T>) -> *mut T::Beside {
    value.as_ptr().wrapping_byte_add(core::mem::offset_of!(Slot<T>, beside)).cast()
}

/// In models: makes a slot's watch.
#[cfg(loom)]
fn watch<T: Pooled>(slot: NonNull<Slot<T>>) {
    // SAFETY: `grow` gives a slot inside a block that is its own.
    let watch = unsafe { &raw mut (*slot.as_ptr()).watch };
    // SAFETY: as above.
    unsafe { watch.write(crate::primitive::Watch::new()) };
}

/// In models: tells loom that this thread reads a value of a pool.
#[cfg(loom)]
#[track_caller]
pub(crate) fn reading<T: Pooled>(value: *const T) {
    let slot = NonNull::new(value.cast_mut()).map(|value| value.cast::<Slot<T>>());
    // SAFETY: callers give what a version points to, or null: a value of a pool's slot, made by `grow`.
    slot.into_iter().for_each(|slot| unsafe { slot.as_ref() }.watch.read());
}

/// Slots strung together; keeps both ends, so that two chains join in one step.
#[derive(Debug)]
pub(crate) struct Chain<T> {
    head: *mut T,
    tail: *mut T,
    len: usize,
}

impl<T: Pooled> Chain<T> {
    pub(crate) const fn new() -> Chain<T> {
        Chain { head: ptr::null_mut(), tail: ptr::null_mut(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of its slots.
    pub(crate) fn bytes(&self) -> usize {
        self.len * stride::<T>()
    }

    /// Adds a slot at the end.
    ///
    /// # Safety
    /// `value` came from a [`Pool`] of `T` and is in no chain; if its link is inside, no reader can see it.
    pub(crate) unsafe fn push(&mut self, value: NonNull<T>) {
        let slot = value.as_ptr();
        // SAFETY: by contract the pointer is that of a pool's slot; its link is the writer's alone.
        unsafe { link_of(slot).write(ptr::null_mut()) };
        if self.tail.is_null() {
            self.head = slot;
        } else {
            // SAFETY: `tail` is a slot of this chain, hence valid, and its link is the writer's alone.
            unsafe { link_of(self.tail).write(slot) };
        }
        self.tail = slot;
        self.len += 1;
    }

    /// Adds a slot in front.
    ///
    /// # Safety
    /// As for [`Chain::push`].
    pub(crate) unsafe fn push_first(&mut self, value: NonNull<T>) {
        // SAFETY: by contract the pointer is that of a pool's slot; its link is the writer's alone.
        unsafe { link_of(value.as_ptr()).write(self.head) };
        self.head = value.as_ptr();
        if self.tail.is_null() {
            self.tail = self.head;
        }
        self.len += 1;
    }

    /// Takes the first slot.
    pub(crate) fn pop(&mut self) -> Option<NonNull<T>> {
        let slot = NonNull::new(self.head)?;
        // SAFETY: a slot of this chain is valid and its link is the writer's alone.
        self.head = unsafe { link_of(slot.as_ptr()).read() };
        if self.head.is_null() {
            self.tail = ptr::null_mut();
        }
        self.len -= 1;
        Some(slot)
    }

    /// The slots, first to last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NonNull<T>> + '_ {
        let mut here = self.head;
        core::iter::from_fn(move || {
            let slot = NonNull::new(here)?;
            // SAFETY: a slot of this chain is valid and its link is the writer's alone.
            here = unsafe { link_of(slot.as_ptr()).read() };
            Some(slot)
        })
    }

    /// Moves all of `other` to the end of this chain.
    pub(crate) fn append(&mut self, other: &mut Chain<T>) {
        if other.head.is_null() {
            return;
        }
        if self.tail.is_null() {
            self.head = other.head;
        } else {
            // SAFETY: `tail` is a slot of this chain, hence valid, and its link is the writer's alone.
            unsafe { link_of(self.tail).write(other.head) };
        }
        self.tail = other.tail;
        self.len += other.len;
        *other = Chain::new();
    }
}

/// In tests: overwrites a value whose grace period has passed, so that a reader that still looks at it finds nonsense.
///
/// # Safety
/// No reader can see the value, and it is a pool's.
#[cfg(any(test, loom))]
#[track_caller]
unsafe fn poison<T: Pooled>(value: NonNull<T>) {
    let kept = if T::LINK_INSIDE { size_of::<*mut T>() } else { 0 };
    let rest = value.as_ptr().cast::<u8>().wrapping_add(kept);
    // SAFETY: by contract no reader uses the value. The bytes are those of the value without a link inside it.
    unsafe { rest.write_bytes(0xdd, size_of::<T>() - kept) };
    #[cfg(loom)]
    // SAFETY: a pool's slot is valid, and `grow` made its watch.
    unsafe { value.cast::<Slot<T>>().as_ref() }.watch.write();
}

/// What stands at the front of a block.
struct Block {
    next: *mut Block,
    slots: usize,
}

/// Slots for values of one type, cut from blocks of [`Memory::slots_per_block`].
pub(crate) struct Pool<T> {
    free: Chain<T>,
    blocks: *mut Block,
}

impl<T: Pooled> Pool<T> {
    pub(crate) const fn new() -> Pool<T> {
        Pool { free: Chain::new(), blocks: ptr::null_mut() }
    }

    /// How many values can be taken without growing.
    pub(crate) fn available(&self) -> usize {
        self.free.len()
    }

    /// Grows until at least `count` values can be taken.
    pub(crate) fn reserve(&mut self, count: usize, memory: &mut impl Memory) -> Result<()> {
        while self.free.len() < count {
            self.grow(memory)?;
        }
        Ok(())
    }

    #[cold]
    fn grow(&mut self, memory: &mut impl Memory) -> Result<()> {
        let slots = memory.slots_per_block(stride::<T>()).max(1);
        let (layout, first) = Self::block_layout(slots).ok_or(Error::NoMemory)?;
        let block = memory.take(layout).ok_or(Error::NoMemory)?;
        let header = block.cast::<Block>();
        // SAFETY: the block starts with room for a `Block` at its alignment (see `block_layout`) and is ours.
        unsafe { header.as_ptr().write(Block { next: self.blocks, slots }) };
        self.blocks = header.as_ptr();
        for position in 0..slots {
            // SAFETY: the block has room for `slots` slots from `first` on (see `block_layout`).
            let slot = unsafe { block.add(first + position * stride::<T>()) }.cast::<T>();
            #[cfg(loom)]
            watch(slot.cast::<Slot<T>>());
            // SAFETY: the slot is inside the block, belongs to this pool and is in no chain yet.
            unsafe { self.free.push(slot) };
        }
        Ok(())
    }

    /// The layout of a block of `slots` slots, and where its first slot is.
    fn block_layout(slots: usize) -> Option<(Layout, usize)> {
        let slots = Layout::from_size_align(slots.checked_mul(stride::<T>())?, align_of::<Slot<T>>()).ok()?;
        Layout::new::<Block>().extend(slots).ok()
    }

    /// Bytes of the blocks that hold `count` values where memory is little; each block in whole `grains`.
    #[cfg(not(loom))]
    pub(crate) const fn bytes_for(count: usize, grain: usize) -> usize {
        let slots = few_slots_per_block(stride::<T>());
        let first = size_of::<Block>().next_multiple_of(align_of::<Slot<T>>());
        let block = first + slots * stride::<T>();
        count.div_ceil(slots) * block.next_multiple_of(grain)
    }

    /// A slot whose value is stale or never written: the caller writes it before anyone reads it.
    #[cfg_attr(loom, track_caller)]
    pub(crate) fn take(&mut self) -> Option<NonNull<T>> {
        let slot = self.free.pop();
        #[cfg(loom)]
        // SAFETY: a slot of this pool is valid, and `grow` made its watch.
        slot.into_iter().for_each(|slot| unsafe { slot.cast::<Slot<T>>().as_ref() }.watch.write());
        slot
    }

    /// Takes a slot and fills it.
    pub(crate) fn make(&mut self, value: T) -> Option<NonNull<T>> {
        let slot = self.take()?;
        // SAFETY: a slot just taken is valid for a `T` and nobody else's.
        unsafe { slot.as_ptr().write(value) };
        Some(slot)
    }

    /// Takes a slot and copies a value into it.
    pub(crate) fn copy(&mut self, value: &T) -> Option<NonNull<T>> {
        let slot = self.take()?;
        // SAFETY: a slot just taken is valid for a `T` and nobody else's, so it does not overlap `value`; `T` is `Copy`.
        unsafe { ptr::copy_nonoverlapping(value, slot.as_ptr(), 1) };
        Some(slot)
    }

    /// Gives a slot back that no reader can see: it is the next to be taken.
    ///
    /// # Safety
    /// `value` came from this pool, is in no chain, and no reader holds it.
    pub(crate) unsafe fn give(&mut self, value: NonNull<T>) {
        #[cfg(any(test, loom))]
        // SAFETY: by contract.
        unsafe {
            poison(value)
        };
        // SAFETY: by contract.
        unsafe { self.free.push_first(value) };
    }

    /// Gives back a whole chain whose grace period has passed. Its slots are the next to be taken: they are the ones
    /// that caches may still hold.
    #[inline]
    pub(crate) fn give_all(&mut self, chain: &mut Chain<T>) {
        if chain.head.is_null() {
            return;
        }
        #[cfg(any(test, loom))]
        for value in chain.iter() {
            // SAFETY: the grace period of the whole chain has passed.
            unsafe { poison(value) };
        }
        chain.append(&mut self.free);
        core::mem::swap(chain, &mut self.free);
    }

    /// Gives every block back.
    ///
    /// # Safety
    /// Nobody, reader or writer, uses any value of this pool any more, and `memory` is where its blocks came from.
    pub(crate) unsafe fn dissolve(&mut self, memory: &mut impl Memory) {
        self.free = Chain::new();
        while let Some(block) = NonNull::new(self.blocks) {
            // SAFETY: a block of this pool's list starts with its header.
            let Block { next, slots } = unsafe { block.read() };
            self.blocks = next;
            let Some((layout, _)) = Self::block_layout(slots) else { continue };
            // SAFETY: the block came from `memory` with this layout and is in use by nobody.
            unsafe { memory.give(block.cast(), layout) };
        }
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;

    pooled!([u64; 9], u64);

    #[test]
    fn slots_are_distinct_aligned_and_reused() {
        let mut heap = Heap;
        let mut pool = Pool::<[u64; 9]>::new();
        assert!(pool.take().is_none());
        pool.reserve(100, &mut heap).unwrap();
        let slots: std::vec::Vec<_> = (0..100).map(|n| pool.make([n; 9]).unwrap()).collect();
        for (n, slot) in slots.iter().enumerate() {
            // SAFETY: made above, not given back.
            assert_eq!(unsafe { slot.as_ref() }[8], n as u64);
        }
        let mut chain = Chain::new();
        for slot in slots {
            // SAFETY: from this pool, in no chain.
            unsafe { chain.push(slot) };
        }
        let before = pool.available();
        pool.give_all(&mut chain);
        assert_eq!((pool.available(), chain.len()), (before + 100, 0));
        // SAFETY: nothing of the pool is used after this.
        unsafe { pool.dissolve(&mut heap) };
    }

    #[test]
    fn a_source_that_is_empty_is_no_memory() {
        assert_eq!(Pool::<u64>::new().reserve(1, &mut Nothing), Err(Error::NoMemory));
    }
}
