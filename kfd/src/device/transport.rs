//! How the ioctls reach a KFD: [`Transport`], over a descriptor ([`Kfd`]) or into the simulated machine
//! (`crate::sim::embedded`).
//!
//! In: a request number as a constant, the struct that belongs to it, and the arrays that the struct points to
//! ([`Arrays`]). Out: the struct as answered, or an error number. What never happens: a choice of what to ask, or a second
//! try; both are [`Device`](super::Device)'s, which is the same over every transport.

use std::ffi::c_void;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hsakmt_core::driver::Errno;
use rustix::ioctl::{Getter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, Updater};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::RenderNode;
use crate::host::{AddressSpace, HostSpace, errno};
use crate::topology::{Topology, TopologyError};

/// The struct of an ioctl: plain bytes.
pub trait Args: FromBytes + IntoBytes + Immutable + Copy {}

impl<T: FromBytes + IntoBytes + Immutable + Copy> Args for T {}

/// One open KFD.
///
/// # Safety
/// An implementation answers as KFD does. It reads and writes the struct it is given, reads and writes through addresses in
/// it what KFD reads and writes, which is in [`Arrays`] or was promised to the caller, and touches nothing else. A
/// descriptor in its answer is a new one, which is the caller's. [`AsFd`] lends its own descriptor. What its
/// [`Transport::Space`] answers is its own, as in the contract of [`hsakmt_core::driver::Driver`].
pub unsafe trait Transport: AsFd + Debug {
    /// Where the addresses of its buffers come from.
    type Space: AddressSpace;

    /// An ioctl that only answers.
    ///
    /// # Safety
    /// `OPCODE` is a request that fills a `T` and reads nothing.
    unsafe fn get<const OPCODE: Opcode, T: Args>(&self) -> Result<T, Errno>;

    /// An ioctl that only asks.
    ///
    /// # Safety
    /// `OPCODE` is a request that reads a `T`, and follows no address in it.
    unsafe fn set<const OPCODE: Opcode, T: Args>(&self, args: T) -> Result<(), Errno>;

    /// An ioctl that reads its struct and writes the answer into it, on errors too.
    ///
    /// # Safety
    /// `OPCODE` is a request that reads and writes a `T`. What it reads and writes through addresses in it is in `arrays`, or
    /// may be used as it wants.
    unsafe fn update<const OPCODE: Opcode, T: Args>(&self, args: &mut T, arrays: &Arrays<'_>) -> Result<(), Errno>;

    /// As [`Transport::update`], of an ioctl whose system call returns a number: returns that number.
    ///
    /// # Safety
    /// As for [`Transport::update`].
    unsafe fn update_counted<const OPCODE: Opcode, T: Args>(
        &self,
        args: &mut T,
        arrays: &Arrays<'_>,
    ) -> Result<u32, Errno>;

    /// An ioctl without an argument.
    ///
    /// # Safety
    /// `OPCODE` is a request that touches no memory.
    unsafe fn command<const OPCODE: Opcode>(&self) -> Result<(), Errno>;

    /// An ioctl whose request says how many bytes its argument has.
    ///
    /// # Safety
    /// As for [`Transport::update`]; the size field of `request` is the length of `args`.
    unsafe fn update_sized(&self, request: Opcode, args: &mut [u8]) -> Result<(), Errno>;

    /// Opens the render node with this minor.
    fn open_render(&self, minor: u32) -> Result<RenderNode, Errno>;

    /// The machine, as it is now. `svm_api` off hides that capability of every node.
    fn topology(&self, svm_api: bool) -> Result<Topology, TopologyError>;

    /// What opening looks at: see [`Topology::check`].
    fn check_topology(&self, svm_api: bool) -> Result<(), TopologyError>;

    /// Its addresses.
    fn space(&self) -> Self::Space;
}

/// The arrays that an ioctl's struct points to, borrowed while the call lasts.
#[derive(Debug)]
pub struct Arrays<'a> {
    pieces: [Piece; 2],
    borrowed: PhantomData<&'a mut [u8]>,
}

/// One array.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: *mut u8,
    bytes: usize,
    writable: bool,
}

impl Piece {
    const NONE: Piece = Piece { start: std::ptr::null_mut(), bytes: 0, writable: false };

