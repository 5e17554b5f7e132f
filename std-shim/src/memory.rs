//! Where the registry's pools get their blocks: anonymous memory straight from the kernel.
//!
//! Never `malloc`: the writer holds its lock while it grows, and a caller's `malloc` may itself be waiting for that lock
//! (GPU address sanitizers free device memory from inside it).

use std::alloc::Layout;
use std::ptr::NonNull;

use hsakmt_core::pool::Memory;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Blocks of whole pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mmap;

/// A page on every machine that runs this; larger pages only round further up inside the kernel.
const PAGE: usize = 4096;

// SAFETY: a fresh private mapping is valid, page-aligned, at least as long as asked and nobody else's until unmapped.
unsafe impl Memory for Mmap {
    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        if layout.align() > PAGE || layout.size() == 0 {
            return None;
        }
        let (access, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: without MAP_FIXED a mapping replaces nothing.
        let block = unsafe { mmap_anonymous(std::ptr::null_mut(), layout.size(), access, private) }.ok()?;
        NonNull::new(block.cast())
    }

    unsafe fn give(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: by contract the block is a mapping of `take` of this size that nobody uses any more.
        let _ = unsafe { munmap(block.as_ptr().cast(), layout.size()) };
    }
}
