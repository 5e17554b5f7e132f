//! The ledger: what only the writer knows of an object.
//!
//! A reader sees a [`crate::record::Record`]; kernel handles, counts and metadata stand here, under the object's
//! [`ObjectId`], which never changes while the object lives. Entries lie in chunks that never move, so a growing ledger
//! copies nothing, and a free slot is found through a list of free slots. What never happens: an allocation that aborts
//! (every growth is fallible, and [`Ledger::reserve`] does it before a verb touches the device), a look-up of a slot
//! that is not in use.
//!
//! Registered and mapped GPUs are not here: the record's node lists say them, and the layout's node table turns a node
//! into its gpu id and back without loss.

use alloc::vec::Vec;

use crate::driver::Handle;
use crate::error::{Error, Result};
use crate::flags::IocFlags;
use crate::node::GpuId;
use crate::record::ObjectId;

/// Entries per chunk.
const CHUNK: usize = if cfg!(test) { 8 } else { 512 };

/// No further free slot.
const END: u32 = u32::MAX;

/// The kernel's names of one object's buffer objects: none for reserved addresses and host memory on an APU, one as a
/// rule, several for a userptr beyond 512 GiB.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Handles {
    first: Option<Handle>,
    rest: Vec<Handle>,
}

impl Handles {
    /// No buffer object.
    pub(crate) const NONE: Handles = Handles { first: None, rest: Vec::new() };

    /// Exactly one.
    pub(crate) const fn one(handle: Handle) -> Handles {
        Handles { first: Some(handle), rest: Vec::new() }
    }

    /// The first: what export and share name.
    pub(crate) fn first(&self) -> Option<Handle> {
        self.first
    }

    /// All, in address order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Handle> + '_ {
        self.first.iter().chain(&self.rest).copied()
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Makes room for `count` handles in all, so that pushing them cannot fail.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<()> {
        let more = count.saturating_sub(1).saturating_sub(self.rest.len());
        self.rest.try_reserve_exact(more).map_err(|_| Error::NoMemory)
    }

    /// Appends one; room was made by [`Handles::reserve`].
    pub(crate) fn push(&mut self, handle: Handle) -> Result<()> {
        if self.first.is_none() {
            self.first = Some(handle);
            return Ok(());
        }
        self.rest.try_reserve(1).map_err(|_| Error::NoMemory)?;
        self.rest.push(handle);
        Ok(())
    }

    /// Replaces one handle, found by its old name.
    pub(crate) fn rename(&mut self, old: Handle, new: Handle) {
        let all = self.first.iter_mut().chain(&mut self.rest);
        all.filter(|handle| **handle == old).for_each(|handle| *handle = new);
    }

    /// Forgets one handle.
    pub(crate) fn forget(&mut self, old: Handle) {
        if self.first == Some(old) {
            self.first = if self.rest.is_empty() { None } else { Some(self.rest.remove(0)) };
        } else {
            self.rest.retain(|handle| *handle != old);
        }
    }
}

/// What stands in the ledger for one object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The kernel's names.
    pub(crate) handles: Handles,
    /// How often a userptr is registered; 0 for all else.
    pub(crate) registrations: u32,
    /// How often a userptr is mapped; 0 or 1 for all else.
    pub(crate) mappings: u32,
    /// What the buffer objects were asked to be: needed to make one again when freeing its neighbour is refused.
    pub(crate) ioc: IocFlags,
    /// On which GPU they are.
    pub(crate) gpu: GpuId,
    /// An imported graphics buffer's metadata. Its bytes never move: callers hold their address.
    pub(crate) metadata: Vec<u8>,
}

impl Default for Entry {
    fn default() -> Entry {
        Entry {
            handles: Handles::NONE,
            registrations: 0,
            mappings: 0,
            ioc: IocFlags::empty(),
            gpu: GpuId::NONE,
            metadata: Vec::new(),
        }
    }
}

#[derive(Debug)]
enum Slot {
    Free { next: u32 },
    Used(Entry),
}

/// All entries of one context.
#[derive(Debug)]
pub(crate) struct Ledger {
    chunks: Vec<Vec<Slot>>,
    free: u32,
    /// How many slots are in use.
    used: usize,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger::new()
    }
}

impl Ledger {
    /// Without entries.
    pub(crate) const fn new() -> Ledger {
        Ledger { chunks: Vec::new(), free: END, used: 0 }
    }