    fn written<T: FromBytes + IntoBytes>(array: &mut [T]) -> Piece {
        Piece { bytes: size_of_val(array), start: array.as_mut_ptr().cast(), writable: true }
    }

    /// Where `address..address + size` is, if all of it is in this array.
    fn place(&self, address: u64, size: usize) -> Option<*mut u8> {
        let skip = usize::try_from(address).ok()?.checked_sub(self.start.addr())?;
        let inside = self.bytes.checked_sub(skip).is_some_and(|rest| size <= rest);
        inside.then(|| self.start.wrapping_add(skip))
    }
}

impl<'a> Arrays<'a> {
    /// The struct points to nothing.
    pub const NONE: Arrays<'static> = Arrays { pieces: [Piece::NONE; 2], borrowed: PhantomData };

    /// One array that is read.
    pub fn read<T: IntoBytes + Immutable>(array: &'a [T]) -> Arrays<'a> {
        let piece = Piece { bytes: size_of_val(array), start: array.as_ptr().cast_mut().cast(), writable: false };
        Arrays { pieces: [piece, Piece::NONE], borrowed: PhantomData }
    }

    /// One array that is written.
    pub fn written<T: FromBytes + IntoBytes>(array: &'a mut [T]) -> Arrays<'a> {
        Arrays { pieces: [Piece::written(array), Piece::NONE], borrowed: PhantomData }
    }

    /// Two arrays that are written.
    pub fn both_written<T: FromBytes + IntoBytes>(first: &'a mut [T], second: &'a mut [T]) -> Arrays<'a> {
        Arrays { pieces: [Piece::written(first), Piece::written(second)], borrowed: PhantomData }
    }

    /// Memory that is no Rust object.
    ///
    /// # Safety
    /// The bytes can be read and written for as long as this is used.
    pub unsafe fn memory(address: usize, bytes: usize) -> Arrays<'static> {
        let piece = Piece { start: std::ptr::with_exposed_provenance_mut(address), bytes, writable: true };
        Arrays { pieces: [piece, Piece::NONE], borrowed: PhantomData }
    }

    /// What the struct says where the first array is.
    pub fn first(&self) -> u64 {
        self.pieces[0].start.expose_provenance() as u64
    }

    /// What the struct says where the second array is.
    pub fn second(&self) -> u64 {
        self.pieces[1].start.expose_provenance() as u64
    }

