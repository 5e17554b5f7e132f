//! What no order of the threads breaks.

use std::num::NonZeroUsize;
use std::sync::Arc;

use hsakmt_core::epoch::crossbeam::Crossbeam;
use hsakmt_core::epoch::slots::{Fences, Slots};
use hsakmt_core::primitive::Watch;
use hsakmt_core::registry::Registry;

use super::domains::{Crowded, Lonely};
use super::pages::{two_pages, two_pages_interrupted};
use super::{Seen, ask, beside_a_writer, explore, in_a_session, twice};

pub(crate) fn slots() -> Slots<2, Fences> {
    Slots::new(Fences)
}

#[test]
fn slots_one_question_at_a_time() {
    beside_a_writer(slots, &[twice]);
}

#[test]
fn slots_in_a_session() {
    beside_a_writer(slots, &[in_a_session]);
}

/// A reader that queries once.
fn once(registry: &Registry<Crowded>, seen: &Seen) {
    seen.note(ask(&mut registry.readers().reader().expect("a place")));
}

/// A reader of the only slot, if it gets it; then the slot is free again.
fn once_if_there_is_a_place(registry: &Registry<Slots<1, Fences>>, seen: &Seen) {
    if let Some(mut reader) = registry.readers().reader() {
        seen.note(ask(&mut reader));
    }
}

#[test]
fn slots_given_back_and_claimed_again_or_all_taken() {
    beside_a_writer(|| Slots::new(Fences), &[once_if_there_is_a_place, once_if_there_is_a_place]);
}

/// Two threads and one slot: whoever has it has it alone, and the next comes after.
pub(crate) fn one_slot_for_two() {
    explore(|| {
        let (domain, used) = (Arc::new(Slots::<1, Fences>::new(Fences)), Arc::new(Watch::new()));
        let claim = |owner: usize| {
            let (domain, used) = (Arc::clone(&domain), Arc::clone(&used));
            let owner = NonZeroUsize::new(owner).expect("a number");
            move || {
                // SAFETY: the other thread has another number, and this one gives the slot back.
                let slot = unsafe { domain.claim(owner) }?;
                used.write();
                assert!(slot.is_owned_by(owner));
                // SAFETY: the owner is outside.
                unsafe { domain.release(slot, owner) };
                Some(())
            }
        };
        let other = loom::thread::spawn(claim(2));
        let mine = claim(1)();
        let other = other.join().expect("a thread that ends");
        assert!(mine.or(other).is_some(), "one of them found it free");
    });
}

#[test]
fn slots_have_one_owner() {
    one_slot_for_two();
}

#[test]
fn slots_of_a_writer_that_may_be_alone() {
    beside_a_writer(Lonely::new, &[twice]);
}

#[test]
fn slots_two_pages() {
    two_pages(slots, 3, false);
}

#[test]
fn slots_two_pages_in_a_long_session() {
    two_pages(slots, 3, true);
}

#[test]
fn slots_entered_by_a_handler_in_the_middle_of_an_entry() {
    two_pages_interrupted();
}

#[test]
fn a_crowd_one_query_at_a_time() {
    beside_a_writer(Crowded::new, &[twice]);
}

#[test]
fn a_crowd_of_two_at_one_counter() {
    beside_a_writer(Crowded::new, &[once, once]);
}

#[test]
fn a_crowd_two_pages() {
    two_pages(Crowded::new, 1, false);
}

#[test]
fn crossbeam_two_pages() {
    two_pages(Crossbeam::new, 1, false);
}

#[test]
fn crossbeam_two_pages_in_a_session() {
    two_pages(Crossbeam::new, 2, false);
}

#[test]
fn crossbeam_two_pages_in_a_long_session() {
    two_pages(Crossbeam::new, 2, true);
}
