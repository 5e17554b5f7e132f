//! The write side for whoever keeps their own books: objects stated as plain values, without the memory manager.
//!
//! Firmware that knows its buffers, a debugger that mirrors another process, a test. Each call checks what the trees rely
//! on (bounds, no overlap, sizes that do not wrap), makes one edit and publishes it; a call that fails has changed
//! nothing. The memory manager does not come this way: it knows these things already.

use crate::aperture::Aperture;
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::flags::MemFlags;
use crate::info::PointerType;
use crate::list::List;
use crate::node::NodeId;
use crate::pool::Memory;
use crate::record::{ObjectId, Record};
use crate::registry::{Wanted, Writer};
use crate::tree::node::Key;

/// An object as stated.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    /// What kind. [`PointerType::RegisteredUser`] is also found by its host address.
    pub kind: PointerType,
    /// Where the GPU sees its first page; a page multiple.
    pub start: usize,
    /// Bytes: of a userptr as registered, of anything else a page multiple.
    pub size: usize,
    /// Where the CPU sees it; 0 for nowhere. A userptr's host address.
    pub cpu: usize,
    /// Its node.
    pub node: NodeId,
    /// Its flags.
    pub flags: MemFlags,
    /// The caller's word.
    pub user_data: usize,
    /// Nodes it is registered to.
    pub registered: &'a [NodeId],
    /// Nodes it is mapped on.
    pub mapped: &'a [NodeId],
}

