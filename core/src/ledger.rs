//! The ledger: what only the writer knows of an object.
//!
//! A reader sees a [`crate::record::Record`]; kernel handles, counts and metadata stand here, under the object's
//! [`ObjectId`], which never changes while the object lives. Entries lie in chunks, each twice as large as the one before;
//! chunks never move, so a growing ledger copies nothing, and a free slot is found through a list of free slots. What
//! never happens: an allocation other than in [`Ledger::reserve`] and [`Handles::reserve`], which a verb calls before it
//! touches the device; a look-up of a slot that is not in use.
//!
//! Registered and mapped GPUs are not here: the record's node lists say them, and the layout's node table turns a node
//! into its gpu id and back without loss.

use crate::array::Array;
use crate::driver::Handle;
use crate::error::{Error, Result};
use crate::flags::IocFlags;
use crate::node::GpuId;
use crate::pool::Memory;
use crate::record::ObjectId;

/// Entries in the first chunk; a power of two.
const FIRST: usize = if cfg!(test) || usize::BITS < 64 { 8 } else { 64 };

/// Chunks there can be: more entries than an address space holds objects.
const CHUNKS: usize = 28;

/// No further free slot.
const END: u32 = u32::MAX;

/// The kernel's names of one object's buffer objects: none for reserved addresses and host memory on an APU, one as a
/// rule, several for a userptr beyond 512 GiB.
#[derive(Debug)]
pub(crate) struct Handles {
    first: Option<Handle>,
    rest: Array<Handle>,
}

impl Handles {
    /// No buffer object.
    pub(crate) const NONE: Handles = Handles { first: None, rest: Array::new() };

    /// Exactly one.
    pub(crate) const fn one(handle: Handle) -> Handles {
        Handles { first: Some(handle), rest: Array::new() }
    }

    /// The first: what export and share name.
    pub(crate) fn first(&self) -> Option<Handle> {
        self.first
    }

    /// All, in address order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Handle> + '_ {
        self.first.iter().chain(self.rest.iter()).copied()
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Makes room for `count` handles in all, so that pushing them cannot fail.
    pub(crate) fn reserve(&mut self, count: usize, memory: &mut impl Memory) -> Result<()> {
        self.rest.reserve(count.saturating_sub(1).saturating_sub(self.rest.len()), memory)
    }

    /// Appends one; [`Handles::reserve`] made room for all but the first.
    pub(crate) fn push(&mut self, handle: Handle) -> Result<()> {
        if self.first.is_none() {
            self.first = Some(handle);
            return Ok(());
        }
        self.rest.push(handle).map_err(|_| Error::NoMemory)
    }

    /// Replaces one handle, found by its old name.
    pub(crate) fn rename(&mut self, old: Handle, new: Handle) {
        let all = self.first.iter_mut().chain(self.rest.iter_mut());
        all.filter(|handle| **handle == old).for_each(|handle| *handle = new);
    }

    /// Forgets one handle.
    pub(crate) fn forget(&mut self, old: Handle) {
        if self.first == Some(old) {
            self.first = self.rest.remove(0);
        } else if let Some(position) = self.rest.iter().position(|handle| *handle == old) {
            self.rest.remove(position);
        }
    }

    /// Ends the note, not the buffer objects.
    pub(crate) fn free(self, memory: &mut impl Memory) {
        self.rest.free(memory);
    }
}

/// What stands in the ledger for one object.
#[derive(Debug)]
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
    pub(crate) metadata: Array<u8>,
}

impl Default for Entry {
    fn default() -> Entry {
        Entry {
            handles: Handles::NONE,
            registrations: 0,
            mappings: 0,
            ioc: IocFlags::empty(),
            gpu: GpuId::NONE,
            metadata: Array::new(),
        }
    }
}

impl Entry {
    /// Ends the note, not the buffer objects.
    pub(crate) fn free(self, memory: &mut impl Memory) {
        self.handles.free(memory);
        self.metadata.free(memory);
    }
}

#[derive(Debug)]
enum Slot {
    Free { next: u32 },
    Used(Entry),
}

impl Slot {
    fn entry(self) -> Option<Entry> {
        match self {
            Slot::Used(entry) => Some(entry),
            Slot::Free { .. } => None,
        }
    }
}

/// All entries of one context.
#[derive(Debug)]
pub(crate) struct Ledger {
    chunks: [Array<Slot>; CHUNKS],
    /// Slots handed out so far, in use or free again.
    known: u32,
    free: u32,
    /// How many slots are in use.
    used: usize,
}

/// Bytes of a ledger for `objects` at a time, in whole `grains`.
#[cfg(all(target_has_atomic = "ptr", not(loom)))]
pub(crate) const fn bytes_for(objects: usize, grain: usize) -> usize {
    let (mut room, mut chunk, mut bytes) = (0, FIRST, 0);
    while room < objects {
        bytes += crate::array::bytes_for::<Slot>(chunk, grain);
        room += chunk;
        chunk *= 2;
    }
    bytes
}

/// Which chunk a slot is in, where in it, and how many that chunk holds.
fn place(id: u32) -> Option<(usize, usize, usize)> {
    let index = usize::try_from(id).ok()?;
    // Chunk k begins at FIRST * (2^k - 1).
    let chunk = (index / FIRST).checked_add(1)?.ilog2();
    let size = FIRST.checked_shl(chunk)?;
    Some((usize::try_from(chunk).ok()?, index.checked_add(FIRST)? - size, size))
}

