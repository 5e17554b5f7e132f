//! Buffer objects: making them, ending them, and the two steps that make an object known or unknown to readers.
//!
//! In: what a verb wants. Out: handles that are all there, or none. A userptr beyond [`CHUNK`] bytes becomes several
//! buffer objects, since the kernel refuses larger ones. What never happens: a handle that nobody notes, and a freed
//! neighbour left missing when freeing the next one is refused - it is made again.

use super::Manager;
use super::space::VaRange;
use crate::driver::{Bo, BoRequest, Driver, Errno, Handle, HostRange};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::flags::{IocFlags, MemFlags};
use crate::info::PointerType;
use crate::ledger::{Entry, Handles};
use crate::list::List;
use crate::node::{GpuId, NodeId};
use crate::pool::Memory;
use crate::record::{ObjectId, Record};
use crate::va::HUGE_PAGE;

/// The largest userptr buffer object: a huge page short of 512 GiB.
pub(super) const CHUNK: u64 = (1 << 39) - HUGE_PAGE as u64;

/// The host memory that a buffer object is of.
#[derive(Clone, Copy, Debug)]
pub(super) enum User<'a> {
    /// None: it is no userptr.
    No,
    /// Whole pages that a caller has registered.
    Registered(HostRange<'a>),
    /// The anonymous pages that this manager shows at the object's own addresses, half as many for an AQL ring.
    Shown,
}

/// A buffer object, or the several of a large userptr, as wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    pub(super) gpu: GpuId,
    /// The GPU address; 0 for none.
    pub(super) va: u64,
    pub(super) size: u64,
    pub(super) ioc: IocFlags,
    pub(super) user: User<'a>,
}

impl<'a> Wish<'a> {
    /// How many buffer objects it takes.
    fn count(&self) -> u64 {
        if self.ioc.contains(IocFlags::USERPTR) { self.size.div_ceil(CHUNK).max(1) } else { 1 }
    }

    /// The one buffer object of a wish that is not a userptr's.
    pub(super) fn whole(&self) -> BoRequest<'a> {
        self.part(0)
    }

    /// The `index`th of them.
    fn part(&self, index: u64) -> BoRequest<'a> {
        let userptr = self.ioc.contains(IocFlags::USERPTR);
        let skip = if userptr { index.saturating_mul(CHUNK) } else { 0 };
        let rest = self.size.saturating_sub(skip);
        let size = if userptr { rest.min(CHUNK) } else { rest };
        let user = match self.user {
            User::Registered(range) => {
                let [skip, size] = [skip, size].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
                Some(range.part(skip, size))
            }
            User::No | User::Shown => None,
        };
        let flags = self.ioc | IocFlags::NO_SUBSTITUTE;
        BoRequest { gpu: self.gpu, va: self.va.wrapping_add(skip), size, flags, user }
    }

    /// Makes the `index`th of them.
    fn make_part<V: Driver>(&self, driver: &mut V, index: u64) -> Result<Bo, Errno> {
        let request = self.part(index);
        match self.user {
            // SAFETY: `User::Shown` is said of objects whose pages this manager shows at `va`, in front of this call when it
            // makes them (`back_host`), and until the object's addresses go back, which is after all of its buffer objects.
            User::Shown => unsafe { driver.alloc_paged(request) },
            User::No | User::Registered(_) => driver.alloc(request),
        }
    }
}

