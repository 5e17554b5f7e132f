//! Memory for one call: an array that is too large for a small stack, from a mapping of its own.
//!
//! In: how many values. Out: that many, zero. Not from the heap: the memory manager holds its lock during a call, and an
//! allocator hook that waits for the lock may be what the heap would call. Two system calls for each.

use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use hsakmt_core::driver::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use zerocopy::FromZeros;

use crate::host::errno;

/// An array in a mapping of its own.
#[derive(Debug)]
pub(super) struct Scratch<T> {
    start: NonNull<T>,
    len: usize,
}

impl<T: FromZeros> Scratch<T> {
    /// `len` values, zero.
    pub(super) fn zeroed(len: usize) -> Result<Scratch<T>, Errno> {
        const { assert!(align_of::<T>() <= 4096, "a mapping begins at a page") };
        let bytes = len.checked_mul(size_of::<T>()).ok_or(Errno::NOMEM)?;
        if bytes == 0 {
            return Ok(Scratch { start: NonNull::dangling(), len });
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address the kernel maps where nothing is mapped.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }.map_err(errno)?;
        Ok(Scratch { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, len })
    }
}

impl<T> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` values (`zeroed`), zero at first, which is a value of `T`; borrowed as long as `self` is.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        let bytes = self.len * size_of::<T>();
        if bytes > 0 {
            // SAFETY: mapped in `zeroed` with this size; nothing borrows it any more.
            if let Err(error) = unsafe { munmap(self.start.as_ptr().cast(), bytes) } {
                log::warn!("munmap of {bytes} bytes: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_zero_and_one_s_own() {
        let [mut one, other] = [0; 2].map(|_| Scratch::<u64>::zeroed(3000).unwrap());
        assert!(one.iter().chain(other.iter()).all(|value| *value == 0));
        one.fill(7);
        assert!(other.iter().all(|value| *value == 0) && one.len() == 3000);
        assert!(Scratch::<u64>::zeroed(0).unwrap().is_empty());
        assert_eq!(Scratch::<u64>::zeroed(usize::MAX).err(), Some(Errno::NOMEM));
    }
}
