//! A fixed piece of memory, fit for a `static`, as a source of blocks: what stands in for an allocator where there is
//! none.
//!
//! [`Region`] is the bytes; [`Region::blocks`] lends them, once at a time, to whoever writes. Free pieces are strung
//! together in order of address and hold their size themselves; a block is cut from the first that is large enough, and
//! one that comes back is joined with its neighbours. Every size is a multiple of one grain, so no piece is too small
//! to be strung. Only the writer is ever here, and a steady state never is: pools keep what they have.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::pool::{Memory, few_slots_per_block};

/// Sizes and addresses of blocks are multiples of this: what tree nodes need.
pub(crate) const GRAIN: usize = if cfg!(target_pointer_width = "64") { 64 } else { 16 };

const _: () = assert!(align_of::<Aligned<0>>() == GRAIN && size_of::<Free>() <= GRAIN);

#[repr(C)]
#[cfg_attr(target_pointer_width = "64", repr(align(64)))]
#[cfg_attr(not(target_pointer_width = "64"), repr(align(16)))]
struct Aligned<const BYTES: usize>(MaybeUninit<[u8; BYTES]>);

/// `BYTES` bytes of memory. All zero when new, so that a `static` one takes no room in the program's file.
#[repr(C)]
pub struct Region<const BYTES: usize> {
    bytes: UnsafeCell<Aligned<BYTES>>,
    /// 1 while lent.
    lent: AtomicUsize,
}

// SAFETY: the bytes are reached through `blocks` alone, which lends them to one at a time (`lent`).
unsafe impl<const BYTES: usize> Sync for Region<BYTES> {}

impl<const BYTES: usize> Region<BYTES> {
    /// Fit for a `static`.
    pub const fn new() -> Region<BYTES> {
        Region { bytes: UnsafeCell::new(Aligned(MaybeUninit::zeroed())), lent: AtomicUsize::new(0) }
    }

    /// All of it as one source of blocks. `None` while it is lent: until the last one was dropped with every block given
    /// back. A writer that left while a reader stood inside has not given all back, and its memory is never lent again.
    ///
    /// The region is there for ever: a reader may still look at a block when the source and its writer are gone.
    ///
    /// ```compile_fail,E0597
    /// let region = hsakmt_core::region::Region::<4096>::new();
    /// let blocks = region.blocks();
    /// ```
    pub fn blocks(&'static self) -> Option<Blocks> {
        // AcqRel: whoever had it before has written its last.
        if self.lent.swap(1, Ordering::AcqRel) != 0 {
            return None;
        }
        let mut blocks = Blocks { free: ptr::null_mut(), left: 0, whole: BYTES / GRAIN * GRAIN, lent: &self.lent };
        if let Some(first) = NonNull::new(self.bytes.get().cast::<u8>()).filter(|_| blocks.whole > 0) {
            // SAFETY: the region's bytes, `GRAIN`-aligned, a multiple of it long, and by `lent` nobody else's.
            unsafe { blocks.give_back(first, blocks.whole) };
        }
        Some(blocks)
    }
}

impl<const BYTES: usize> Default for Region<BYTES> {
    fn default() -> Self {
        Region::new()
    }
}

impl<const BYTES: usize> core::fmt::Debug for Region<BYTES> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Region").field("bytes", &BYTES).finish_non_exhaustive()
    }
}

/// What stands at the front of a free piece.
#[derive(Clone, Copy)]
struct Free {
    next: *mut Free,
    size: usize,
}

/// A lent [`Region`]: a [`Memory`] of fixed size.
pub struct Blocks {
    /// The first free piece; they follow in order of address and never touch.
    free: *mut Free,
    left: usize,
    whole: usize,
    lent: &'static AtomicUsize,
}

// SAFETY: the pointers are to memory that only this value manages.
unsafe impl Send for Blocks {}

impl Blocks {
    /// Bytes that no block uses.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Strings a piece where its address belongs, joined with the pieces it touches.
    ///
    /// # Safety
    /// `piece` is `size` bytes of the region, both multiples of [`GRAIN`] and not 0, and nobody else's.
    unsafe fn give_back(&mut self, piece: NonNull<u8>, size: usize) {
        self.left += size;
        let piece = piece.cast::<Free>();
        let mut before: *mut Free = ptr::null_mut();
        let mut next = self.free;
        while !next.is_null() && next < piece.as_ptr() {
            before = next;
            // SAFETY: a strung piece begins with its header.
            next = unsafe { (*next).next };
        }
        let mut header = Free { next, size };
        if piece.as_ptr().wrapping_byte_add(size) == next {
            // SAFETY: not null, since the piece is not at the end of the address space: a strung piece.
            let joined = unsafe { next.read() };
            header = Free { next: joined.next, size: size + joined.size };
        }
        // SAFETY: ours by contract, aligned for a header, and at least as large.
        unsafe { piece.write(header) };
        let Some(before) = NonNull::new(before) else {
            self.free = piece.as_ptr();
            return;
        };
        // SAFETY: a strung piece begins with its header.
        let left = unsafe { before.read() };
        let touches = before.as_ptr().wrapping_byte_add(left.size) == piece.as_ptr();
        let joined = Free { next: header.next, size: left.size + header.size };
        let linked = Free { next: piece.as_ptr(), size: left.size };
        // SAFETY: a strung piece is ours to write.
        unsafe { before.write(if touches { joined } else { linked }) };
    }

