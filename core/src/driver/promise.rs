//! Types that carry a caller's promise to the device: [`HostRange`] for memory, [`DmabufFd`] for a file descriptor.
//!
//! A device reads and writes host memory beside this process, so an address alone proves too little. The code that hands the
//! memory over promises once, in `unsafe`, that devices may use it. The value then goes through every layer down to the
//! system call, and no layer needs `unsafe` of its own for it.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU8;

use crate::address::PageSize;

/// Host memory that devices may read and write: `address..address + size`. Costs nothing: it is two numbers.
///
/// ```
/// use core::sync::atomic::AtomicU8;
/// use hsakmt_core::driver::HostRange;
///
/// static RING: [AtomicU8; 256] = [const { AtomicU8::new(0) }; 256];
/// let range = HostRange::of_atomics(&RING);
/// assert_eq!((range.address(), range.size()), (RING.as_ptr().addr(), 256));
/// // SAFETY: a range without bytes.
/// assert_eq!(unsafe { HostRange::new(0x1000, 0) }.size(), 0);
/// ```
/// A number alone is no such promise:
/// ```compile_fail,E0133
/// # use hsakmt_core::driver::HostRange;
/// assert_eq!(HostRange::new(0x1000, 0).size(), 0);
/// ```
/// ```compile_fail,E0451
/// # use hsakmt_core::driver::HostRange;
/// let range = HostRange { address: 0x1000, ..HostRange::EMPTY };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRange<'a> {
    address: usize,
    size: usize,
    /// How long the value may be used for new registrations.
    promised: PhantomData<&'a [AtomicU8]>,
}

impl HostRange<'static> {
    /// No memory.
    pub const EMPTY: HostRange<'static> = HostRange { address: 0, size: 0, promised: PhantomData };

    /// Atomic bytes that stay until the program ends. A device may change them as another thread may.
    pub fn of_atomics(bytes: &'static [AtomicU8]) -> HostRange<'static> {
        match bytes {
            // It would be in a page of something else.
            [] => HostRange::EMPTY,
            _ => HostRange { address: bytes.as_ptr().expose_provenance(), size: bytes.len(), promised: PhantomData },
        }
    }
}

impl<'a> HostRange<'a> {
    /// `address..address + size`, of any alignment. A range that wraps, or that holds addresses without memory, is allowed:
    /// the calls that take it refuse it.
    ///
    /// # Safety
    /// A *registration* begins when a function that is given this value succeeds. It ends when the range was deregistered
    /// or freed as often as it was registered, when its buffer object was freed, or when the device was closed. Until the
    /// end of `'a` and of each registration that began during `'a`, the caller sees to all of this:
    ///
    /// - Devices may read and write every byte of the range at any time, unsynchronised with this process. So no byte is
    ///   part of a Rust object that this would break: none that is borrowed as `&T` without interior mutability or as
    ///   `&mut T`, none that has invalid bit patterns which a device might write. Atomics, and memory that is accessed by
    ///   raw pointer only, with volatile or atomic accesses, are fine.
    /// - The memory is not put to another use meanwhile: freed, unmapped, or reused by an allocator or a stack.
    /// - With `HSA_CHECK_USERPTR` ([`Options::check_userptr`](crate::manager::Options::check_userptr)) this process reads one
    ///   byte of each page when it registers the range. A page that cannot be read then ends the process, which is what the
    ///   variable is for.
    ///
    /// A device is shown whole pages. What work that is started on it does outside of the range, but inside of these pages,
    /// the code answers for that starts the work.
    pub const unsafe fn new(address: usize, size: usize) -> HostRange<'a> {
        HostRange { address, size, promised: PhantomData }
    }

    /// Its first address.
    pub const fn address(self) -> usize {
        self.address
    }

    /// Bytes.
    pub const fn size(self) -> usize {
        self.size
    }

    /// All of the pages that it touches; `None` when that wraps.
    pub(crate) const fn whole_pages(self, page: PageSize) -> Option<HostRange<'a>> {
        match page.span(self.address, self.size) {
            Some(size) => Some(HostRange { address: page.floor(self.address), size, promised: PhantomData }),
            None => None,
        }
    }

    /// Up to `size` bytes of it, from the byte `skip` on.
    pub(crate) const fn part(self, skip: usize, size: usize) -> HostRange<'a> {
        let skip = if skip < self.size { skip } else { self.size };
        let rest = self.size - skip;
        let size = if size < rest { size } else { rest };
        HostRange { address: self.address.wrapping_add(skip), size, promised: PhantomData }
    }
}

/// The number of a file descriptor of a dmabuf, lent to the driver for `'fd`. `hsakmt_kfd` makes it of a `BorrowedFd`.
///
/// ```compile_fail,E0133
/// # use hsakmt_core::driver::DmabufFd;
/// assert_eq!(DmabufFd::new(0).raw(), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmabufFd<'fd> {
    fd: i32,
    lent: PhantomData<&'fd ()>,
}

impl<'fd> DmabufFd<'fd> {
    /// # Safety
    /// For all of `'fd` the number is that of an open descriptor that its owner lends, or of none: the driver looks at what
    /// it is open on, and a device may be given the memory behind it.
    pub const unsafe fn new(fd: i32) -> DmabufFd<'fd> {
        DmabufFd { fd, lent: PhantomData }
    }

    /// The number.
    pub const fn raw(self) -> i32 {
        self.fd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stays_inside_and_pages_are_whole() {
        // SAFETY: no device is asked about it.
        let range = unsafe { HostRange::new(0x1ff0, 0x20) };
        let pages = range.whole_pages(PageSize::FOUR_KIB).unwrap();
        assert_eq!((pages.address(), pages.size()), (0x1000, 0x2000));
        for (skip, size, part) in
            [(0, 0x3000, (0x1000, 0x2000)), (0x1000, 0x800, (0x2000, 0x800)), (0x5000, 1, (0x3000, 0))]
        {
            let got = pages.part(skip, size);
            assert_eq!((got.address(), got.size()), part);
        }
        assert_eq!(HostRange::of_atomics(&[]), HostRange::EMPTY);
        // SAFETY: no device is asked about it.
        let whole = unsafe { HostRange::new(5, usize::MAX) };
        assert_eq!(whole.whole_pages(PageSize::FOUR_KIB), None);
    }
}
