//! THE READ PATH, whole: address -> page -> object -> info. The steps are numbered below.
//!
//! A caller comes with a snapshot, which is one word, loaded from the registry inside the domain ([`crate::epoch`]).
//!
//! No lock, no system call, no allocation, no retry; no store at all. Every loop is bounded by the levels of an index.

use crate::aperture::Aperture;
use crate::index::{HAS_PAGES, Index};
use crate::info::{NodeList, PointerInfo};
use crate::pages::Pages;
use crate::record::Record;
use crate::snapshot::Snapshot;
use crate::version::Version;

/// A descent of the page index of SVM, under way or at its end. Keeps the marks apart: one instruction a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descent<'g> {
    /// The last node; the published word itself where there is no page index.
    node: Pages<'g>,
    /// What its slot says.
    at: Pages<'g>,
    /// All bits of all words on the way: the mark, if any of them has it.
    marks: usize,
}

/// Where an address leads in the page index of SVM. Two words: callers pass it on in registers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Reached<'g> {
    /// The last node; the published word itself where there is no page index.
    node: Pages<'g>,
    /// What its slot says, marked if any word on the way is.
    at: Pages<'g>,
}

impl<'g> Snapshot<'g> {
    /// The allocation that contains `address`. Wait-free.
    #[inline(always)]
    pub fn find_pointer(&self, address: usize) -> Option<PointerInfo<'g>> {
        let reached = self.descend(address);
        match reached.plain(address) {
            Some(info) => Some(info),
            None => self.find_record_apart(reached, address).map(|record| self.version().info(record)),
        }
    }

    /// Steps 1 and 2. Not part of the public interface: for callers that keep the path of most queries short.
    #[doc(hidden)]
    #[inline(always)]
    pub fn descend(&self, address: usize) -> Reached<'g> {
        let mut descent = Descent::top(self);
        // 1. Down the page index of SVM: one load a level. Without one the published word is no node.
        while HAS_PAGES && descent.is_under_way() {
            descent = descent.step(address);
        }
        descent.end()
    }

    /// The record of the object that holds `address`.
    #[cfg(test)]
    pub(crate) fn find_record(&self, address: usize) -> Option<&'g Record> {
        let reached = self.descend(address);
        reached.plain_record(address).or_else(|| self.find_record_by_rule(reached, address))
    }

    /// Steps 4 and 5, for every query that `Reached::plain` does not answer. Not part of the public interface: for callers that
    /// keep it out of line.
    #[doc(hidden)]
    #[inline(always)]
    pub fn find_by_rule<T>(
        &self,
        reached: Reached<'g>,
        address: usize,
        answer: impl FnOnce(Option<PointerInfo<'g>>) -> T,
    ) -> T {
        match self.find_record_by_rule(reached, address) {
            Some(record) => answer(Some(self.version().info(record))),
            None => answer(None),
        }
    }

    /// Whether step 4 would find nothing, from what step 1 has shown: for a short path of misses. Not part of the public interface.
    #[doc(hidden)]
    #[inline(always)]
    pub fn has_nothing_at(&self, reached: Reached<'g>, address: usize) -> bool {
        reached.is_of_pages() && reached.is_empty() && self.version().layout().direct().contains(address)
    }

    #[inline]
    #[cold]
    fn find_record_apart(&self, reached: Reached<'g>, address: usize) -> Option<&'g Record> {
        self.find_record_by_rule(reached, address)
    }

    #[inline(always)]
    fn find_record_by_rule(&self, reached: Reached<'g>, address: usize) -> Option<&'g Record> {
        let version = self.version();
        let layout = version.layout();
        if !reached.is_of_pages() || !layout.direct().contains(address) {
            return self.find_elsewhere(reached, address);
        }
        // 4. In SVM of a dGPU: a userptr that touches the page, then the object that step 1 led to.
        if layout.mmap
            && reached.may_be_registered(self, address)
            && let Some(userptr) = version.userptrs().stab_first(address)
        {
            return Some(userptr);
        }
        reached.at.record().filter(|record| record.holds(address, layout.page))
    }

    /// Step 5, for everything else: other apertures, machines without a dGPU, registries in a fixed memory.
    #[inline]
    #[cold]
    fn find_elsewhere(&self, reached: Reached<'g>, address: usize) -> Option<&'g Record> {
        // 5. By the routing rule: userptrs, one address index, then CPUVM.
        let version = self.version();
        let (page, route) = (version.layout().page, version.layout().route(address));
        let userptr = route.userptr && (!reached.is_of_pages() || reached.may_be_registered(self, address));
        let userptr = if userptr { version.userptrs().stab(address) } else { None };
        let object = || version.objects(route.address?).holding(address, page);
        let in_cpuvm = || if route.cpuvm { version.objects(Aperture::Cpuvm).holding(address, page) } else { None };
        userptr.or_else(object).or_else(in_cpuvm)
    }
}

impl<'g> Descent<'g> {
    /// The top of the page index of SVM.
    #[inline(always)]
    pub(crate) fn top(snapshot: &Snapshot<'g>) -> Descent<'g> {
        // SAFETY: the snapshot's version is alive (`Snapshot::new`).
        let top = unsafe { snapshot.published.pages() };
        Descent { node: top, at: top, marks: top.word().bits() }
    }

    /// Whether there is a level below.
    #[inline(always)]
    pub(crate) fn is_under_way(self) -> bool {
        self.at.word().is_node()
    }

    /// One level down, in step 1.
    #[inline(always)]
    pub(crate) fn step(self, address: usize) -> Descent<'g> {
        let at = self.at.below(address);
        // 2. Marks are collected on the way: registered host memory touches the page, or the rule has to answer, since the
        //    layout or the index is not plain; the published word is marked then.
        Descent { node: self.at, at, marks: self.marks | at.word().bits() }
    }

    /// What the next step reads, or the record at the end.
    #[inline(always)]
    pub(crate) fn next_read(self, address: usize) -> *const u8 {
        if self.is_under_way() { self.at.slot_of(address).cast() } else { self.at.word().target_ptr() }
    }

    /// At the end of the way.
    #[inline(always)]
    pub(crate) fn end(self) -> Reached<'g> {
        Reached { node: self.node, at: self.at.with_marks_of(self.marks) }
    }
}

impl<'g> Reached<'g> {
    /// Step 3: the answer where the slot alone gives it, which is for nearly every hit. Not part of the public interface.
    #[doc(hidden)]
    #[inline(always)]
    pub fn plain(self, address: usize) -> Option<PointerInfo<'g>> {
        self.plain_record(address).map(|record| info(record, record.start))
    }

    #[inline(always)]
    fn plain_record(self, address: usize) -> Option<&'g Record> {
        // 3. An unmarked page's object, if it holds the address and is no userptr.
        if !HAS_PAGES || self.at.word().is_marked() {
            return None;
        }
        self.at.record().filter(|record| record.is_plain_at(address))
    }

    /// Whether the slot has neither an object nor a mark. Not part of the public interface.
    #[doc(hidden)]
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.at.word().bits() == 0
    }

    /// Whether SVM has a page index.
    #[inline(always)]
    fn is_of_pages(self) -> bool {
        HAS_PAGES && self.node.word().is_node()
    }

    /// Whether a userptr may touch the page of `address`, by the page index. False where none does, but for marks that are left
    /// over.
    #[inline(always)]
    fn may_be_registered(self, snapshot: &Snapshot<'g>, address: usize) -> bool {
        // SAFETY: the snapshot's version is alive (`Snapshot::new`).
        self.at.word().is_marked()
            && (self.node.covers(address) || unsafe { snapshot.published.svm() }.is_marked(address))
    }
}

impl Version {
    #[inline(always)]
    pub(crate) fn info<'s>(&self, record: &'s Record) -> PointerInfo<'s> {
        info(record, record.gpu_address(self.layout().page))
    }
}

#[inline(always)]
fn info(record: &Record, gpu_address: usize) -> PointerInfo<'_> {
    PointerInfo {
        kind: record.kind,
        node: record.node,
        flags: record.flags,
        cpu_address: record.cpu,
        gpu_address: gpu_address as u64,
        size: record.size as u64,
        registered: NodeList::new(record.registered),
        mapped: NodeList::new(record.mapped),
        user_data: record.user_data,
    }
}
