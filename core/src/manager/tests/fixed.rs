//! The manager in a registry of fixed capacity: what [`Capacity::managed`] promises fits, and when more does not, what is
//! there can be ended.

use super::*;
use crate::epoch::slots::{SingleCore, Slots};
use crate::error::Error;
use crate::fixed::{Capacity, StaticRegistry};
use crate::region::Blocks;

const OBJECTS: usize = 150;
const USERPTRS: usize = 40;
const BYTES: usize = Capacity::objects(OBJECTS).userptrs(USERPTRS).node_lists(8).managed(2).bytes();

type Fixed = StaticRegistry<BYTES, 2, SingleCore>;
type FixedManager = Manager<'static, Fake, Slots<2, SingleCore>, Blocks>;

/// In place of a `static` of each test's own.
fn registry() -> &'static Fixed {
    // SAFETY: each test keeps its registry on one thread.
    Box::leak(Box::new(StaticRegistry::new(unsafe { SingleCore::new() })))
}

fn start(registry: &'static Fixed, bench: &Bench) -> FixedManager {
    let writer = registry.writer(bench.page).unwrap();
    let mut manager = Manager::new(Fake::new(bench.apertures()), writer, bench.opened).unwrap();
    bench.with_nodes(|nodes| manager.set_up(nodes, &bench.options)).unwrap();
    manager
}

/// One of the things a caller has.
#[derive(Clone, Copy)]
enum Thing {
    Memory(usize),
    Userptr(usize),
}

fn make(m: &mut FixedManager, n: usize) -> Result<Thing> {
    if n % 4 == 3 {
        let address = A + n * 3 * P + 5;
        m.register(range(address, 2 * P + n)).map(|()| Thing::Userptr(address))
    } else {
        let flags = if n % 4 == 2 { MemFlags::HOST_ACCESS } else { VRAM };
        m.allocate(if n.is_multiple_of(2) { G1 } else { G2 }, (1 + n % 5) * P, 0, flags, 0).map(Thing::Memory)
    }
}

fn end(m: &mut FixedManager, thing: Thing) -> Result<()> {
    match thing {
        Thing::Memory(address) => m.unmap(address).and_then(|()| m.free(address)),
        Thing::Userptr(address) => m.unmap(address).and_then(|()| m.deregister(address)),
    }
}

fn map(m: &mut FixedManager, thing: Thing) -> Result<()> {
    let (Thing::Memory(address) | Thing::Userptr(address)) = thing;
    m.map(address, 0).map(drop)
}

#[test]
fn the_capacity_fits_whatever_comes_and_goes() {
    for bench in [Bench::new(), Bench::reserved()] {
        let registry = registry();
        let mut m = start(registry, &bench);
        let mut things: Vec<Thing> = Vec::new();
        for round in 0..6 {
            for n in things.len()..OBJECTS {
                let thing = make(&mut m, round * OBJECTS + n).unwrap();
                map(&mut m, thing).unwrap();
                things.push(thing);
            }
            assert_eq!(m.writer().snapshot().iter().count(), OBJECTS + 2, "and a page per GPU");
            // Every second, every third, ... goes, from either end.
            let keep = 2 + round;
            let gone: Vec<Thing> =
                things.iter().copied().enumerate().filter(|(n, _)| n % keep != 0).map(|it| it.1).collect();
            things = things.iter().copied().enumerate().filter(|(n, _)| n % keep == 0).map(|it| it.1).collect();
            gone.into_iter().for_each(|thing| end(&mut m, thing).unwrap());
        }
        m.tear_down();
        assert!(m.driver().kernel.bos.is_empty() && m.driver().kernel.reserved.is_empty());
        drop(m);
        assert!(registry.writer(bench.page).is_ok(), "all memory came back");
    }
}

#[test]
fn full_is_an_error_and_everything_can_be_ended() {
    for bench in [Bench::new(), Bench::reserved()] {
        let registry = registry();
        let mut m = start(registry, &bench);
        let mut things = Vec::new();
        let error = loop {
            let before = (m.writer().snapshot().iter().count(), m.driver().kernel.bos.len());
            match make(&mut m, things.len()) {
                Ok(thing) => things.push(thing),
                Err(error) => {
                    let after = (m.writer().snapshot().iter().count(), m.driver().kernel.bos.len());
                    assert_eq!(before, after, "a verb that failed changed something");
                    break error;
                }
            }
        };
        assert_eq!(error, Error::NoMemory);
        assert!(things.len() >= OBJECTS, "{} fit", things.len());
        // A device that refuses once: taken out and put back, with what was kept in hand.
        m.driver.arm(Fail::At(1, 0));
        let first = things[0];
        assert_eq!(end(&mut m, first), Err(Error::Failed));
        m.driver.arm(Fail::Never);
        for thing in things {
            end(&mut m, thing).unwrap();
        }
        assert_eq!(m.writer().snapshot().iter().count(), 2);
    }
}

#[test]
fn a_reader_sees_what_the_manager_made() {
    let (registry, bench) = (registry(), Bench::new());
    let mut m = start(registry, &bench);
    let address = m.allocate(G1, P, 0, VRAM, 0).unwrap();
    m.set_user_data(address, 7).unwrap();
    assert_eq!(registry.query_pointer(address + 5, |info| info.unwrap().user_data), Some(7));
}

/// With the constants that ship: an object's bytes must not grow with the number of objects.
#[test]
fn the_bytes_of_an_object_stay_below_a_bound() {
    for objects in [250, 500, 1000, 10_000, 100_000] {
        let bytes = Capacity::objects(objects).managed(2).bytes();
        assert!(bytes < 60_000 + 800 * objects, "{bytes} bytes for {objects} objects");
    }
}
