//! What a writer changes: an object comes, is replaced or goes, or the layout is another.
//!
//! In: a record, or what finds one. Out: a version more, published. Each makes sure of its memory first (`reclaim`), so
//! that a verb which has reserved cannot fail here. What never happens: two objects in one page, two userptrs of one (address,
//! size), a key that no tree can hold, an object in one of its indexes only, an object whose pages are others than those it was
//! inserted with.

use core::ptr::NonNull;

use super::Writer;
use crate::aperture::{Aperture, Layout};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::index::{Index, IndexRoot, Step};
use crate::pages::edit::Change;
use crate::pages::{self, NODES_PER_CHANGE, Span};
use crate::pool::Memory;
use crate::record::Record;
use crate::tree::{LAST_KEY, Order, View};
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
        if twice || !self.is_free(aperture, &record) {
            return Err(Error::Failed);
        }
        self.top_up(1)?;
        let made = self.make_record(record)?;
        self.edit(aperture, &record, Step::Insert(made))
    }

    /// Replaces the object with the same start (and the same userptr) and publishes.
    pub(crate) fn replace(&mut self, aperture: Aperture, record: Record) -> Result<()> {
        let known = self.locate_start(aperture, record.start).ok_or(Error::Failed)?;
        if known.is_userptr() != record.is_userptr() || ByUserptr::key(known) != ByUserptr::key(&record) {
            return Err(Error::Failed);
        }
        let old = known.pointer();
        self.top_up_in_place(1)?;
        self.replace_known(aperture, old, &record)
    }

    /// As [`Writer::replace`], for a verb that has just found the record `old` and reserved.
    pub(crate) fn replace_known(&mut self, aperture: Aperture, old: NonNull<Record>, record: &Record) -> Result<()> {
        let new = self.make_record(*record)?;
        self.edit(aperture, record, Step::Replace { old, new })
    }

    /// Takes the object at `start` away and publishes.
    pub(crate) fn remove(&mut self, aperture: Aperture, start: usize) -> Result<()> {
        let known = self.locate_start(aperture, start).ok_or(Error::Failed)?;
        let (known, old) = (*known, known.pointer());
        self.top_up_in_place(0)?;
        self.edit(aperture, &known, Step::Remove(old))
    }

    fn make_record(&mut self, record: Record) -> Result<NonNull<Record>> {
        let made = self.pools.nodes.records.make(record).ok_or(Error::NoMemory)?;
        // For `Record::pointer`.
        made.as_ptr().expose_provenance();
        Ok(made)
    }

    /// One change to one object, in its address index and, for a userptr, in the userptr index; then publishes. `record` says
    /// where the object is.
    fn edit(&mut self, aperture: Aperture, record: &Record, step: Step) -> Result<()> {
        let mut next = *self.version();
        let root = self.edit_index(next.root(aperture), record, step)?;
        match aperture {
            Aperture::Svm => next.svm = root,
            Aperture::SvmAlt => next.svm_alt = root,
            Aperture::MemHandle => next.mem_handle = root,
            Aperture::Cpuvm => next.cpuvm = root,
            Aperture::Gpuvm(position) => self.set_gpuvm(&mut next, position, root)?,
        }
        if record.is_userptr() {
            let generation = self.next_generation();
            next.userptrs = step.in_tree(&mut self.index_edit(generation).of_tree(), next.userptrs)?;
            if self.uses_pages {
                self.edit_marks(&mut next, record, step)?;
            }
        }
        self.publish(next, step.gone())
    }

    fn edit_index(&mut self, root: IndexRoot, record: &Record, step: Step) -> Result<IndexRoot> {
        let (page, generation, uses_pages) = (self.layout().page, self.next_generation(), self.uses_pages);
        let mut edit = self.index_edit(generation);
        if uses_pages {
            let span = Span::of_pages(record.start, record.extent(page));
            return step.in_pages(&mut edit.of_pages(), root.word(), span).map(IndexRoot::from);
        }
        step.in_tree(&mut edit.of_tree(), root.tree()).map(IndexRoot::from)
    }

    /// The number of the version that an edit makes.
    fn next_generation(&self) -> usize {
        self.version().generation.wrapping_add(1)
    }

    /// The marks of the pages that a userptr touches, in SVM's page index.
    fn edit_marks(&mut self, next: &mut Version, userptr: &Record, step: Step) -> Result<()> {
        let pages = Span::of_pages(userptr.cpu, userptr.size);
        match step {
            Step::Insert(_) => self.mark(next, pages, true),
            Step::Replace { .. } => Ok(()),
            Step::Remove(_) => self.unmark_untouched(next, pages),
        }
    }

    fn mark(&mut self, next: &mut Version, pages: Span, marked: bool) -> Result<()> {
        let generation = self.next_generation();
        let svm = self.index_edit(generation).of_pages().change(next.svm.word(), pages, Change::Mark(marked))?;
        next.svm = svm.into();
        Ok(())
    }

    /// Unmarks those of `pages` that no userptr of `next` touches. Mostly that is all of them, in one change. Without memory for
    /// one more the rest stay marked: queries of them look into the userptr index in vain, until a userptr over them ends.
    fn unmark_untouched(&mut self, next: &mut Version, pages: Span) -> Result<()> {
        let mut left = Some(pages);
        while let Some(part) = left {
            // SAFETY: made by this edit and published next; only `self` could reuse its nodes.
            let userptrs: View<'_, ByUserptr> = unsafe { View::new(next.userptrs) };
            let page = Span::of_pages(part.first, 1);
            let end = userptrs.max_end_up_to(page.last);
            if end > part.first {
                // Touched, and so are all pages up to that end.
                left = part.behind(Span::of_pages(end - 1, 1).last);
                continue;
            }
            // The next one starts in another page: else it would have touched this one.
            let touched = userptrs.ceil(page.last).map(|next| Span::of_pages(next.cpu, 1).first);
            let last = touched.map_or(part.last, |touched| part.last.min(touched - 1));
            if !self.has_nodes_to_unmark() {
                return Ok(());
            }
            self.mark(next, Span { first: part.first, last }, false)?;
            left = part.behind(last);
        }
        Ok(())
    }

    /// Whether there are nodes for one more change of marks, and for the top after it.
    fn has_nodes_to_unmark(&mut self) -> bool {
        self.pools.nodes.pages.reserve(NODES_PER_CHANGE + 1, &mut self.memory).is_ok()
    }

    fn set_gpuvm(&mut self, next: &mut Version, position: u8, root: IndexRoot) -> Result<()> {
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
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for pages of less than 4 KiB, if the writer began with larger ones, and for another page size
    /// while there are userptrs, whose extents are whole pages; [`Error::NoMemory`].
    pub fn set_layout(&mut self, mut layout: Layout) -> Result<()> {
        layout.settle();
        let too_small = self.uses_pages && layout.page.bytes() < pages::PAGE;
        let other_extents = layout.page != self.layout().page && self.version().userptrs().top().is_some();
        if too_small || other_extents {
            return Err(Error::InvalidParameter);
        }
        self.reserve_plain(1)?;
        self.top_up_layouts()?;
        let same_bounds = self.layout().svm == layout.svm;
        let in_svm = |record: &Record| layout.svm.contains_range(record.start, record.extent(layout.page));
        self.in_bounds = (same_bounds && self.in_bounds) || self.version().objects(Aperture::Svm).iter().all(in_svm);
        let mut next = *self.version();
        let old = core::mem::replace(&mut next.layout, self.pools.layouts.make(layout).ok_or(Error::NoMemory)?);
        // SAFETY: from this pool; the version that used it is being replaced, and retired no later than its layout.
        unsafe { self.retired.layouts.push(old) };
        self.publish(next, None)
    }

    /// Takes every object away, then the layout. Publishes after each; the lists of the records are the caller's.
    pub(crate) fn clear(&mut self) -> Result<()> {
        for aperture in Aperture::all() {
            let mut from = 0;
            while let Some(record) = self.next(aperture, from) {
                self.remove(aperture, record.start)?;
                from = record.start;
            }
        }
        self.set_layout(Layout::empty(self.layout().page))
    }
}
