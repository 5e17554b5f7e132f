//! THE WAY INTO THE READ PATH, for calls that come with nothing but an address. The steps are numbered:
//!
//! | step | in | what |
//! |---|---|---|
//! | 1 | `find_or` | the thread's reader slot: one plain store says that it is inside |
//! | 2 | `find_or` | the newest version: one load of the context's root, which is null while it is closed |
//! | 3 | `find_or` | the object: [`hsakmt_core::snapshot::Snapshot::descend`], steps 1 to 3 of the core's read path |
//! | 4 | `find_or` | the answer, and the slot is left: one plain store |
//!
//! Where a step needs more, another function takes over:
//!
//! | function | for |
//! |---|---|
//! | `find_slowly` | a thread's first query; one in a signal handler that interrupted another; each without membarrier or with all slots taken |
//! | `find_nothing_or_abort` | no object and no mark at the address: a miss |
//! | `find_by_rule` | a marked page, or an object that does not answer alone: step 4 and 5 of the core's read path |
//!
//! Each is called last, and those of the C entry promise not to unwind: a function that calls nothing in its middle saves few
//! registers, which is a fifth of what a query costs.

use hsakmt_core::error::{Error, Result};
use hsakmt_core::info::PointerInfo;
use hsakmt_core::internals::{Outermost, Reached};
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
            Context::primary().find_or::<true, _, _, _>(address, answer, Err)
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
        self.find_or::<true, _, _, _>(address, answer, Err)
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
        self.find_or::<false, _, _, _>(address, answer, failed)
    }

    /// Steps 1 to 4.
    #[inline(always)]
    fn find_or<const MAY_UNWIND: bool, T, A, F>(self, address: usize, answer: A, failed: F) -> T
    where
        A: FnOnce(Option<PointerInfo<'_>>) -> T,
        F: FnOnce(Error) -> T,
    {
        // SAFETY: used in this call.
        let mine = unsafe { Mine::of_this_thread() };
        let Some(inside) = mine.enter(self.index) else {
            return if MAY_UNWIND {
                self.find_slowly(address, answer, failed)
            } else {
                self.find_slowly_or_abort(address, answer, failed)
            };
        };
        // SAFETY: `inside` keeps this thread in the group of this registry until the end of this function or of the one that takes
        // over, and the snapshot is not used past them.
        let Some(snapshot) = (unsafe { self.shelf.registry.current() }) else { return closed(inside, failed) };
        let reached = snapshot.descend(address);
        match reached.plain(address) {
            Some(found) => {
                let answered = answer(Some(found));
                drop(inside);
                answered
            }
            None if MAY_UNWIND => find_by_rule(inside, snapshot, reached, address, answer),
            None if reached.is_empty() => find_nothing_or_abort(inside, snapshot, reached, address, answer),
            None => find_by_rule_or_abort(inside, snapshot, reached, address, answer),
        }
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
        let answered = answer(snapshot.find_pointer(address));
        drop(inside);
        answered
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
}

/// The rest of the core's read path.
#[cold]
#[inline]
fn find_by_rule<'s, T>(
    inside: Outermost<'static, Own>,
    snapshot: Snapshot<'s>,
    reached: Reached<'s>,
    address: usize,
    answer: impl FnOnce(Option<PointerInfo<'_>>) -> T,
) -> T {
    let answered = snapshot.find_by_rule(reached, address, answer);
    drop(inside);
    answered
}

/// `extern "C"` promises not to unwind: the caller makes no landing pad, and jumps here.
#[cold]
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "called from Rust only")]
extern "C" fn find_by_rule_or_abort<'s, T>(
    inside: Outermost<'static, Own>,
    snapshot: Snapshot<'s>,
    reached: Reached<'s>,
    address: usize,
    answer: impl FnOnce(Option<PointerInfo<'_>>) -> T,
) -> T {
    find_by_rule(inside, snapshot, reached, address, answer)
}

/// As [`find_by_rule_or_abort`], with a short path for an address of SVM that nothing touches.
#[inline(never)]
#[expect(improper_ctypes_definitions, reason = "called from Rust only")]
extern "C" fn find_nothing_or_abort<'s, T>(
    inside: Outermost<'static, Own>,
    snapshot: Snapshot<'s>,
    reached: Reached<'s>,
    address: usize,
    answer: impl FnOnce(Option<PointerInfo<'_>>) -> T,
) -> T {
    if !snapshot.has_nothing_at(reached, address) {
        return find_by_rule_or_abort(inside, snapshot, reached, address, answer);
    }
    let answered = answer(None);
    drop(inside);
    answered
}

/// Out of line, so that it shares nothing with the way of an answer.
#[cold]
#[inline(never)]
fn closed<T>(inside: Outermost<'static, Own>, failed: impl FnOnce(Error) -> T) -> T {
    drop(inside);
    failed(Error::NotOpened)
}