    /// Copies what stands at an address of an array; `EFAULT` unless all of it is in one.
    pub fn copy_from(&self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        let mut places = self.pieces.iter().filter_map(|piece| piece.place(address, bytes.len()));
        let place = places.next().ok_or(Errno(libc::EFAULT))?;
        // SAFETY: `place` has as many bytes, which are initialised (`IntoBytes`) and borrowed for `'a`; `bytes` is another
        // object, since nothing but this value may use the borrowed one.
        unsafe { place.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies to an address of an array; `EFAULT` unless all of it is in one that is written.
    pub fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        let written = self.pieces.iter().filter(|piece| piece.writable);
        let mut places = written.filter_map(|piece| piece.place(address, bytes.len()));
        let place = places.next().ok_or(Errno(libc::EFAULT))?;
        // SAFETY: as in `copy_from`; the array was borrowed to be written, and any bytes are a value of it (`FromBytes`).
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

/// An open `/dev/kfd`. The kernel's side of this process ends with the last copy of the descriptor.
#[derive(Debug)]
pub struct Kfd {
    fd: OwnedFd,
}

impl Kfd {
    /// # Safety
    /// As for [`Device::from_fd`](super::Device::from_fd).
    pub(super) unsafe fn new(fd: OwnedFd) -> Kfd {
        Kfd { fd }
    }
}

impl AsFd for Kfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

// SAFETY: KFD answers as KFD does; the descriptor is one by the contract of `Kfd::new`. `HostSpace` answers what the kernel
// has mapped for it.
unsafe impl Transport for Kfd {
    type Space = HostSpace;

    unsafe fn get<const OPCODE: Opcode, T: Args>(&self) -> Result<T, Errno> {
        // SAFETY: the caller's promise.
        let call = unsafe { Getter::<OPCODE, T>::new() };
        // SAFETY: the kernel fills one `T`, as the caller promises.
        unsafe { rustix::ioctl::ioctl(&self.fd, call) }.map_err(errno)
    }

    unsafe fn set<const OPCODE: Opcode, T: Args>(&self, args: T) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let call = unsafe { Setter::<OPCODE, T>::new(args) };
        // SAFETY: the kernel only reads, as the caller promises.
        unsafe { rustix::ioctl::ioctl(&self.fd, call) }.map_err(errno)
    }

    unsafe fn update<const OPCODE: Opcode, T: Args>(&self, args: &mut T, _: &Arrays<'_>) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let call = unsafe { Updater::<OPCODE, T>::new(args) };
        // SAFETY: the kernel stays within what the caller promises.
        unsafe { rustix::ioctl::ioctl(&self.fd, call) }.map_err(errno)
    }

    unsafe fn update_counted<const OPCODE: Opcode, T: Args>(&self, args: &mut T, _: &Arrays<'_>) -> Result<u32, Errno> {
        // SAFETY: the kernel stays within what the caller promises.
        unsafe { rustix::ioctl::ioctl(&self.fd, Counted::<OPCODE, T>(args)) }.map_err(errno)
    }

    unsafe fn command<const OPCODE: Opcode>(&self) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let call = unsafe { NoArg::<OPCODE>::new() };
        // SAFETY: the kernel touches no memory, as the caller promises.
        unsafe { rustix::ioctl::ioctl(&self.fd, call) }.map_err(errno)
    }

    unsafe fn update_sized(&self, request: Opcode, args: &mut [u8]) -> Result<(), Errno> {
        // SAFETY: the kernel reads and writes as many bytes as the request says, which `args` has, and stays within what
        // the caller promises for the rest.
        unsafe { rustix::ioctl::ioctl(&self.fd, Sized { request, args }) }.map_err(errno)
    }

    fn open_render(&self, minor: u32) -> Result<RenderNode, Errno> {
        RenderNode::open(minor)
    }

    fn topology(&self, svm_api: bool) -> Result<Topology, TopologyError> {
        Topology::read_host(svm_api)
    }

    fn check_topology(&self, svm_api: bool) -> Result<(), TopologyError> {
        Topology::check_host(svm_api)
    }

    fn space(&self) -> HostSpace {
        HostSpace::new()
    }
}

/// A call whose request says how many bytes take part.
struct Sized<'a> {
    request: Opcode,
    args: &'a mut [u8],
}

// SAFETY: the pointer leads to as many bytes as the request says (`Transport::update_sized`), and the kernel writes into
// them.
unsafe impl Ioctl for Sized<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.request
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.args.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// A call whose return value is a number.
struct Counted<'a, const OPCODE: Opcode, T>(&'a mut T);

// SAFETY: the pointer leads to a `T`, which is what the request reads and writes (`Transport::update_counted`).
unsafe impl<const OPCODE: Opcode, T: Args> Ioctl for Counted<'_, OPCODE, T> {
    type Output = u32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        OPCODE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> rustix::io::Result<u32> {
        Ok(u32::try_from(output).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_an_array_can_be_copied() {
        let ids = [1u32, 2, 3];
        let arrays = Arrays::read(&ids);
        let fault = Err(Errno(libc::EFAULT));
        let mut two = [0; 8];
        assert_eq!(arrays.copy_from(arrays.first() + 4, &mut two), Ok(()));
        assert_eq!(two[..], [2u32.to_ne_bytes(), 3u32.to_ne_bytes()].concat());
        assert_eq!(arrays.copy_from(arrays.first() + 5, &mut two), fault);
        assert_eq!(arrays.copy_from(arrays.first() - 1, &mut [0]), fault);
        assert_eq!(arrays.copy_from(u64::MAX, &mut [0]), fault);
        assert_eq!(arrays.copy_to(arrays.first(), &[0]), fault, "it is only read");

        let (mut one, mut other) = ([0u32; 2], [0u32; 2]);
        let arrays = Arrays::both_written(&mut one, &mut other);
        assert_eq!(arrays.copy_to(arrays.first(), &[1; 8]), Ok(()));
        assert_eq!(arrays.copy_to(arrays.second() + 4, &[2; 4]), Ok(()));
        assert_eq!(arrays.copy_to(arrays.second() + 4, &[3; 5]), fault);
        assert_eq!((one, other), ([0x0101_0101; 2], [0, 0x0202_0202]));
        assert_eq!(Arrays::NONE.copy_from(0, &mut [0]), fault);
    }
}
