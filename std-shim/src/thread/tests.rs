use super::*;

use std::sync::{Barrier, Mutex, PoisonError};

/// One test at a time: they take all slots.
fn alone<T>(test: impl FnOnce() -> T) -> T {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    SHARED.prepare();
    test()
}

fn mine<'t>() -> Mine<'t> {
    // SAFETY: used within the test's thread.
    unsafe { Mine::of_this_thread() }
}

/// A thread's first query, with a signal handler's right after its claim: whichever of the two slots is the thread's, the
/// other is free.
#[test]
fn a_handler_in_the_middle_of_a_claim_costs_no_slot() {
    let claims = || {
        let before = mine().slot();
        let owner = owner(me());
        // SAFETY: this thread's number; `keep` gives it back or makes it the thread's.
        let slot = unsafe { SHARED.slots.claim(owner) }.unwrap();
        assert!(mine().enter_slowly(0).is_some());
        let handlers = mine().slot();
        let kept = mine().keep(before, slot);
        assert!(std::ptr::eq(kept, mine().slot()) && kept.is_owned_by(owner));
        let other = if std::ptr::eq(kept, slot) { handlers } else { slot };
        assert!(!std::ptr::eq(kept, other) && !other.is_owned_by(owner));
        // And a claim that begins after the handler's takes no other.
        assert!(mine().claim().is_some_and(|again| std::ptr::eq(again, kept)));
    };
    alone(|| {
        free_all();
        std::thread::spawn(claims).join().unwrap();
    });
}

/// Threads of other tests may have ended; asks until all slots of such have come back.
fn free_all() {
    (0..=SLOTS.div_ceil(ASKED)).for_each(|_| free_abandoned(SHARED.slots.used()));
}

#[test]
fn slots_come_back_when_threads_have_ended() {
    alone(|| {
        for _ in 0..3 * SLOTS {
            let enter = || mine().enter_slowly(0).is_some();
            assert!(std::thread::spawn(enter).join().unwrap());
        }
        // Nor does a slot whose thread lives go.
        let kept = mine().claim().unwrap();
        free_all();
        assert!(kept.is_owned_by(owner(me())));
    });
}

#[test]
fn with_all_slots_taken_readers_are_counted_and_a_period_waits_for_them() {
    alone(|| {
        free_all();
        let (taken, end) = (Barrier::new(SLOTS + 5), Barrier::new(SLOTS + 5));
        let hold = || {
            let slot = mine().enter_slowly(0).map(drop);
            let crowd = slot.is_none().then(|| mine().enter_crowd());
            taken.wait();
            end.wait();
            crowd.is_some()
        };
        let crowded = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..SLOTS + 4).map(|_| scope.spawn(hold)).collect();
            taken.wait();
            // SAFETY: one period at a time.
            let mut periods = unsafe { SHARED.shelves[0].registry.domain().grace() };
            let period = periods.begin();
            assert!(!periods.passed(period) && !periods.alone());
            end.wait();
            let crowded = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|crowded| *crowded).count();
            assert!(periods.passed(period));
            crowded
        });
        assert!(crowded >= 4, "{crowded}");
    });
}

#[test]
fn a_reader_of_one_context_holds_no_other_back() {
    alone(|| {
        free_all();
        let [mut first, mut second] =
            // SAFETY: one period at a time.
            [0, 1].map(|index: usize| unsafe { SHARED.shelves[index].registry.domain().grace() });
        let inside = mine().enter_slowly(1).unwrap();
        let (one, other) = (first.begin(), second.begin());
        assert!(first.passed(one) && !second.passed(other));
        // A handler's query of the other context: both wait until it has left.
        let inner = mine().enter_slowly(0).unwrap();
        assert!(!first.passed(one) && !second.passed(other));
        drop(inner);
        assert!(first.passed(one) && !second.passed(other));
        drop(inside);
        assert!(second.passed(other));
    });
}
