//! Where the writer's side gets its memory - trees, lists, ledger: anonymous memory straight from the kernel, in large
//! pieces.
//!
//! Never `malloc`: the writer holds its lock while it grows, and a caller's `malloc` may itself be waiting for that lock
//! (GPU address sanitizers free device memory from inside it). Never small pieces: those would settle in the holes that
//! freed device addresses leave, and the next allocation of the caller would lie elsewhere than the caller expects.

use std::alloc::Layout;
use std::ptr::{self, NonNull};

use hsakmt_core::pool::Memory;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The first piece; each further one is twice as large, up to [`LARGEST`].
const FIRST: usize = 256 << 10;
const LARGEST: usize = 8 << 20;

/// Blocks from here on are pieces of their own and go back to the kernel.
const OWN_PIECE: usize = FIRST;

/// Pieces from here on are worth huge pages.
const HUGE: usize = 4 << 20;

/// No block needs more.
const ALIGN: usize = 4096;

/// Powers of two below [`OWN_PIECE`].
const CLASSES: usize = OWN_PIECE.ilog2() as usize;

/// Blocks cut from pieces.
#[derive(Debug)]
pub struct Mmap {
    /// What is left of the newest piece.
    free: *mut u8,
    left: usize,
    /// How large the next piece is.
    next: usize,
    /// Small blocks that came back, by the power of two that their size is at least.
    returned: [*mut Returned; CLASSES],
}

/// A small block that came back, in its own first bytes.
struct Returned {
    next: *mut Returned,
    layout: Layout,
}

// SAFETY: the pointers are to memory that only this value manages.
unsafe impl Send for Mmap {}

impl Default for Mmap {
    fn default() -> Mmap {
        Mmap::new()
    }
}

impl Mmap {
    /// No memory yet.
    pub const fn new() -> Mmap {
        Mmap { free: ptr::null_mut(), left: 0, next: FIRST, returned: [ptr::null_mut(); CLASSES] }
    }

    /// A returned block of exactly this layout.
    fn reuse(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let mut link: *mut *mut Returned = self.returned.get_mut(class(layout))?;
        loop {
            // SAFETY: `link` is this value's head or the link of a returned block, which is ours and whole.
            let here = NonNull::new(unsafe { *link })?;
            // SAFETY: a returned block starts with what `give` wrote, aligned.
            let Returned { next, layout: known } = unsafe { here.read() };
            if known == layout {
                // SAFETY: as where `link` was read.
                unsafe { *link = next };
                return Some(here.cast());
            }
            // SAFETY: `here` is a returned block: the address of its link is valid while it is one.
            link = unsafe { &raw mut (*here.as_ptr()).next };
        }
    }
}

/// What a block of `layout` really takes: room and alignment for a [`Returned`] to stand in it later, and a size that
/// leaves the next block aligned for one too. `None` past [`ALIGN`], and for a size that no block has.
fn block(layout: Layout) -> Option<Layout> {
    let own = Layout::new::<Returned>();
    let size = layout.size().max(own.size()).checked_next_multiple_of(own.align())?;
    let align = layout.align().max(own.align());
    if align > ALIGN { None } else { Layout::from_size_align(size, align).ok() }
}

fn class(layout: Layout) -> usize {
    layout.size().max(1).ilog2() as usize
}

/// Fresh memory of its own. A large piece asks for huge pages: a registry of 100,000 objects is then read a fifth faster.
fn piece(size: usize) -> Option<*mut u8> {
    let (access, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: without MAP_FIXED a mapping replaces nothing.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), size, access, private) }.ok()?;
    if size >= HUGE {
        // SAFETY: advice about a mapping just made; it changes no content, and a refusal is no loss.
        let _ = unsafe { madvise(start, size, Advice::LinuxHugepage) };
    }
    Some(start.cast())
}

// SAFETY: pieces are fresh private mappings; blocks are cut from them without overlap, or come back from `give`, which
// only gets what nobody uses any more.
unsafe impl Memory for Mmap {
    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let layout = block(layout)?;
        if layout.size() >= OWN_PIECE {
            return NonNull::new(piece(layout.size())?);
        }
        if let Some(block) = self.reuse(layout) {
            return Some(block);
        }
        let skip = self.free.align_offset(layout.align());
        if self.free.is_null() || skip.checked_add(layout.size()).is_none_or(|needed| needed > self.left) {
            self.free = piece(self.next)?;
            self.left = self.next;
            self.next = self.next.saturating_mul(2).min(LARGEST);
            return self.take(layout);
        }
        let start = self.free.wrapping_add(skip);
        self.free = start.wrapping_add(layout.size());
        self.left -= skip + layout.size();
        NonNull::new(start)
    }

    unsafe fn give(&mut self, start: NonNull<u8>, layout: Layout) {
        // `take` gave no block without one.
        let Some(layout) = block(layout) else { return };
        if layout.size() >= OWN_PIECE {
            // SAFETY: by contract the block is a piece of `take` of this size that nobody uses any more.
            let _ = unsafe { munmap(start.as_ptr().cast(), layout.size()) };
            return;
        }
        let Some(first) = self.returned.get_mut(class(layout)) else { return };
        let returned = start.cast::<Returned>();
        // SAFETY: by contract the block is ours again, and as `take` rounded its layout (`block`) it has room for a
        // `Returned` and is aligned for one.
        unsafe { returned.write(Returned { next: *first, layout }) };
        *first = returned.as_ptr();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_aligned_and_reused() {
        let mut memory = Mmap::new();
        let layouts = [Layout::from_size_align(100, 64).unwrap(), Layout::from_size_align(300_000, 64).unwrap()];
        let mut seen: Vec<(usize, usize)> = Vec::new();
        for turn in 0..9000 {
            let layout = layouts[usize::from(turn % 1000 == 0)];
            let block = memory.take(layout).unwrap();
            assert_eq!(block.addr().get() % layout.align(), 0);
            seen.push((block.addr().get(), layout.size()));
        }
        seen.sort_unstable();
        assert!(seen.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        let block = memory.take(layouts[0]).unwrap();
        // SAFETY: just taken, not used.
        unsafe { memory.give(block, layouts[0]) };
        assert_eq!(memory.take(layouts[0]), Some(block));
        assert_eq!(memory.take(Layout::from_size_align(8192, 8192).unwrap()), None);
    }

    #[test]
    fn odd_sizes_and_alignments_leave_returned_blocks_aligned() {
        let mut memory = Mmap::new();
        let [odd, bytes, words] = [(132, 8), (64, 1), (64, 4)].map(|(size, align)| {
            let layout = Layout::from_size_align(size, align).unwrap();
            (layout, memory.take(layout).unwrap())
        });
        for (layout, block) in [odd, bytes, words] {
            assert_eq!(block.addr().get() % align_of::<Returned>(), 0, "{layout:?}");
        }
        for (layout, block) in [bytes, words, odd] {
            // SAFETY: taken above with this layout, not used.
            unsafe { memory.give(block, layout) };
        }
        // Blocks of one size and alignment after rounding are one kind.
        assert_eq!((memory.take(words.0), memory.take(bytes.0)), (Some(words.1), Some(bytes.1)));
        assert_eq!(memory.take(odd.0), Some(odd.1));
        let tiny = Layout::new::<u8>();
        let block = memory.take(tiny).unwrap();
        // SAFETY: just taken, not used.
        unsafe { memory.give(block, tiny) };
        assert_eq!(memory.take(tiny), Some(block));
        assert_eq!(memory.take(Layout::from_size_align(isize::MAX as usize - 7, 1).unwrap()), None);
    }
}
