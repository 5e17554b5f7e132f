//! Which part of the address space is reserved for SVM, and how many driver calls the search makes.

use super::*;
use crate::driver::Driver;
use crate::error::Error;
use crate::manager::SetUpError;

/// Everything that the GPUs can reserve: up to 2^40.
const WHOLE: Bounds = Bounds::new(0x100_0000, (1 << 40) - 1);

/// The reserved range of a machine, and how many reservations were tried.
fn search(used: &[Bounds], knows: bool) -> (Result<Bounds, SetUpError>, usize) {
    let bench = Bench::reserved();
    let mut m = bench.open();
    m.driver.knows_what_is_used = knows;
    for range in used {
        m.driver.kernel.reserved.insert(range.base, range.limit - range.base + 1);
    }
    let done = bench.with_nodes(|nodes| m.set_up(nodes, &bench.options));
    let found = match &m.machine.svm {
        SvmSpace::Reserved { whole, .. } => *whole,
        _ => Bounds::EMPTY,
    };
    (done.map(|()| found), m.driver.count("reserve"))
}

#[test]
fn an_empty_address_space_gives_all_of_it_at_once() {
    assert_eq!(search(&[], true), (Ok(WHOLE), 1));
}

#[test]
fn what_is_in_use_is_skipped_in_one_step() {
    // A quarter of the range, 131,072 huge pages.
    let used = Bounds::new(WHOLE.base, 1 << 38);
    let (found, tries) = search(&[used], true);
    assert_eq!(found, Ok(Bounds::new((1 << 38) + 0x20_0000, WHOLE.limit)));
    assert_eq!(tries, 2);
}

#[test]
fn a_full_address_space_is_refused_at_once() {
    for knows in [true, false] {
        let (found, tries) = search(&[WHOLE], knows);
        assert_eq!(found, Err(SetUpError::NoRoom(Bounds::new(WHOLE.base, (1 << 47) - 1))));
        assert!(tries <= if knows { 10 } else { 600 }, "{tries}");
    }
}

#[test]
fn any_gap_of_the_least_size_is_found() {
    // 4 GiB and 6 GiB: below the last half of the whole, which is nearly 8 GiB.
    for size in [4usize << 30, 6 << 30] {
        for start in [0x200_0000, 1 << 36, (1 << 40) - size] {
            let gap = Bounds::new(start, start + size - 1);
            let before = Bounds::new(WHOLE.base, gap.base - 1);
            let after = Bounds::new(gap.limit + 1, WHOLE.limit.max(gap.limit + P));
            let (found, tries) = search(&[before, after], true);
            let found = found.unwrap();
            assert_eq!(found.base, gap.base);
            assert!(found.limit - found.base + 1 >= 4 << 30 && found.limit <= gap.limit, "{found:?} {gap:?}");
            assert!(tries < 64, "{tries}");
        }
    }
    let too_small = Bounds::new(WHOLE.base + (4 << 30) - P, WHOLE.limit);
    assert!(search(&[too_small], true).0.is_err());
}

#[test]
fn a_driver_that_cannot_say_is_asked_a_bounded_number_of_times() {
    // As without any driver's help: behind the third huge page.
    let used = Bounds::new(WHOLE.base + 0x40_0000, WHOLE.base + 0x40_0fff);
    let (found, tries) = search(&[used], false);
    assert_eq!((found.map(|found| found.base), tries), (Ok(WHOLE.base + 0x60_0000), 4));
    let mut boxed: Box<Fake> = Box::new(Fake::new(Vec::new()));
    boxed.kernel.reserved.insert(0x1000, P);
    assert_eq!(boxed.last_used(Bounds::new(0, 0x5000)), Some(0x1fff), "a boxed driver says what the driver says");
}

/// Inside of a reserved range no userptr is looked for, behind its end one is. A second object of the same key would stay
/// in the userptr index when it ends, with node lists that are given back.
#[test]
fn host_memory_that_begins_in_the_reserved_range_is_registered_once() {
    let mut m = Bench::reserved().start();
    let SvmSpace::Reserved { whole, .. } = &m.machine.svm else { panic!("not reserved") };
    let (host, behind) = (whole.limit + 1 - P, whole.limit + 1);
    m.register_to_nodes(range(host, 2 * P), &[G1]).unwrap();
    m.register_to_nodes(range(host, 2 * P), &[G1]).unwrap();
    assert_eq!(m.register_to_nodes(range(host, 2 * P), &[G2]), Err(Error::AlreadyRegistered));
    let found = query(&m, behind).unwrap();
    assert_eq!(found.registered, [1]);
    check(&m);
    assert_eq!(m.deregister(found.gpu), Ok(()));
    assert_eq!(query(&m, behind), Some(found.clone()), "registered once more");
    assert_eq!(m.deregister(found.gpu), Ok(()));
    assert_eq!(query(&m, behind), None);
    assert_eq!(m.deregister(found.gpu), Err(Error::NotRegistered));
    check(&m);
}
