//! What C passes, as types: [`Address`], [`Channel`], [`In`], [`Out`], [`InOut`], [`EventPointer`].
//!
//! Each has the shape of the C argument (one pointer), so an entry declares it in the argument's place. A null pointer
//! is an error before anything else is. C promises no alignment and no initialisation: reads and writes are whole and
//! unaligned, and what is only written is never read.
//!
//! Three promises cannot be checked, and every C caller makes them by calling. A pointer that is not null leads to memory of
//! the type that the header says, which no other code uses during the call. A range that is registered, mapped or given
//! attributes is memory that GPUs may use until that ends ([`HostRange::new`]). A descriptor is the caller's to lend.

use core::ffi::c_void;

use hsakmt_core::aperture::MAX_NODES;
use hsakmt_core::driver::{DmabufFd, HostRange};
use hsakmt_core::error::Error;
use hsakmt_core::node::NodeId;

use crate::context::Context;
use crate::ctypes::HsaEvent;

/// An address that is only looked up, never followed. Any value is fine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Address(pub(super) usize);

impl Address {
    /// Host memory that the caller hands to GPUs.
    pub(super) fn range<'call>(self, size: u64) -> HostRange<'call> {
        // SAFETY: the caller's promise (this file's essay).
        unsafe { HostRange::new(self.0, size as usize) }
    }
}

/// A dmabuf that the caller lends.
pub(super) fn dmabuf<'call>(handle: u64) -> DmabufFd<'call> {
    // SAFETY: the caller's promise (this file's essay); a number of no descriptor is allowed.
    unsafe { DmabufFd::new(handle as i32) }
}

/// An `HsaKFDContext *`. Compared, never followed.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Channel(pub(super) *const c_void);

impl Channel {
    /// The context: INVALID_PARAMETER for a null pointer, NOT_OPENED for one that is not (or no longer) open here.
    pub(super) fn context(self) -> Result<Context, Error> {
        let missing = if self.0.is_null() { Error::InvalidParameter } else { Error::NotOpened };
        Context::from_raw(self.0).ok_or(missing)
    }
}

/// Where an answer goes.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// A place that stands in another argument.
    pub(super) fn inside(place: *mut T) -> Out<T> {
        Out(place)
    }

    /// The place, or INVALID_PARAMETER for a null pointer.
    pub(super) fn required(self) -> Result<Place<T>, Error> {
        self.optional().ok_or(Error::InvalidParameter)
    }

    /// The place, if there is one.
    pub(super) fn optional(self) -> Option<Place<T>> {
        (!self.0.is_null()).then_some(Place(self.0))
    }
}

/// A pointer that is not null, out of an [`Out`].
#[derive(Debug)]
pub(super) struct Place<T>(*mut T);

impl<T: Copy> Place<T> {
    /// Writes the answer, whole.
    pub(super) fn set(&mut self, value: T) {
        // SAFETY: not null (`Out::optional`), so by the caller's promise it leads to room for a `T`; it need not be
        // aligned.
        unsafe { self.0.write_unaligned(value) }
    }

    /// Writes an array, which by the entry's count has room for all of `values`.
    pub(super) fn fill(&mut self, values: impl Iterator<Item = T>) {
        for (index, value) in values.enumerate() {
            // SAFETY: as in `set`; the array goes on to `index`. Wrapping, so that the arithmetic itself asks nothing.
            unsafe { self.0.wrapping_add(index).write_unaligned(value) }
        }
    }
}

/// A value that is read and then replaced.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct InOut<T>(*mut T);

impl<T: Copy> InOut<T> {
    /// None, for an entry without this argument.
    pub(super) fn missing() -> InOut<T> {
        InOut(core::ptr::null_mut())
    }

    /// What stands there now; `None` for a null pointer.
    pub(super) fn get(&self) -> Option<T> {
        // SAFETY: not null, so by the caller's promise it leads to a `T`, which need not be aligned.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }

    /// The same place, to be read as an array.
    pub(super) fn input(&self) -> In<T> {
        In(self.0)
    }

    /// The same place, to be written.
    pub(super) fn out(self) -> Out<T> {
        Out(self.0)
    }
}

/// What is only read: one value, or the first of an array whose length is another argument.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Whether the caller gave none.
    pub(super) fn is_missing(self) -> bool {
        self.0.is_null()
    }

    /// What stands there; INVALID_PARAMETER for a null pointer.
    pub(super) fn required(self) -> Result<T, Error> {
        if self.is_missing() { Err(Error::InvalidParameter) } else { Ok(self.at(0)) }
    }

    /// The whole array, or nothing for a missing one. Copied before any lock is taken.
    pub(super) fn copy(self, count: usize) -> Result<Vec<T>, Error> {
        let count = if self.is_missing() { 0 } else { count };
        let mut list = Vec::new();
        list.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
        list.extend((0..count).map(|index| self.at(index)));
        Ok(list)
    }

    fn at(self, index: usize) -> T {
        // SAFETY: callers have checked that the pointer is not null; by the caller's promise the array goes on to
        // `index`. It need not be aligned, and wrapping asks nothing of the arithmetic.
        unsafe { self.0.wrapping_add(index).read_unaligned() }
    }
}

