//! What is counted: 1,000 look-ups (or writes) in a function of its own; making the objects is not counted.
//!
//! | name | way |
//! |---|---|
//! | `walk` | a snapshot that is held: the walk alone |
//! | `session` | the core's reader, one session for all (crossbeam-epoch) |
//! | `one_shot` | the process's context, entered for each (slots) |
//! | `c_entry` | `hsaKmtQueryPointerInfo` |
//! | `miss`, `userptr` | a session, between and inside userptrs; 1,000 buffers beside them |
//! | `c_beside_100` | `hsaKmtQueryPointerInfo` on 1,000 buffers beside 100 userptrs: inside a buffer, inside a userptr, between userptrs |
//! | `set_user_data` | `hsaKmtSetMemoryUserData` |

#![allow(missing_docs, reason = "iai-callgrind's macros make public items")]

use std::hint::black_box;
use std::mem::{ManuallyDrop, MaybeUninit};

use hsakmt_benches::workload::{OpenContext, Scene, c_query, c_set_user_data};
use hsakmt_core::epoch::crossbeam::Crossbeam;
use hsakmt_core::info::PointerInfo;
use hsakmt_core::reader::Reader;
use iai_callgrind::{Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};

/// How often each function does what it does.
const LOOK_UPS: usize = 1_000;

/// The core alone: what to ask for, and who asks.
struct Core {
    /// Held for its objects.
    _scene: Scene,
    reader: Reader<'static, Crossbeam>,
    list: Vec<usize>,
}

fn core(buffers: usize, userptrs: usize, pick: fn(&Scene) -> &Vec<usize>) -> Core {
    let scene = Scene::new(buffers, userptrs).expect("the simulated machine makes them");
    let list = pick(&scene).iter().copied().take(LOOK_UPS).collect();
    Core { reader: scene.reader(), _scene: scene, list }
}

fn hits(buffers: usize) -> Core {
    core(buffers, 0, |scene| &scene.addresses.hits)
}

fn between(userptrs: usize) -> Core {
    core(1_000, userptrs, |scene| &scene.addresses.misses)
}

fn inside(userptrs: usize) -> Core {
    core(1_000, userptrs, |scene| &scene.addresses.userptrs)
}

/// The process's context. The first look-up, which registers the thread, is not counted.
fn process(buffers: usize) -> OpenContext {
    let open = OpenContext::new(buffers, 0).expect("the simulated machine makes them");
    assert_eq!(c_query(open.addresses.hits[0], &mut MaybeUninit::uninit()), 0, "a hit");
    open
}

#[inline(always)]
fn used(info: &PointerInfo<'_>) -> u64 {
    black_box(info.gpu_address.wrapping_add(info.size).wrapping_add(info.mapped.len() as u64))
}

#[inline(always)]
fn by_session(core: &mut Core) {
    let mut session = core.reader.session();
    for address in &core.list {
        if let Ok(info) = session.query_pointer(*address) {
            used(&info);
        }
    }
}

// Each function returns what it was given, so that taking it apart is not counted; nor done, since under callgrind that is
// seconds for 100,000 objects.

#[library_benchmark(setup = hits)]
#[bench::of_1k(1_000)]
#[bench::of_100k(100_000)]
fn walk(mut core: Core) -> ManuallyDrop<Core> {
    let mut session = core.reader.session();
    if let Ok(snapshot) = session.snapshot() {
        for address in &core.list {
            used(&snapshot.query_pointer(black_box(*address)));
        }
    }
    drop(session);
    ManuallyDrop::new(core)
}

#[library_benchmark(setup = hits)]
#[bench::of_1k(1_000)]
#[bench::of_100k(100_000)]
fn session(mut core: Core) -> ManuallyDrop<Core> {
    by_session(&mut core);
    ManuallyDrop::new(core)
}

#[library_benchmark(setup = between)]
#[bench::of_1k(1_000)]
#[bench::of_100k(100_000)]
fn miss(mut core: Core) -> ManuallyDrop<Core> {
    by_session(&mut core);
    ManuallyDrop::new(core)
}

#[library_benchmark(setup = inside)]
#[bench::of_1k(1_000)]
#[bench::of_100k(100_000)]
fn userptr(mut core: Core) -> ManuallyDrop<Core> {
    by_session(&mut core);
    ManuallyDrop::new(core)
}

#[library_benchmark(setup = process)]
#[bench::of_1k(1_000)]
#[bench::of_100k(100_000)]
fn one_shot(open: OpenContext) -> ManuallyDrop<OpenContext> {
    for address in open.addresses.hits.iter().take(LOOK_UPS) {
        black_box(open.context.query_pointer(*address, |info| used(&info)).is_ok());
    }
    ManuallyDrop::new(open)
}

#[library_benchmark(setup = process)]
#[bench::of_1k(1_000)]
#[bench::of_100k(100_000)]
fn c_entry(open: OpenContext) -> ManuallyDrop<OpenContext> {
    let mut info = MaybeUninit::uninit();
    for address in open.addresses.hits.iter().take(LOOK_UPS) {
        black_box((c_query(*address, &mut info), &mut info));
    }
    ManuallyDrop::new(open)
}

/// The process's context with 1,000 buffers and 100 userptrs, and what to ask for.
struct Beside {
    /// Held for its objects.
    _open: OpenContext,
    list: Vec<usize>,
}

fn beside(pick: fn(&OpenContext) -> &Vec<usize>) -> Beside {
    let open = OpenContext::new(1_000, 100).expect("the simulated machine makes them");
    assert_eq!(c_query(open.addresses.hits[0], &mut MaybeUninit::uninit()), 0, "a hit");
    Beside { list: pick(&open).iter().copied().take(LOOK_UPS).collect(), _open: open }
}

#[library_benchmark(setup = beside)]
#[bench::hit(|open| &open.addresses.hits)]
#[bench::userptr(|open| &open.addresses.userptrs)]
#[bench::miss(|open| &open.addresses.misses)]
fn c_beside_100(asked: Beside) -> ManuallyDrop<Beside> {
    let mut info = MaybeUninit::uninit();
    for address in &asked.list {
        black_box((c_query(*address, &mut info), &mut info));
    }
    ManuallyDrop::new(asked)
}

// The same eight again and again.
#[library_benchmark(setup = process)]
#[bench::of_1k(1_000)]
#[bench::of_100k(100_000)]
fn repeated(open: OpenContext) -> ManuallyDrop<OpenContext> {
    let mut info = MaybeUninit::uninit();
    for address in open.addresses.hits.iter().take(8).cycle().take(LOOK_UPS) {
        black_box((c_query(*address, &mut info), &mut info));
    }
    ManuallyDrop::new(open)
}

#[library_benchmark(setup = process)]
#[bench::of_1k(1_000)]
#[bench::of_100k(100_000)]
fn set_user_data(open: OpenContext) -> ManuallyDrop<OpenContext> {
    for (value, address) in open.addresses.starts.iter().take(LOOK_UPS).enumerate() {
        black_box(c_set_user_data(*address, value));
    }
    ManuallyDrop::new(open)
}

library_benchmark_group!(
    name = all;
    benchmarks = walk, session, one_shot, c_entry, c_beside_100, repeated, miss, userptr, set_user_data
);

// Instructions only: simulating caches would make the run several times longer and say nothing more.
main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"]));
    library_benchmark_groups = all
);
