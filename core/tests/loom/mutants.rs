//! What the models rest on, left out piece by piece: each time some order must break them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hsakmt_core::epoch::crossbeam::Crossbeam;
use hsakmt_core::epoch::slots::Slots;
use hsakmt_core::primitive::{Missing, mutate};

use super::domains::{Crowded, Hasty, HeavyOnly, LightOnly, Lonely, PlainRepin};
use super::holds::{one_slot_for_two, slots};
use super::pages::two_pages;
use super::{beside_a_writer, twice};

/// Runs a model that must not hold.
fn breaks(model: impl FnOnce()) {
    let broken = catch_unwind(AssertUnwindSafe(model)).expect_err("a model that lacks this holds all the same");
    let said = broken.downcast_ref::<String>().map(String::as_str).or(broken.downcast_ref::<&str>().copied());
    println!("{}", said.unwrap_or("broken"));
}

#[test]
fn a_reader_that_does_not_fence() {
    breaks(|| beside_a_writer(|| Slots::<2, _>::new(HeavyOnly), &[twice]));
}

#[test]
fn a_writer_that_does_not_fence() {
    breaks(|| beside_a_writer(|| Slots::<2, _>::new(LightOnly), &[twice]));
}

#[test]
fn a_claim_that_does_not_fence() {
    mutate(Missing::Fences);
    breaks(|| beside_a_writer(Lonely::new, &[twice]));
}

#[test]
fn a_slot_given_back_out_of_order() {
    mutate(Missing::Release);
    breaks(one_slot_for_two);
}

#[test]
fn slots_loaded_out_of_order() {
    mutate(Missing::Acquire);
    breaks(|| beside_a_writer(slots, &[twice]));
}

#[test]
fn slots_stored_out_of_order() {
    mutate(Missing::Release);
    breaks(|| beside_a_writer(slots, &[twice]));
}

#[test]
fn slots_that_nobody_looks_at() {
    breaks(|| beside_a_writer(|| Hasty(slots()), &[twice]));
}

#[test]
fn a_crowd_that_leaves_out_of_order() {
    mutate(Missing::Both);
    breaks(|| beside_a_writer(Crowded::new, &[twice]));
}

#[test]
fn a_crowd_that_is_looked_at_out_of_order() {
    mutate(Missing::Acquire);
    breaks(|| beside_a_writer(Crowded::new, &[twice]));
}

#[test]
fn a_crowd_that_does_not_fence() {
    mutate(Missing::Fences);
    breaks(|| beside_a_writer(Crowded::new, &[twice]));
}

#[test]
fn crossbeam_loaded_out_of_order() {
    mutate(Missing::Acquire);
    breaks(|| two_pages(Crossbeam::new, 1, false));
}

#[test]
fn crossbeam_stored_out_of_order() {
    mutate(Missing::Release);
    breaks(|| two_pages(Crossbeam::new, 1, false));
}

#[test]
fn crossbeam_whose_periods_are_not_waited_for() {
    breaks(|| two_pages(|| Hasty(Crossbeam::new()), 1, false));
}

#[test]
fn crossbeam_repinned_without_a_fence() {
    breaks(|| two_pages(PlainRepin::new, 2, true));
}

#[test]
fn crossbeam_repinned_at_once_without_a_fence() {
    mutate(Missing::Fences);
    breaks(|| two_pages(Crossbeam::new, 2, true));
}
