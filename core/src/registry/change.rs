//! What a writer changes: an object comes, is replaced or goes, or the layout is another.
//!
//! In: a record, or what finds one. Out: a version more, published. Each makes sure of its memory first (`reclaim`), so
//! that a verb which has reserved cannot fail here. What never happens: two objects that start at one place, two userptrs
//! of one (address, size), a key that no tree can hold, an object in one of its indexes only.

use super::Writer;
use crate::aperture::{Aperture, Layout};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::pool::Memory;
use crate::record::Record;
use crate::tree::edit::Edit;
use crate::tree::{ByAddress, LAST_KEY, Order, Root};
use crate::userptr::ByUserptr;
use crate::version::Version;

impl<D: Domain, M: Memory> Writer<'_, D, M> {
    /// Adds an object and publishes. Both indexes at once for a userptr.
    pub(crate) fn insert(&mut self, aperture: Aperture, record: Record) -> Result<()> {
        let end = record.start.checked_add(record.extent(self.layout().page)).filter(|end| *end < LAST_KEY);
        let user_end = record.cpu.checked_add(record.size).filter(|end| *end < LAST_KEY);
        if end.is_none() || record.size == 0 || (record.is_userptr() && user_end.is_none()) {
            return Err(Error::InvalidParameter);
        }
        // A second userptr of one key: a removal by key would leave the removed record in the index.
        let twice = record.is_userptr() && self.userptr_at(record.cpu, record.size).is_some();
        if twice || self.find_start(aperture, record.start).is_some() {
            return Err(Error::Failed);
        }
        self.top_up(1)?;
        self.edit(aperture, &record, |edit, root| edit.insert(root, &record), |edit, root| edit.insert(root, &record))
    }

    /// Replaces the object with the same start (and the same userptr) and publishes.
    pub(crate) fn replace(&mut self, aperture: Aperture, record: Record) -> Result<()> {
        let known = self.find_start(aperture, record.start).ok_or(Error::Failed)?;
        if known.is_userptr() != record.is_userptr() || ByUserptr::key(&known) != ByUserptr::key(&record) {
            return Err(Error::Failed);
        }
        self.top_up_in_place()?;
        self.replace_known(aperture, &record)
    }

    /// As [`Writer::replace`], for a verb that has just found the record and reserved.
    pub(crate) fn replace_known(&mut self, aperture: Aperture, record: &Record) -> Result<()> {
        self.edit(aperture, record, |edit, root| edit.replace(root, record), |edit, root| edit.replace(root, record))
    }

    /// Takes the object at `start` away and publishes.
    pub(crate) fn remove(&mut self, aperture: Aperture, start: usize) -> Result<()> {
        let known = self.find_start(aperture, start).ok_or(Error::Failed)?;
        self.top_up_in_place()?;
        let (by_address, by_userptr) = (ByAddress::key(&known), ByUserptr::key(&known));
        self.edit(
            aperture,
            &known,
            |edit, root| edit.remove(root, by_address),
            |edit, root| edit.remove(root, by_userptr),
        )
    }

    /// One change to one object, in its address index and, for a userptr, in the userptr index; then publishes.
    fn edit(
        &mut self,
        aperture: Aperture,
        record: &Record,
        objects: impl FnOnce(&mut Edit<'_>, Root<ByAddress>) -> Result<Root<ByAddress>>,
        userptrs: impl FnOnce(&mut Edit<'_>, Root<ByUserptr>) -> Result<Root<ByUserptr>>,
    ) -> Result<()> {
        let mut next = *self.version();
        let mut edit = Edit { nodes: &mut self.pools.nodes, limbo: &mut self.retired.trees };
        let root = objects(&mut edit, next.root(aperture))?;
        if record.is_userptr() {
            next.userptrs = userptrs(&mut edit, next.userptrs)?;
        }
        match aperture {
            Aperture::Svm => next.svm = root,
            Aperture::SvmAlt => next.svm_alt = root,
            Aperture::MemHandle => next.mem_handle = root,
            Aperture::Cpuvm => next.cpuvm = root,
            Aperture::Gpuvm(position) => self.set_gpuvm(&mut next, position, root)?,
        }
        self.publish(next)
    }

    fn set_gpuvm(&mut self, next: &mut Version, position: u8, root: Root<ByAddress>) -> Result<()> {
        let mut roots = next.gpuvm_roots();
        *roots.get_mut(usize::from(position)).ok_or(Error::Failed)? = root;
        let made = self.pools.gpuvms.make(roots).ok_or(Error::NoMemory)?;
        if let Some(old) = next.gpuvm.replace(made) {
            // SAFETY: from this pool, part of the version that is about to be replaced, retired once.
            unsafe { self.retired.gpuvms.push(old) };
        }
        Ok(())
    }

    /// Other bounds, page size or node table, with the objects kept. Publishes.
    pub fn set_layout(&mut self, mut layout: Layout) -> Result<()> {
        layout.settle();
        self.reserve_plain(1)?;
        self.top_up_layouts()?;
        let mut next = *self.version();
        let old = core::mem::replace(&mut next.layout, self.pools.layouts.make(layout).ok_or(Error::NoMemory)?);
        // SAFETY: from this pool; the version that used it is being replaced, and retired no later than its layout.
        unsafe { self.retired.layouts.push(old) };
        self.publish(next)
    }

    /// Takes every object away, then the layout. Publishes after each; the lists of the records are the caller's.
    pub(crate) fn clear(&mut self) -> Result<()> {
        for aperture in Aperture::all() {
            while let Some(record) = self.next(aperture, 0) {
                self.remove(aperture, record.start)?;
            }
        }
        self.set_layout(Layout::empty(self.layout().page))
    }
}