    /// The size of a block for `layout`; `None` for none at all and for what no piece is aligned to.
    fn size_of(layout: Layout) -> Option<usize> {
        let size = layout.size().checked_next_multiple_of(GRAIN)?;
        (size > 0 && layout.align() <= GRAIN).then_some(size)
    }
}

// SAFETY: a block is cut from a free piece, which nobody else has until it is given back; pieces begin at multiples of
// `GRAIN` within a region that is aligned to it, and no layout with more alignment gets any. The region is borrowed for
// ever, and lent to nobody else while a block is out: blocks are valid whatever becomes of this value.
unsafe impl Memory for Blocks {
    const SCARCE: bool = true;

    fn slots_per_block(&self, bytes: usize) -> usize {
        few_slots_per_block(bytes)
    }

    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let size = Self::size_of(layout)?;
        let mut link = &raw mut self.free;
        loop {
            // SAFETY: `link` is this value's head or the link of a strung piece.
            let here = NonNull::new(unsafe { *link })?;
            // SAFETY: a strung piece begins with its header.
            let piece = unsafe { here.read() };
            if let Some(rest) = piece.size.checked_sub(size) {
                self.left -= size;
                if rest == 0 {
                    // SAFETY: as where `link` was read.
                    unsafe { *link = piece.next };
                } else {
                    // SAFETY: a strung piece is ours to write; it keeps its front.
                    unsafe { here.write(Free { next: piece.next, size: rest }) };
                }
                // SAFETY: `rest` is at most the piece's size: within the region.
                return Some(unsafe { here.cast::<u8>().add(rest) });
            }
            // SAFETY: `here` is a strung piece: the address of its link is valid while it is one.
            link = unsafe { &raw mut (*here.as_ptr()).next };
        }
    }

    unsafe fn give(&mut self, block: NonNull<u8>, layout: Layout) {
        if let Some(size) = Self::size_of(layout) {
            // SAFETY: by contract the block came from `take` with this layout, hence with this size, and is nobody's.
            unsafe { self.give_back(block, size) };
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        if self.left == self.whole {
            // Release: the next to have it sees that we have written our last.
            self.lent.store(0, Ordering::Release);
        }
    }
}

impl core::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Blocks").field("left", &self.left).field("whole", &self.whole).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn blocks_are_distinct_and_come_together_again() {
        static REGION: Region<4096> = Region::new();
        let mut blocks = REGION.blocks().unwrap();
        assert!(REGION.blocks().is_none(), "lent");
        let sizes = [1, 64, 100, 640, 65, 128, 7, 900];
        // A fixed order of giving back, another each round: every pair of neighbours is joined from either side.
        for round in 0..sizes.len() {
            let mut taken: Vec<_> = sizes.iter().map(|size| (blocks.take(layout(*size)).unwrap(), *size)).collect();
            for (n, (block, size)) in (0u8..).zip(&taken) {
                // SAFETY: the block is `size` bytes and ours.
                unsafe { block.write_bytes(n, *size) };
            }
            for (n, (block, size)) in (0u8..).zip(&taken) {
                // SAFETY: written above.
                let bytes = unsafe { core::slice::from_raw_parts(block.as_ptr(), *size) };
                assert!(bytes.iter().all(|byte| *byte == n), "another block's bytes");
                assert_eq!(block.addr().get() % GRAIN, 0);
            }
            while !taken.is_empty() {
                let (block, size) = taken.remove(round * 5 % taken.len());
                // SAFETY: taken with this layout, not used any more.
                unsafe { blocks.give(block, layout(size)) };
            }
            assert_eq!(blocks.left(), 4096);
            let whole = blocks.take(layout(4096)).expect("all pieces are one again");
            assert!(blocks.take(layout(1)).is_none());
            // SAFETY: as above.
            unsafe { blocks.give(whole, layout(4096)) };
        }
        assert!(blocks.take(layout(4097)).is_none() && blocks.take(layout(0)).is_none());
        assert!(blocks.take(Layout::from_size_align(1, 2 * GRAIN).unwrap()).is_none());
    }

    #[test]
    fn lent_again_only_when_everything_came_back() {
        static REGION: Region<256> = Region::new();
        static NOTHING: Region<0> = Region::new();
        let mut blocks = REGION.blocks().unwrap();
        let block = blocks.take(layout(8)).unwrap();
        // SAFETY: taken above.
        unsafe { blocks.give(block, layout(8)) };
        drop(blocks);
        let mut blocks = REGION.blocks().expect("all came back");
        let _kept = blocks.take(layout(8)).unwrap();
        drop(blocks);
        assert!(REGION.blocks().is_none(), "a block is still out");
        assert!(NOTHING.blocks().unwrap().take(layout(1)).is_none());
    }
}