impl Ledger {
    /// Without entries.
    pub(crate) const fn new() -> Ledger {
        Ledger { chunks: [const { Array::new() }; CHUNKS], known: 0, free: END, used: 0 }
    }

    /// How many objects are noted.
    #[cfg(all(test, feature = "alloc"))]
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Whether there is none.
    #[cfg(all(test, feature = "alloc"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Makes room for one more entry: the next [`Ledger::insert`] cannot fail.
    pub(crate) fn reserve(&mut self, memory: &mut impl Memory) -> Result<()> {
        if self.free != END {
            return Ok(());
        }
        let (chunk, _, size) = place(self.known).filter(|_| self.known != END).ok_or(Error::NoMemory)?;
        let chunk = self.chunks.get_mut(chunk).ok_or(Error::NoMemory)?;
        let missing = size.saturating_sub(chunk.len());
        chunk.reserve(missing, memory)
    }

    /// Notes an object and names it; hands the entry back where [`Ledger::reserve`] made no room.
    pub(crate) fn insert(&mut self, entry: Entry) -> Result<ObjectId, Entry> {
        let id = self.free;
        if let Some(slot) = self.slot_mut(id) {
            let Slot::Free { next } = *slot else { return Err(entry) };
            *slot = Slot::Used(entry);
            self.free = next;
            self.used += 1;
            return Ok(ObjectId(id));
        }
        let id = self.known;
        let chunk = place(id).and_then(|(chunk, ..)| self.chunks.get_mut(chunk));
        let Some(chunk) = chunk else { return Err(entry) };
        if let Err(slot) = chunk.push(Slot::Used(entry)) {
            return Err(slot.entry().unwrap_or_default());
        }
        self.known += 1;
        self.used += 1;
        Ok(ObjectId(id))
    }

    /// Looks an object up.
    pub(crate) fn get(&self, id: ObjectId) -> Option<&Entry> {
        let (chunk, position, _) = place(id.0)?;
        match self.chunks.get(chunk)?.get(position)? {
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

    /// Strikes an object out; its slot is used again. The entry is the caller's to [`Entry::free`].
    pub(crate) fn remove(&mut self, id: ObjectId) -> Option<Entry> {
        let next = self.free;
        let slot = self.slot_mut(id.0)?;
        if matches!(slot, Slot::Free { .. }) {
            return None;
        }
        let old = core::mem::replace(slot, Slot::Free { next });
        self.free = id.0;
        self.used -= 1;
        old.entry()
    }

    /// Strikes all out and gives the memory back.
    pub(crate) fn clear(&mut self, memory: &mut impl Memory) {
        for chunk in core::mem::replace(self, Ledger::new()).chunks {
            let mut chunk = chunk;
            while let Some(slot) = chunk.pop() {
                slot.entry().into_iter().for_each(|entry| entry.free(memory));
            }
            chunk.free(memory);
        }
    }

    fn slot_mut(&mut self, id: u32) -> Option<&mut Slot> {
        let (chunk, position, _) = place(id)?;
        self.chunks.get_mut(chunk)?.get_mut(position)
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::pool::Heap;
    use std::vec::Vec;

    fn entry(handle: u64) -> Entry {
        Entry { handles: Handles::one(Handle(handle)), ..Entry::default() }
    }

    fn first(ledger: &Ledger, id: ObjectId) -> Option<u64> {
        ledger.get(id)?.handles.first().map(|handle| handle.0)
    }

    #[test]
    fn ids_are_stable_and_slots_are_used_again() {
        let mut ledger = Ledger::new();
        assert_eq!(ledger.insert(entry(1)).map_err(|back| back.handles.len()), Err(1), "no room was made");
        let insert = |ledger: &mut Ledger, n| {
            ledger.reserve(&mut Heap).unwrap();
            ledger.insert(entry(n)).unwrap()
        };
        let ids: Vec<_> = (1..=1000).map(|n| insert(&mut ledger, n)).collect();
        assert_eq!(ids.iter().map(|id| id.0).collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
        assert_eq!(ledger.len(), 1000);
        for (id, n) in ids.iter().zip(1..) {
            assert_eq!(first(&ledger, *id), Some(n));
        }
        assert_eq!(ledger.remove(ids[3]).unwrap().handles.first(), Some(Handle(4)));
        assert!(ledger.remove(ids[3]).is_none() && ledger.get(ids[3]).is_none());
        assert_eq!(insert(&mut ledger, 99), ids[3]);
        assert!(ledger.get(ObjectId(4000)).is_none() && ledger.get(ObjectId(END)).is_none());
        for id in ids {
            ledger.remove(id).unwrap().free(&mut Heap);
        }
        assert!(ledger.is_empty());
        ledger.clear(&mut Heap);
    }

    #[test]
    fn handles_keep_their_order() {
        let mut handles = Handles::NONE;
        handles.reserve(3, &mut Heap).unwrap();
        for n in [5, 6, 7] {
            handles.push(Handle(n)).unwrap();
        }
        handles.rename(Handle(6), Handle(60));
        assert_eq!(handles.iter().collect::<Vec<_>>(), [Handle(5), Handle(60), Handle(7)]);
        handles.forget(Handle(5));
        handles.forget(Handle(7));
        assert_eq!((handles.first(), handles.len()), (Some(Handle(60)), 1));
        handles.free(&mut Heap);
    }
}