impl<D: Domain, M: Memory> Writer<'_, D, M> {
    /// Adds an object and publishes. O(log n). [`Error::InvalidParameter`] for one that does not lie within its aperture,
    /// overlaps another, is no whole number of pages, or is of unknown kind; [`Error::NoMemory`].
    pub fn insert_object(&mut self, aperture: Aperture, object: &Object<'_>) -> Result<()> {
        let record = Record {
            start: object.start,
            cpu: object.cpu,
            size: object.size,
            user_data: object.user_data,
            registered: List::EMPTY,
            mapped: List::EMPTY,
            flags: object.flags,
            node: object.node,
            id: ObjectId(0),
            kind: object.kind,
        };
        self.check(aperture, &record)?;
        self.reserve_plain(1)?;
        let registered = self.intern_nodes(object.registered)?;
        let inserted = self.intern_nodes(object.mapped).and_then(|mapped| {
            let done = self.insert(aperture, Record { registered, mapped, ..record });
            done.inspect_err(|_| self.release(mapped))
        });
        inserted.inspect_err(|_| self.release(registered))
    }

    /// What the trees rely on.
    fn check(&self, aperture: Aperture, record: &Record) -> Result<()> {
        let page = self.layout().page;
        let extent = record.extent(page);
        let whole = page.offset(record.start) == 0 && page.offset(extent) == 0 && record.kind != PointerType::Unknown;
        let inside = self.layout().bounds(aperture).contains_range(record.start, extent);
        // Userptrs stand in SVM, and each once in their index, whatever the routing asks.
        let key = Key { address: record.cpu, size: record.size };
        let known = self.version().userptrs().exact(key).is_some();
        let placed = !record.is_userptr() || (aperture == Aperture::Svm && !known);
        if record.size > 0 && whole && inside && placed && self.is_free(aperture, record) {
            Ok(())
        } else {
            Err(Error::InvalidParameter)
        }
    }

    /// Takes the object that starts at `start` away and publishes. O(log n). [`Error::NotRegistered`] if there is none.
    pub fn remove_object(&mut self, aperture: Aperture, start: usize) -> Result<()> {
        let record = self.find_start(aperture, start).ok_or(Error::NotRegistered)?;
        self.reserve_removal()?;
        self.remove(aperture, start)?;
        self.release(record.registered);
        self.release(record.mapped);
        Ok(())
    }

    /// Notes a word beside the object at `address` (exact find, any size) and publishes. O(log n).
    /// [`Error::NotRegistered`] if there is none.
    #[doc(alias = "hsaKmtSetMemoryUserData")]
    pub fn set_user_data(&mut self, address: usize, user_data: usize) -> Result<()> {
        let (aperture, known) = self.locate(address, Wanted::Any).ok_or(Error::NotRegistered)?;
        let (old, record) = (known.pointer(), Record { user_data, ..*known });
        self.reserve_in_place()?;
        self.replace_known(aperture, old, &record)
    }

    /// Says on which nodes the object that starts at `start` is mapped, and publishes. O(log n).
    pub fn set_mapped(&mut self, aperture: Aperture, start: usize, nodes: &[NodeId]) -> Result<()> {
        self.set_list(aperture, start, nodes, |record| &mut record.mapped)
    }

    /// Says which nodes the object that starts at `start` is registered to, and publishes. O(log n).
    pub fn set_registered(&mut self, aperture: Aperture, start: usize, nodes: &[NodeId]) -> Result<()> {
        self.set_list(aperture, start, nodes, |record| &mut record.registered)
    }

    fn set_list(
        &mut self,
        aperture: Aperture,
        start: usize,
        nodes: &[NodeId],
        which: fn(&mut Record) -> &mut List,
    ) -> Result<()> {
        let mut record = self.find_start(aperture, start).ok_or(Error::NotRegistered)?;
        self.reserve_in_place()?;
        let new = self.intern_nodes(nodes)?;
        let old = core::mem::replace(which(&mut record), new);
        self.replace(aperture, record).inspect_err(|_| self.release(new))?;
        self.release(old);
        Ok(())
    }

    /// Takes every object away and forgets the layout. Publishes after each.
    pub fn clear_objects(&mut self) -> Result<()> {
        for aperture in Aperture::all() {
            let mut from = 0;
            while let Some(record) = self.next(aperture, from) {
                self.remove_object(aperture, record.start)?;
                from = record.start;
            }
        }
        self.clear()
    }

    fn intern_nodes(&mut self, nodes: &[NodeId]) -> Result<List> {
        self.intern(nodes.len(), |position| nodes.get(position).map_or(0, |node| node.0))
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::address::{Bounds, PageSize};
    use crate::aperture::Layout;
    use crate::pool::Heap;
    use crate::registry::Registry;

    fn layout() -> Layout {
        let mut layout = Layout::empty(PageSize::FOUR_KIB);
        (layout.svm, layout.mmap, layout.dgpu) = (Bounds::new(0x1000, 0xff_ffff), true, true);
        layout
    }

    const BUFFER: Object<'static> = Object {
        kind: PointerType::Allocated,
        start: 0x4000,
        size: 0x2000,
        cpu: 0x4000,
        node: NodeId(1),
        flags: MemFlags::NON_PAGED,
        user_data: 0,
        registered: &[],
        mapped: &[NodeId(1), NodeId(2)],
    };

    #[test]
    fn objects_come_change_and_go() {
        let mut registry = Registry::new();
        let (mut writer, readers) = registry.split(PageSize::FOUR_KIB, Heap).unwrap();
        writer.set_layout(layout()).unwrap();
        writer.insert_object(Aperture::Svm, &BUFFER).unwrap();
        let mut reader = readers.reader().unwrap();
        let mut session = reader.session();
        let info = session.query_pointer(0x5fff).unwrap();
        assert_eq!((info.size, info.mapped.ids(), info.user_data), (0x2000, &[1, 2][..], 0));
        writer.set_user_data(0x4010, 7).unwrap();
        writer.set_mapped(Aperture::Svm, 0x4000, &[NodeId(2)]).unwrap();
        writer.set_registered(Aperture::Svm, 0x4000, &[NodeId(1)]).unwrap();
        let info = session.query_pointer(0x4000).unwrap();
        assert_eq!((info.user_data, info.mapped.ids(), info.registered.ids()), (7, &[2][..], &[1][..]));
        writer.remove_object(Aperture::Svm, 0x4000).unwrap();
        assert_eq!(session.query_pointer(0x4000).unwrap().kind, PointerType::Unknown);
        assert_eq!(writer.remove_object(Aperture::Svm, 0x4000), Err(Error::NotRegistered));
    }

    #[test]
    fn case_15_overlap_on_either_side_and_all_else_the_trees_rely_on_is_checked() {
        let mut registry = Registry::new();
        let (mut writer, _) = registry.split(PageSize::FOUR_KIB, Heap).unwrap();
        writer.set_layout(layout()).unwrap();
        writer.insert_object(Aperture::Svm, &BUFFER).unwrap();
        let userptr = Object { kind: PointerType::RegisteredUser, start: 0x9000, cpu: 0x123, size: 5, ..BUFFER };
        writer.insert_object(Aperture::Svm, &userptr).unwrap();
        let wrong = [
            Object { start: 0x5000, ..BUFFER },
            Object { start: 0x3000, ..BUFFER },
            Object { start: 0x8800, ..BUFFER },
            Object { start: 0x7000, size: 0, ..BUFFER },
            Object { start: 0x7000, size: 0x123, ..BUFFER },
            Object { start: 0x7000, size: usize::MAX & !0xfff, ..BUFFER },
            Object { start: 0x100_0000, ..BUFFER },
            Object { start: 0x7000, kind: PointerType::Unknown, ..BUFFER },
            Object { start: 0x7000, cpu: usize::MAX, ..userptr },
            Object { start: 0x7000, ..userptr },
        ];
        for object in wrong {
            let before = writer.snapshot().generation();
            assert_eq!(writer.insert_object(Aperture::Svm, &object), Err(Error::InvalidParameter), "{object:?}");
            assert_eq!(writer.snapshot().generation(), before);
        }
        writer.clear_objects().unwrap();
        assert_eq!(writer.snapshot().iter().count(), 0);
    }

    #[test]
    fn a_userptr_is_taken_once_whatever_the_routing_asks() {
        let mut registry = Registry::new();
        let (mut writer, readers) = registry.split(PageSize::FOUR_KIB, Heap).unwrap();
        let mut reserved = layout();
        reserved.mmap = false;
        writer.set_layout(reserved).unwrap();
        // A host address inside SVM, where a reserved aperture has no userptrs looked for.
        let first = Object { kind: PointerType::RegisteredUser, start: 0x9000, cpu: 0x6010, size: 100, ..BUFFER };
        let second = Object { start: 0xb000, ..first };
        writer.insert_object(Aperture::Svm, &first).unwrap();
        assert_eq!(writer.insert_object(Aperture::Svm, &second), Err(Error::InvalidParameter));
        assert_eq!(writer.insert_object(Aperture::MemHandle, &second), Err(Error::InvalidParameter), "not there");
        writer.remove_object(Aperture::Svm, 0x9000).unwrap();
        writer.set_layout(layout()).unwrap();
        let kind = readers.reader().unwrap().query_pointer(0x6010, |info| info.map(|info| info.kind));
        assert_eq!(kind, Ok(PointerType::Unknown));
    }

    /// A removal by other pages than those of the insertion would leave a pointer to a record that is used again.
    #[test]
    fn the_page_size_stays_while_a_userptr_has_whole_pages_of_it() {
        let mut registry = Registry::new();
        let (mut writer, readers) = registry.split(PageSize::FOUR_KIB, Heap).unwrap();
        let large = PageSize::new(0x1_0000).unwrap();
        let mut with = layout();
        with.page = large;
        writer.set_layout(with).unwrap();
        let userptr = Object { kind: PointerType::RegisteredUser, start: 0x1_0000, cpu: 0x2_0010, size: 5, ..BUFFER };
        writer.insert_object(Aperture::Svm, &userptr).unwrap();
        assert_eq!(writer.set_layout(layout()), Err(Error::InvalidParameter));
        assert_eq!(writer.layout().page, large);
        writer.remove_object(Aperture::Svm, 0x1_0000).unwrap();
        writer.set_layout(layout()).unwrap();
        for n in 0..50 {
            writer.insert_object(Aperture::Svm, &Object { start: 0x4000, user_data: n, ..BUFFER }).unwrap();
            writer.remove_object(Aperture::Svm, 0x4000).unwrap();
        }
        let kind = readers.reader().unwrap().query_pointer(0x1_8000, |info| info.map(|info| info.kind));
        assert_eq!(kind, Ok(PointerType::Unknown));
    }

    #[test]
    fn objects_of_an_aperture_that_is_gone_stay_whole() {
        let mut registry = Registry::new();
        let (mut writer, _) = registry.split(PageSize::FOUR_KIB, Heap).unwrap();
        let mut with = layout();
        (with.gpuvm_count, with.gpuvm[0]) = (1, Bounds::new(0x100_0000, 0x1ff_ffff));
        writer.set_layout(with).unwrap();
        for n in 0..8 {
            let start = 0x100_0000 + n * 0x2000;
            writer.insert_object(Aperture::Gpuvm(0), &Object { start, ..BUFFER }).unwrap();
        }
        writer.set_layout(layout()).unwrap();
        for n in 0..200 {
            writer.set_registered(Aperture::Gpuvm(0), 0x100_0000, &[NodeId(n)]).unwrap();
        }
        assert_eq!(writer.snapshot().iter().count(), 8);
        let more = Object { start: 0x180_0000, ..BUFFER };
        assert_eq!(writer.insert_object(Aperture::Gpuvm(0), &more), Err(Error::InvalidParameter));
        writer.clear_objects().unwrap();
        assert_eq!(writer.snapshot().iter().count(), 0);
    }
}
