//! THE WAY INTO THE READ PATH, for calls that come with nothing but an address: thread -> slot -> snapshot -> answer.
//!
//! | function | for | calls in its middle |
//! |---|---|---|
//! | `find` | what the thread asked before | where its thread-local is |
//! | `walk` | the SVM aperture without userptrs | none |
//! | `walk_whole` | every other address; noting what was found | parts of the look-up |
//! | `find_slowly` | a thread's first question; each without membarrier | anything |
//!
//! Each ends by calling the next: a function that calls nothing in its middle saves no registers, which is a fifth of
//! what a repeated question costs.

use hsakmt_core::epoch::slots::Inside;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::info::PointerInfo;
use hsakmt_core::recent::Recent;
use hsakmt_core::snapshot::Snapshot;

use super::Context;
use crate::thread::{self, Mine};

impl Context {
    /// What `address` belongs to, or [`PointerInfo::UNKNOWN`]; `answer` sees it while it is protected.
    ///
    /// Wait-free, O(log n), no system call and no allocation; a thread's first call registers its slot. Status:
    /// [`Error::NotOpened`] before open, after the last close, and in a forked child that has not opened.
    #[doc(alias = "hsaKmtQueryPointerInfo")]
    #[inline(always)]
    pub fn query_pointer<T>(self, address: usize, answer: impl FnOnce(PointerInfo<'_>) -> T) -> Result<T> {
        let answer = |found: Option<PointerInfo<'_>>| Ok(answer(found.unwrap_or(PointerInfo::UNKNOWN)));
        self.find_or(address, answer, Err, Self::find_slowly)
    }

    /// The same for C: `None` for nothing, and `failed` makes an answer of an error. Neither may panic: nothing here unwinds,
    /// so no place is made for it.
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

    /// What a thread asks again is answered here. Everything else has functions of its own, so that this one needs few
    /// registers.
    #[inline(always)]
    fn find_or<T, A, F>(self, address: usize, answer: A, failed: F, slowly: impl FnOnce(Self, usize, A, F) -> T) -> T
    where
        A: FnOnce(Option<PointerInfo<'_>>) -> T,
        F: FnOnce(Error) -> T,
    {
        // SAFETY: used in this call and in those that it ends with.
        let mine = unsafe { thread::mine() };
        let Some(inside) = mine.enter() else { return slowly(self, address, answer, failed) };
        // SAFETY: `inside` keeps this thread in the domain of all registries until the end of this function or of `walk`,
        // and the snapshot is not used past them.
        let Some(snapshot) = (unsafe { self.shelf.registry.current() }) else { return closed(inside, failed) };
        // SAFETY: the thread's memory is for the primary context alone, and for one registry alone, of which a process
        // has one; what a forked child's thread has of its parent's is of generations that the child never has
        // (`context::PROCESS`), and mostly forgotten (`thread::claim`).
        if let Some(known) = self.recent(mine).and_then(|recent| unsafe { snapshot.recall(address, recent) }) {
            return answer(Some(known));
        }
        Self::walk(inside, snapshot, address, self.recent(mine), answer)
    }

    /// What the thread asked before; of the primary context alone.
    #[inline(always)]
    fn recent(self, mine: &Mine) -> Option<&Recent> {
        (self.index == 0).then_some(&mine.recent)
    }

    /// A thread's first question, or its first after a fork, and every one on a kernel without membarrier. With all slots taken
    /// the writer's lock keeps the newest version where it is: blocking.
    #[cold]
    #[inline(never)]
    fn find_slowly<T>(
        self,
        address: usize,
        answer: impl FnOnce(Option<PointerInfo<'_>>) -> T,
        failed: impl FnOnce(Error) -> T,
    ) -> T {
        // SAFETY: as in `find_or`.
        let mine = unsafe { thread::mine() };
        let Some(inside) = mine.enter_slowly() else {
            let told = self.manage(|manager| Ok(answer(manager.writer().snapshot().find_pointer(address))));
            return told.unwrap_or_else(failed);
        };
        // SAFETY: as in `find_or`.
        let Some(snapshot) = (unsafe { self.shelf.registry.current() }) else { return failed(Error::NotOpened) };
        Self::walk(inside, snapshot, address, self.recent(mine), answer)
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

    /// A question whose answer the thread does not remember, if it is a plain one. Like `find` a function without another
    /// call in its middle, so that it needs no stack.
    #[inline(never)]
    fn walk<T>(
        inside: Inside<'_>,
        snapshot: &Snapshot,
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

    /// Every other question.
    #[inline(never)]
    fn walk_whole<T>(
        _inside: Inside<'_>,
        snapshot: &Snapshot,
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
fn closed<T>(inside: Inside<'_>, failed: impl FnOnce(Error) -> T) -> T {
    drop(inside);
    failed(Error::NotOpened)
}
