//! A growable row of values in memory from [`Memory`]: what the writer keeps besides the trees.
//!
//! In: values, and the source of memory wherever the row may grow or end. Out: a slice. Growth is fallible and happens
//! only in [`Array::reserve`]; everything after it takes what is there. What never happens: an allocation elsewhere, an
//! allocation that aborts. A row does not know its source, so it does not give its memory back by itself: whoever owns
//! one ends it with [`Array::free`] (tests insist on it).

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::error::{Error, Result};
use crate::pool::Memory;

/// The smallest row: a source may want room for a link in what comes back.
const LEAST_BYTES: usize = 64;

/// Values in a row.
#[derive(Debug)]
pub(crate) struct Array<T> {
    start: NonNull<T>,
    len: usize,
    capacity: usize,
}

// SAFETY: an array owns its values and its memory, and shares neither.
unsafe impl<T: Send> Send for Array<T> {}

impl<T> Array<T> {
    /// Nothing, without memory.
    pub(crate) const fn new() -> Array<T> {
        const { assert!(size_of::<T>() > 0) };
        Array { start: NonNull::dangling(), len: 0, capacity: 0 }
    }

    /// Makes room for `more` values: that many can be pushed or inserted without failing.
    pub(crate) fn reserve(&mut self, more: usize, memory: &mut impl Memory) -> Result<()> {
        let wanted = self.len.checked_add(more).ok_or(Error::NoMemory)?;
        if wanted <= self.capacity {
            return Ok(());
        }
        let capacity = capacity_for::<T>(wanted).ok_or(Error::NoMemory)?;
        let block = memory.take(layout::<T>(capacity).ok_or(Error::NoMemory)?).ok_or(Error::NoMemory)?.cast::<T>();
        // SAFETY: both have room for `len` values, of which the old row's are initialised; the new one is nobody else's.
        unsafe { self.start.copy_to_nonoverlapping(block, self.len) };
        let old = core::mem::replace(self, Array { start: block, len: self.len, capacity });
        old.abandon(memory);
        Ok(())
    }

    /// Adds a value at the end; hands it back where there is no room.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        self.insert(self.len, value)
    }

    /// Puts a value in front of the one at `position`; hands it back where there is no room or no such place.
    pub(crate) fn insert(&mut self, position: usize, value: T) -> Result<(), T> {
        if position > self.len || self.len == self.capacity {
            return Err(value);
        }
        // SAFETY: `position` is at most `len`, which is within the allocation.
        let place = unsafe { self.start.add(position) };
        // SAFETY: as above; one further is within it too, since `len` is below the capacity.
        let behind = unsafe { place.add(1) };
        // SAFETY: the values from `position` on are initialised, and there is room for all of them one further.
        unsafe { place.copy_to(behind, self.len - position) };
        // SAFETY: the place is within the allocation, and what stood there has moved.
        unsafe { place.write(value) };
        self.len += 1;
        Ok(())
    }

    /// Takes the value at `position` out.
    pub(crate) fn remove(&mut self, position: usize) -> Option<T> {
        if position >= self.len {
            return None;
        }
        // SAFETY: below `len`, hence within the allocation.
        let place = unsafe { self.start.add(position) };
        // SAFETY: values below `len` are initialised; this one is overwritten or left behind below, so it is read once.
        let value = unsafe { place.read() };
        // SAFETY: `position` is below `len`, so one further is within the allocation or just behind it.
        let behind = unsafe { place.add(1) };
        // SAFETY: the values behind are initialised, and move within the row.
        unsafe { behind.copy_to(place, self.len - position - 1) };
        self.len -= 1;
        Some(value)
    }

    /// Takes the last value out.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.remove(self.len.checked_sub(1)?)
    }

    /// Ends the row and what is in it.
    pub(crate) fn free(mut self, memory: &mut impl Memory) {
        while self.pop().is_some() {}
        self.abandon(memory);
    }

    /// Gives the memory back, without a thought for what is in it.
    fn abandon(mut self, memory: &mut impl Memory) {
        if let Some(layout) = layout::<T>(self.capacity).filter(|_| self.capacity > 0) {
            // SAFETY: the memory came from the owner's one source with this layout, and `self` ends here.
            unsafe { memory.give(self.start.cast(), layout) };
        }
        (self.len, self.capacity) = (0, 0);
    }
}

impl<T: Copy> Array<T> {
    /// A row of the same values.
    pub(crate) fn copied(values: &[T], memory: &mut impl Memory) -> Result<Array<T>> {
        let mut array = Array::new();
        array.reserve(values.len(), memory)?;
        values.iter().all(|value| array.push(*value).is_ok());
        Ok(array)
    }

    /// A row of `len` times `value`.
    pub(crate) fn filled(len: usize, value: T, memory: &mut impl Memory) -> Result<Array<T>> {
        let mut array = Array::new();
        array.reserve(len, memory)?;
        (0..len).all(|_| array.push(value).is_ok());
        Ok(array)
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the first `len` values are initialised, and borrowed as long as `self` is.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.len).as_ref() }
    }
}

impl<T> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.len).as_mut() }
    }
}

#[cfg(test)]
impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        assert!(self.capacity == 0 || std::thread::panicking(), "memory of {} values is lost", self.capacity);
    }
}

/// How many values a row for `wanted` has room for. Powers of two: few sizes, which a source can use again.
const fn capacity_for<T>(wanted: usize) -> Option<usize> {
    let least = LEAST_BYTES / size_of::<T>();
    let wanted = if wanted > least { wanted } else { least };
    wanted.checked_next_power_of_two()
}

/// Bytes of a row for `len` values, in whole `grains`.
#[cfg(all(target_has_atomic = "ptr", not(loom)))]
pub(crate) const fn bytes_for<T>(len: usize, grain: usize) -> usize {
    match capacity_for::<T>(len) {
        Some(capacity) => (capacity * size_of::<T>()).next_multiple_of(grain),
        None => usize::MAX,
    }
}

fn layout<T>(capacity: usize) -> Option<Layout> {
    Layout::array::<MaybeUninit<T>>(capacity).ok()
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::pool::Heap;
    use proptest::prelude::*;
    use std::boxed::Box;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn it_does_what_a_vec_does(steps in prop::collection::vec((0..3u8, 0..40usize), 0..200)) {
            let (mut array, mut twin) = (Array::<Box<usize>>::new(), Vec::new());
            for (number, (what, position)) in steps.into_iter().enumerate() {
                match what {
                    0 => prop_assert_eq!(array.remove(position).is_some(), position < twin.len()
                        && { twin.remove(position); true }),
                    _ if position > twin.len() => prop_assert!(array.insert(position, Box::new(number)).is_err()),
                    _ => {
                        array.reserve(1, &mut Heap).unwrap();
                        array.insert(position, Box::new(number)).unwrap();
                        twin.insert(position, Box::new(number));
                    }
                }
                prop_assert_eq!(&*array, &*twin);
            }
            array.free(&mut Heap);
        }
    }

    #[test]
    fn without_room_the_value_comes_back() {
        let mut array = Array::new();
        assert_eq!(array.push(7u64), Err(7));
        assert_eq!(array.pop(), None);
        array.reserve(1, &mut Heap).unwrap();
        assert!((0..8).all(|n| array.push(n).is_ok()), "64 bytes");
        assert_eq!((array.push(8), array.len()), (Err(8), 8));
        assert_eq!(array.reserve(usize::MAX, &mut Heap), Err(Error::NoMemory));
        assert_eq!(array.reserve(usize::MAX / 16, &mut Heap), Err(Error::NoMemory));
        array.free(&mut Heap);
    }
}
