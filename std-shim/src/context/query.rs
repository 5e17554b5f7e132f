//! THE WAY INTO THE READ PATH, for calls that come with nothing but an address: thread -> slot -> snapshot -> answer.
//!
//! | function | for | calls in its middle |
//! |---|---|---|
//! | `find` | what the thread has asked before | none |
//! | `walk` | the SVM aperture without userptrs | none |
//! | `walk_whole` | every other address; noting what was found | parts of the look-up |
//! | `find_slowly` | a thread's first query; each without membarrier; all slots taken | anything but malloc and a lock |
//!
//! Each ends by calling the next: a function that calls nothing in its middle saves no registers, which is a fifth of
//! what a repeated query costs.

use hsakmt_core::error::{Error, Result};
use hsakmt_core::info::PointerInfo;
use hsakmt_core::internals::{Inside, Recent};
use hsakmt_core::snapshot::Snapshot;

use super::Context;
use crate::shared::SHARED;
use crate::thread::{Mine, Own};

impl Context {
    /// Finds the allocation that contains `address`, or [`PointerInfo::UNKNOWN`], and calls `answer` with it while it is
    /// protected.
    ///
    /// Wait-free, O(log n), no system call and no allocation. A thread's first call claims a reader slot, with a few system
    /// calls and without an allocation or a lock.
    ///
    /// # Errors
    /// [`Error::NotOpened`] before open, after the last close, and in a forked child that has not opened.
    #[doc(alias = "hsaKmtQueryPointerInfo")]
    #[inline(always)]
    pub fn query_pointer<T>(self, address: usize, answer: impl FnOnce(PointerInfo<'_>) -> T) -> Result<T> {
        let answer = |found: Option<PointerInfo<'_>>| Ok(answer(found.unwrap_or(PointerInfo::UNKNOWN)));
        if self.is_primary() {
            // A constant: its index and its root need no register.
            Context::primary().find_or(address, answer, Err, Self::find_slowly)
        } else {
            self.find_in_secondary(address, answer)
        }
    }

    #[inline(never)]
    fn find_in_secondary<T>(
        self,
        address: usize,
        answer: impl FnOnce(Option<PointerInfo<'_>>) -> Result<T>,
    ) -> Result<T> {
        self.find_or(address, answer, Err, Self::find_slowly)
    }

    /// [`Context::query_pointer`] for C: `None` for an unknown address, and `failed` makes an answer of an error. Neither
    /// may panic: nothing here unwinds, so no landing pad is made.
    #[inline(always)]
    pub(crate) fn find<T>(
        self,
        address: usize,
        answer: impl FnOnce(Option<PointerInfo<'_>>) -> T,
        failed: impl FnOnce(Error) -> T,
    ) -> T {
        let slowly = |context: Context, address, answer, failed| context.find_slowly_or_abort(address, answer, failed);
        self.find_or(address, answer, failed, slowly)
    }

    /// Answers a repeated query. Everything else has functions of its own, so that this one needs few registers.
    #[inline(always)]
    fn find_or<T, A, F>(self, address: usize, answer: A, failed: F, slowly: impl FnOnce(Self, usize, A, F) -> T) -> T
    where
        A: FnOnce(Option<PointerInfo<'_>>) -> T,
        F: FnOnce(Error) -> T,
    {
        // SAFETY: used in this call.
        let mine = unsafe { Mine::of_this_thread() };
        let Some(inside) = mine.enter(self.index) else { return slowly(self, address, answer, failed) };
        // SAFETY: `inside` keeps this thread in the group of this registry until the end of this function or of `walk`, and
        // the snapshot is not used past them.
        let Some(snapshot) = (unsafe { self.shelf.registry.current() }) else { return closed(inside, failed) };
        let recent = self.recent(&inside);
        // SAFETY: the memory of last hits is used for the primary context alone, hence for one registry alone; it stands in
        // this thread's slot, and forgot when the slot was claimed. A fork wipes it.
        if let Some(known) = recent.and_then(|recent| unsafe { snapshot.recall(address, recent) }) {
            return answer(Some(known));
        }
        Self::walk(inside, snapshot, address, recent, answer)
    }

    /// The thread's last hits; of the primary context alone.
    #[inline(always)]
    fn recent(self, inside: &Inside<'static, Own>) -> Option<&'static Recent> {
        (self.index == 0).then_some(&inside.kept().recent)
    }

    /// A thread's first query, or its first after a fork, and every one on a kernel without membarrier, or with all slots
    /// taken. Lock-free; a thread's first one makes a few system calls.
    #[cold]
    #[inline(never)]
    fn find_slowly<T>(
        self,
        address: usize,
        answer: impl FnOnce(Option<PointerInfo<'_>>) -> T,
        failed: impl FnOnce(Error) -> T,
    ) -> T {
        if !SHARED.is_prepared() {
            // No slot may be claimed before a fork wipes them, and there is nothing to find.
            return failed(Error::NotOpened);
        }
        // SAFETY: as in `find_or`.
        let mine = unsafe { Mine::of_this_thread() };
        let Some(inside) = mine.enter_slowly(self.index) else {
            let _inside = mine.enter_crowd();
            // SAFETY: the crowd keeps this thread in the domain until the end of this block.
            let snapshot = unsafe { self.shelf.registry.current() };
            return match snapshot {
                Some(snapshot) => answer(snapshot.find_pointer(address)),
                None => failed(Error::NotOpened),
            };
        };
        // SAFETY: as in `find_or`.
        let Some(snapshot) = (unsafe { self.shelf.registry.current() }) else { return failed(Error::NotOpened) };
        let recent = self.recent(&inside);
        Self::walk(inside, snapshot, address, recent, answer)
    }

    /// `extern "C"` promises not to unwind.
    #[cold]
    #[inline(never)]
    #[expect(improper_ctypes_definitions, reason = "called from Rust only")]
    extern "C" fn find_slowly_or_abort<T>(
        self,
        address: usize,
        answer: impl FnOnce(Option<PointerInfo<'_>>) -> T,
        failed: impl FnOnce(Error) -> T,
    ) -> T {
        self.find_slowly(address, answer, failed)
    }

    /// A query whose answer the thread does not remember, if it is of the plain kind. Like `find` it calls nothing in its
    /// middle, so that it needs no stack.
    #[inline(never)]
    fn walk<T>(
        inside: Inside<'static, Own>,
        snapshot: Snapshot<'_>,
        address: usize,
        recent: Option<&Recent>,
        answer: impl FnOnce(Option<PointerInfo<'_>>) -> T,
    ) -> T {
        match recent.and_then(|recent| snapshot.walk_plainly(address, recent)) {
            Some(found) => {
                let answered = answer(found);
                drop(inside);
                answered
            }
            None => Self::walk_whole(inside, snapshot, address, recent, answer),
        }
    }

    /// Every other query.
    #[inline(never)]
    fn walk_whole<T>(
        _inside: Inside<'static, Own>,
        snapshot: Snapshot<'_>,
        address: usize,
        recent: Option<&Recent>,
        answer: impl FnOnce(Option<PointerInfo<'_>>) -> T,
    ) -> T {
        match recent {
            // SAFETY: as where it was asked what it knows.
            Some(recent) => answer(unsafe { snapshot.query_unknown(address, recent) }),
            None => answer(snapshot.find_pointer(address)),
        }
    }
}

/// Out of line, so that it shares nothing with the way of an answer.
#[cold]
#[inline(never)]
fn closed<T>(inside: Inside<'static, Own>, failed: impl FnOnce(Error) -> T) -> T {
    drop(inside);
    failed(Error::NotOpened)
}