    /// How many objects are noted.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Whether there is none.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Makes room for one more entry: the next [`Ledger::insert`] cannot fail.
    pub(crate) fn reserve(&mut self) -> Result<()> {
        if self.free != END || self.chunks.last().is_some_and(|chunk| chunk.len() < CHUNK) {
            return Ok(());
        }
        let all = self.chunks.len().checked_add(1).and_then(|count| count.checked_mul(CHUNK));
        if all.is_none_or(|all| u32::try_from(all).is_err()) {
            return Err(Error::NoMemory);
        }
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(CHUNK).map_err(|_| Error::NoMemory)?;
        self.chunks.try_reserve(1).map_err(|_| Error::NoMemory)?;
        self.chunks.push(chunk);
        Ok(())
    }

    /// Notes an object and names it; hands the entry back where there is no room.
    pub(crate) fn insert(&mut self, entry: Entry) -> Result<ObjectId, Entry> {
        if self.reserve().is_err() {
            return Err(entry);
        }
        let id = self.free;
        if let Some(slot) = self.slot_mut(id) {
            let Slot::Free { next } = *slot else { return Err(entry) };
            *slot = Slot::Used(entry);
            self.free = next;
            self.used += 1;
            return Ok(ObjectId(id));
        }
        let full = self.chunks.len().saturating_sub(1).saturating_mul(CHUNK);
        let Some(chunk) = self.chunks.last_mut() else { return Err(entry) };
        let Ok(id) = u32::try_from(full + chunk.len()) else { return Err(entry) };
        chunk.push(Slot::Used(entry));
        self.used += 1;
        Ok(ObjectId(id))
    }

    /// Looks an object up.
    pub(crate) fn get(&self, id: ObjectId) -> Option<&Entry> {
        let index = usize::try_from(id.0).ok()?;
        match self.chunks.get(index / CHUNK)?.get(index % CHUNK)? {
            Slot::Used(entry) => Some(entry),
            Slot::Free { .. } => None,
        }
    }

    /// Looks an object up to change it.
    pub(crate) fn get_mut(&mut self, id: ObjectId) -> Option<&mut Entry> {
        match self.slot_mut(id.0)? {
            Slot::Used(entry) => Some(entry),
            Slot::Free { .. } => None,
        }
    }

    /// Strikes an object out; its slot is used again.
    pub(crate) fn remove(&mut self, id: ObjectId) -> Option<Entry> {
        let next = self.free;
        let slot = self.slot_mut(id.0)?;
        if matches!(slot, Slot::Free { .. }) {
            return None;
        }
        let old = core::mem::replace(slot, Slot::Free { next });
        self.free = id.0;
        self.used -= 1;
        match old {
            Slot::Used(entry) => Some(entry),
            Slot::Free { .. } => None,
        }
    }

    /// Strikes all out and gives the memory back.
    pub(crate) fn clear(&mut self) {
        *self = Ledger::new();
    }

    fn slot_mut(&mut self, id: u32) -> Option<&mut Slot> {
        let index = usize::try_from(id).ok()?;
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn entry(handle: u64) -> Entry {
        Entry { handles: Handles::one(Handle(handle)), ..Entry::default() }
    }

    #[test]
    fn ids_are_stable_and_slots_are_used_again() {
        let mut ledger = Ledger::new();
        let ids: Vec<_> = (1..=40).map(|n| ledger.insert(entry(n)).unwrap()).collect();
        assert_eq!(ledger.len(), 40);
        for (id, n) in ids.iter().zip(1..) {
            assert_eq!(ledger.get(*id), Some(&entry(n)));
        }
        assert_eq!(ledger.remove(ids[3]), Some(entry(4)));
        assert_eq!(ledger.remove(ids[3]), None);
        assert_eq!(ledger.get(ids[3]), None);
        assert_eq!(ledger.insert(entry(99)), Ok(ids[3]));
        assert_eq!(ledger.get(ObjectId(4000)), None);
        for id in ids {
            ledger.remove(id);
        }
        assert!(ledger.is_empty());
    }

    #[test]
    fn handles_keep_their_order() {
        let mut handles = Handles::NONE;
        handles.reserve(3).unwrap();
        for n in [5, 6, 7] {
            handles.push(Handle(n)).unwrap();
        }
        handles.rename(Handle(6), Handle(60));
        assert_eq!(handles.iter().collect::<Vec<_>>(), [Handle(5), Handle(60), Handle(7)]);
        handles.forget(Handle(5));
        handles.forget(Handle(7));
        assert_eq!((handles.first(), handles.len()), (Some(Handle(60)), 1));
    }
}
