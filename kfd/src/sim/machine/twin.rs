//! The simulated kernel against dumb twins: SVM ranges against one record per page, a GPU's address space against a
//! list, VRAM against a sum.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::memory::AddressSpace;
use super::svm::{Attributes, Ranges};
use super::{PAGE, Process};

const PAGES: u64 = 32;

/// What a page is told: its n-th GPU may or may not use it, or a location.
#[derive(Clone, Copy, Debug)]
enum Told {
    Access(u64),
    Nothing(u64),
    Place(u32),
}

fn tell(it: &mut Attributes, told: Told) {
    match told {
        Told::Access(gpu) => it.access |= 1 << gpu,
        Told::Nothing(gpu) => it.access &= !(1 << gpu),
        Told::Place(place) => it.preferred = place,
    }
}

fn told() -> impl Strategy<Value = Told> {
    prop_oneof![(0..2u64).prop_map(Told::Access), (0..2u64).prop_map(Told::Nothing), (0..3u32).prop_map(Told::Place)]
}

fn piece() -> impl Strategy<Value = (u64, u64)> {
    (0..PAGES, 1..=PAGES).prop_map(|(start, size)| (start, (start + size).min(PAGES)))
}

proptest! {
    #[test]
    fn ranges_are_what_each_page_was_told(
        calls in prop::collection::vec((piece(), prop::option::of(told())), 1..40)
    ) {
        let fresh = Attributes::new(0);
        let mut ranges = Ranges::default();
        let mut pages: BTreeMap<u64, Attributes> = BTreeMap::new();
        for ((start, end), told) in calls {
            match told {
                Some(told) => {
                    ranges.change(start * PAGE, end * PAGE, fresh, |it| tell(it, told));
                    (start..end).for_each(|page| tell(pages.entry(page).or_insert(fresh), told));
                }
                None => {
                    ranges.remove(start * PAGE, end * PAGE);
                    pages.retain(|page, _| !(start..end).contains(page));
                }
            }
            let mut known = BTreeMap::new();
            let mut before: Option<(u64, Attributes)> = None;
            for (start, end, it) in ranges.over(0, PAGES * PAGE) {
                prop_assert!(start < end && before.is_none_or(|(end, _)| end <= start), "no range is empty or overlaps");
                before = Some((end, it));
                known.extend((start / PAGE..end / PAGE).map(|page| (page, it)));
            }
            prop_assert_eq!(&known, &pages);
        }
    }

    #[test]
    fn no_two_mappings_share_an_address(pieces in prop::collection::vec((piece(), any::<bool>()), 1..60)) {
        let mut space = AddressSpace::default();
        let mut list: Vec<(u64, u64)> = Vec::new();
        for ((start, end), remove) in pieces {
            if remove {
                list.retain(|(first, _)| *first != start);
                space.remove(start * PAGE);
                continue;
            }
            let free = list.iter().all(|(first, last)| end <= *first || *last <= start);
            prop_assert_eq!(space.insert(start * PAGE, end * PAGE - 1, 1).is_ok(), free);
            if free {
                list.push((start, end));
            }
        }
    }

    #[test]
    fn handles_are_never_zero_and_never_used_twice(gpus in prop::collection::vec(1u32.., 1..50)) {
        let mut process = Process::new(true, 1);
        let mut seen = std::collections::BTreeSet::new();
        for gpu in gpus {
            let handle = process.new_handle(hsakmt_core::node::GpuId(gpu));
            prop_assert!(handle != 0 && handle >> 32 == u64::from(gpu) && seen.insert(handle));
        }
    }
}
