//! Where the writer's memory comes from: [`Memory`] gives blocks, a `Pool` cuts them into slots of one size, a
//! `Chain` strings slots together without allocating.
//!
//! Only the writer is ever here. A slot is in exactly one place at a time: free in its pool, in the writer's hand, in
//! a published version, or retired and waiting in a chain. The link that strings chains stands *beside* the value,
//! never inside it, so that retiring a node writes no byte a reader may still look at.
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
    /// limits what waits for readers.
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

/// A value and, beside it, the link of the chain its slot is in.
#[repr(C)]
struct Slot<T> {
    value: MaybeUninit<T>,
    link: *mut Slot<T>,
    /// In models: told of every reading and every reuse.
    #[cfg(loom)]
    watch: crate::primitive::Watch,
}

/// In models: makes a slot's watch.
#[cfg(loom)]
fn watch<T>(slot: NonNull<Slot<T>>) {
    // SAFETY: `grow` gives a slot inside a block that is its own.
    let watch = unsafe { &raw mut (*slot.as_ptr()).watch };
    // SAFETY: as above.
    unsafe { watch.write(crate::primitive::Watch::new()) };
}

/// In models: tells loom that this thread reads a value of a pool.
#[cfg(loom)]
#[track_caller]
pub(crate) fn reading<T>(value: *const T) {
    let slot = NonNull::new(value.cast_mut()).map(|value| value.cast::<Slot<T>>());
    // SAFETY: callers give what a version points to, or null: a value of a pool's slot, made by `grow`.
    slot.into_iter().for_each(|slot| unsafe { slot.as_ref() }.watch.read());
}

/// Slots strung together; keeps both ends, so that two chains join in one step.
#[derive(Debug)]
pub(crate) struct Chain<T> {
    head: *mut Slot<T>,
    tail: *mut Slot<T>,
    len: usize,
}

impl<T> Chain<T> {
    pub(crate) const fn new() -> Chain<T> {
        Chain { head: ptr::null_mut(), tail: ptr::null_mut(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of its slots.
    pub(crate) fn bytes(&self) -> usize {
        self.len * size_of::<Slot<T>>()
    }

    /// Adds a slot at the end.
    ///
    /// # Safety
    /// `value` came from a [`Pool`] of `T` and is in no chain.
    pub(crate) unsafe fn push(&mut self, value: NonNull<T>) {
        let slot = value.cast::<Slot<T>>().as_ptr();
        // SAFETY: by contract the pointer is that of a pool's slot, whose first field is the value; its link is the
        // writer's alone.
        unsafe { (*slot).link = ptr::null_mut() };
        if self.tail.is_null() {
            self.head = slot;
        } else {
            // SAFETY: `tail` is a slot of this chain, hence valid, and its link is the writer's alone.
            unsafe { (*self.tail).link = slot };
        }
        self.tail = slot;
        self.len += 1;
    }

    /// Takes the first slot.
    pub(crate) fn pop(&mut self) -> Option<NonNull<T>> {
        let slot = NonNull::new(self.head)?;
        // SAFETY: a slot of this chain is valid and its link is the writer's alone.
        self.head = unsafe { (*slot.as_ptr()).link };
        if self.head.is_null() {
            self.tail = ptr::null_mut();
        }
        self.len -= 1;
        Some(slot.cast())
    }

    /// Overwrites every value: in tests a reader that still looks at one finds nonsense.
    #[cfg(any(test, loom))]
    #[track_caller]
    fn poison(&mut self) {
        let mut here = self.head;
        while let Some(slot) = NonNull::new(here) {
            // SAFETY: a slot of this chain is valid, and its grace period has passed: nobody reads its value.
            unsafe { slot.as_ptr().cast::<u8>().write_bytes(0xdd, size_of::<T>()) };
            #[cfg(loom)]
            // SAFETY: a slot of this chain is valid, and `grow` made its watch.
            unsafe { slot.as_ref() }.watch.write();
            // SAFETY: a slot of this chain is valid and its link is the writer's alone.
            here = unsafe { (*slot.as_ptr()).link };
        }
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
            unsafe { (*self.tail).link = other.head };
        }
        self.tail = other.tail;
        self.len += other.len;
        *other = Chain::new();
    }
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

impl<T: Copy> Pool<T> {
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
        let slots = memory.slots_per_block(size_of::<Slot<T>>()).max(1);
        let (layout, first) = Self::block_layout(slots).ok_or(Error::NoMemory)?;
        let block = memory.take(layout).ok_or(Error::NoMemory)?;
        let header = block.cast::<Block>();
        // SAFETY: the block starts with room for a `Block` at its alignment (see `block_layout`) and is ours.
        unsafe { header.as_ptr().write(Block { next: self.blocks, slots }) };
        self.blocks = header.as_ptr();
        // SAFETY: `first` is within the block.
        let mut slot = unsafe { block.add(first) }.cast::<Slot<T>>();
        for position in 0..slots {
            #[cfg(loom)]
            watch(slot);
            // SAFETY: the slot is inside the block, belongs to this pool and is in no chain yet.
            unsafe { self.free.push(slot.cast()) };
            if position + 1 < slots {
                // SAFETY: the block has room for `slots` slots from `first` on, and this is not the last.
                slot = unsafe { slot.add(1) };
            }
        }
        Ok(())
    }

    /// The layout of a block of `slots` slots, and where its first slot is.
    fn block_layout(slots: usize) -> Option<(Layout, usize)> {
        let slots = Layout::array::<Slot<T>>(slots).ok()?;
        Layout::new::<Block>().extend(slots).ok()
    }

    /// Bytes of the blocks that hold `count` values where memory is little; each block in whole `grains`.
    #[cfg(not(loom))]
    pub(crate) const fn bytes_for(count: usize, grain: usize) -> usize {
        let slots = few_slots_per_block(size_of::<Slot<T>>());
        let first = size_of::<Block>().next_multiple_of(align_of::<Slot<T>>());
        let block = first + slots * size_of::<Slot<T>>();
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

    /// Gives a slot back that no reader can have seen.
    ///
    /// # Safety
    /// `value` came from this pool, is in no chain, and no reader holds it.
    pub(crate) unsafe fn give(&mut self, value: NonNull<T>) {
        // SAFETY: by contract.
        unsafe { self.free.push(value) };
    }

    /// Gives back a whole chain whose grace period has passed. Its slots are the next to be taken: they are the ones
    /// that caches may still hold.
    #[inline]
    pub(crate) fn give_all(&mut self, chain: &mut Chain<T>) {
        if chain.head.is_null() {
            return;
        }
        #[cfg(any(test, loom))]
        chain.poison();
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