impl In<u32> {
    /// The nodes listed, copied before any lock is taken; none for a missing list. The count is one of 32 bits, as in the
    /// C library, and like there nothing is read past the first node that is not one of the `known`: that is
    /// INVALID_NODE_UNIT. More than a machine can have are NO_MEMORY.
    pub(super) fn nodes(self, count: u64, known: u32) -> Result<Vec<NodeId>, Error> {
        let count = if self.is_missing() { 0 } else { count as u32 as usize };
        let mut list = Vec::new();
        list.try_reserve_exact(count.min(MAX_NODES)).map_err(|_| Error::NoMemory)?;
        for index in 0..count {
            match self.at(index) {
                node if node >= known => return Err(Error::InvalidNode),
                _ if index == MAX_NODES => return Err(Error::NoMemory),
                node => list.push(NodeId(node)),
            }
        }
        Ok(list)
    }
}

/// A `HsaEvent *`: null, or from [`EventRoom::give`] and not ended since, by the caller's promise.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct EventPointer(*mut HsaEvent);

/// Memory for one event, from the heap.
pub(super) struct EventRoom(*mut HsaEvent);

impl Drop for EventRoom {
    fn drop(&mut self) {
        // SAFETY: `EventPointer::reserve` has it from malloc, and it was not given away.
        unsafe { libc::free(self.0.cast()) }
    }
}

impl EventRoom {
    /// Turns it into an event, which is the caller's.
    pub(super) fn give(self, event: HsaEvent) -> EventPointer {
        let room = core::mem::ManuallyDrop::new(self);
        // SAFETY: `reserve` made room for one event, and this value owns it.
        unsafe { room.0.write_unaligned(event) };
        EventPointer(room.0)
    }
}

impl EventPointer {
    /// No event.
    pub(super) const NULL: EventPointer = EventPointer(core::ptr::null_mut());

    /// Memory for one event; `None` if there is none. Not under a lock.
    pub(super) fn reserve() -> Option<EventRoom> {
        // SAFETY: any size may be asked for.
        let room: *mut HsaEvent = unsafe { libc::malloc(size_of::<HsaEvent>()) }.cast();
        (!room.is_null()).then_some(EventRoom(room))
    }

    /// Whether there is none.
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The event; `None` for a null pointer.
    pub(super) fn get(self) -> Option<HsaEvent> {
        InOut(self.0).get()
    }

    /// Writes what the event brought.
    pub(super) fn tell(self, words: [u32; 5]) {
        if !self.is_null() {
            // SAFETY: an event, by the caller's promise.
            let place = unsafe { &raw mut (*self.0).EventData.EventData };
            // SAFETY: as above; it need not be aligned.
            unsafe { place.write_unaligned(words) }
        }
    }

    /// Gives the memory back.
    pub(super) fn end(self) {
        // SAFETY: from malloc (`reserve`) or null, and by the caller's promise not used any more.
        unsafe { libc::free(self.0.cast()) }
    }
}

/// A copy that the caller frees with free(3); `None` without memory for it.
pub(super) fn heap_copy<T: Copy>(values: &[T]) -> Option<*mut c_void> {
    const { assert!(align_of::<T>() <= 16) };
    // SAFETY: any size may be asked for.
    let place: *mut T = unsafe { libc::malloc(size_of_val(values).max(1)) }.cast();
    if place.is_null() {
        return None;
    }
    // SAFETY: malloc made room for the values and aligned it for any type; no other code has the pointer yet.
    unsafe { place.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    Some(place.cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_lists_are_read_as_far_as_they_are_good() {
        let ids = [1, 2, 9, 1];
        let list = In(ids.as_ptr());
        assert_eq!(list.nodes(3, 10), Ok(vec![NodeId(1), NodeId(2), NodeId(9)]));
        assert_eq!(list.nodes(0, 10), Ok(vec![]));
        assert_eq!(list.nodes(1 << 32, 10), Ok(vec![]));
        // The list ends at the unknown node: a count that lies is not found out.
        assert_eq!(list.nodes(u64::MAX, 9), Err(Error::InvalidNode));
        assert_eq!(list.nodes(1, 0), Err(Error::InvalidNode));
        let most = [1; MAX_NODES + 1];
        assert_eq!(In(most.as_ptr()).nodes(MAX_NODES as u64, 2).map(|nodes| nodes.len()), Ok(MAX_NODES));
        assert_eq!(In(most.as_ptr()).nodes(u64::MAX, 2), Err(Error::NoMemory));
        assert_eq!(list.required(), Ok(1));
        let missing = In::<u32>(core::ptr::null());
        assert_eq!(missing.nodes(u64::MAX, 10), Ok(vec![]));
        assert_eq!(missing.required(), Err(Error::InvalidParameter));
    }

    #[test]
    #[expect(clippy::cast_ptr_alignment, reason = "the point of the test")]
    fn places_need_no_alignment() {
        let mut bytes = [0xffu8; 17];
        let place = bytes.as_mut_ptr().wrapping_add(1).cast::<u64>();
        let mut out = Out(place).required().unwrap();
        out.set(9);
        out.fill([7, 8].into_iter());
        assert_eq!(bytes, [0xff, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(InOut(place).get(), Some(7));
        assert!(InOut::<u64>(core::ptr::null_mut()).get().is_none());
        assert!(matches!(Out::<u64>(core::ptr::null_mut()).required(), Err(Error::InvalidParameter)));
    }
}