/// Everything of a new object that is not 0 at birth.
pub(super) struct Birth {
    pub(super) range: VaRange,
    pub(super) cpu: usize,
    pub(super) size: usize,
    pub(super) registered: List,
    pub(super) mapped: List,
    pub(super) flags: MemFlags,
    pub(super) node: NodeId,
    pub(super) kind: PointerType,
}

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// Makes all buffer objects of a wish. Also returns the first one's mmap offset. [`Error::NoMemory`] is the library's
    /// own, [`Error::Failed`] the device's, whatever it says.
    pub(super) fn make(&mut self, wish: &Wish<'_>) -> Result<(Handles, u64)> {
        let count = wish.count();
        let mut handles = Handles::NONE;
        let room = usize::try_from(count).map_err(|_| Error::NoMemory)?;
        handles.reserve(room, self.writer.memory())?;
        let mut offset = 0;
        for index in 0..count {
            let made = wish.make_part(&mut self.driver, index);
            let Ok(Bo { handle, mmap_offset }) = made else {
                self.unmake(handles);
                return Err(Error::Failed);
            };
            if index == 0 {
                offset = mmap_offset;
            }
            // There is room: it was made above.
            handles.push(handle)?;
        }
        Ok((handles, offset))
    }

    /// Ends buffer objects that no reader has seen and that are not mapped: undo, or the last close. Whether the device
    /// refused none; there is no other answer to a refusal.
    pub(super) fn unmake(&mut self, handles: Handles) -> bool {
        let refused = handles.iter().filter(|handle| self.driver.free(*handle).is_err()).count();
        handles.free(self.writer.memory());
        refused == 0
    }

    /// Ends an object's buffer objects, in order. When one is refused, those ended before it are made again, so that
    /// the object is whole; one that cannot be made again is forgotten.
    pub(super) fn free_buffers(&mut self, id: ObjectId, wish: &Wish<'_>) -> Result<()> {
        let entry = self.ledger.get(id).ok_or(Error::Failed)?;
        let mut ended = 0;
        for handle in entry.handles.iter() {
            if self.driver.free(handle).is_err() {
                break;
            }
            ended += 1;
        }
        if ended == entry.handles.len() {
            return Ok(());
        }
        self.make_again(id, wish, ended);
        Err(Error::Failed)
    }

    /// Makes the first `count` buffer objects of an object again.
    fn make_again(&mut self, id: ObjectId, wish: &Wish<'_>, count: usize) {
        let Some(entry) = self.ledger.get_mut(id) else { return };
        // One handle after the other changes its name or goes; those behind it keep their place in the list.
        let mut position = 0;
        for index in 0..count {
            let Some(old) = entry.handles.iter().nth(position) else { return };
            match wish.make_part(&mut self.driver, index as u64) {
                Ok(Bo { handle, .. }) => {
                    entry.handles.rename(old, handle);
                    position += 1;
                }
                Err(_) => entry.handles.forget(old),
            }
        }
    }

    /// What the several buffer objects of a large userptr were once asked to be, for a verb that fails and so leaves the
    /// object as it is.
    pub(super) fn wish_of(&self, record: &Record) -> Wish<'static> {
        let (gpu, ioc) = self.ledger.get(record.id).map_or((GpuId::NONE, IocFlags::empty()), |it| (it.gpu, it.ioc));
        let (page, size) = (self.page(), record.extent(self.page()));
        let user = if record.is_userptr() {
            // SAFETY: a record of this kind is the manager's own, made of a `HostRange` of these pages (`register_userptr`),
            // and a verb that fails has not ended its registration: the promise still holds.
            User::Registered(unsafe { HostRange::new(page.floor(record.cpu), size) })
        } else if ioc.contains(IocFlags::USERPTR) {
            User::Shown
        } else {
            User::No
        };
        Wish { gpu, va: record.start as u64, size: size as u64, ioc, user }
    }

    /// Makes room for one more object: afterwards [`Manager::publish`] cannot fail.
    pub(super) fn reserve_birth(&mut self) -> Result<()> {
        self.writer.reserve(1)?;
        self.ledger.reserve(self.writer.memory())
    }

    /// Notes a finished object and shows it to readers. It owns what it is given: should there be no room after all
    /// ([`Manager::reserve_birth`] was there to make it), buffer objects, addresses and lists go back.
    pub(super) fn publish(&mut self, birth: Birth, entry: Entry) -> Result<usize> {
        let Birth { range, cpu, size, registered, mapped, flags, node, kind } = birth;
        let (aperture, start) = (range.aperture(), range.start());
        let record = |id| Record { start, cpu, size, user_data: 0, registered, mapped, flags, node, id, kind };
        // The record stands for the range from here on: `VaRange::of` goes by its extent.
        let stands = record(ObjectId(0)).extent(self.page()) == range.size();
        let (error, entry) = match self.ledger.insert(entry) {
            Ok(id) if stands => match self.writer.insert(aperture, record(id)) {
                Ok(()) => return Ok(start),
                Err(error) => (error, self.ledger.remove(id).unwrap_or_default()),
            },
            Ok(id) => (Error::Failed, self.ledger.remove(id).unwrap_or_default()),
            Err(entry) => (Error::NoMemory, entry),
        };
        entry.metadata.free(self.writer.memory());
        self.unmake(entry.handles);
        self.give(range);
        self.writer.release(registered);
        self.writer.release(mapped);
        Err(error)
    }

    /// The ioctl bits that coherence asks for.
    pub(super) fn coherence(&self, flags: MemFlags) -> IocFlags {
        let off = self.machine.options.disable_cache;
        let mut ioc = IocFlags::empty();
        ioc.set(IocFlags::COHERENT, off || !flags.contains(MemFlags::COARSE_GRAIN));
        ioc.set(IocFlags::UNCACHED, off || flags.contains(MemFlags::UNCACHED));
        ioc
    }

    /// The mmap-able handle of an object made with one buffer object.
    pub(super) fn first_handle(&self, id: ObjectId) -> Option<Handle> {
        self.ledger.get(id)?.handles.first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_59_a_userptr_is_cut_at_512_gib_less_a_huge_page() {
        // SAFETY: no device is asked about it.
        let user = User::Registered(unsafe { HostRange::new(0x7000, CHUNK as usize + 4096) });
        let mut wish = Wish { gpu: GpuId(1), va: 0x1000, size: CHUNK, ioc: IocFlags::USERPTR, user };
        assert_eq!(wish.count(), 1);
        wish.size = CHUNK + 4096;
        assert_eq!(wish.count(), 2);
        let second = wish.part(1);
        let user = second.user.unwrap();
        assert_eq!((second.va, second.size), (0x1000 + CHUNK, 4096));
        assert_eq!((user.address(), user.size()), (0x7000 + CHUNK as usize, 4096));
        (wish.ioc, wish.user) = (IocFlags::VRAM, User::No);
        assert_eq!((wish.count(), wish.part(0).size, wish.part(0).user), (1, CHUNK + 4096, None));
    }
}
