//! What one look-up costs in this process, by how it is entered and by how many objects there are.
//!
//! `walk` is the walk alone, in a snapshot that is held throughout: what any way of entering can at best come down to.
//! Every look-up is of another object, in a random order, and the answer is used. The crossbeam rows are the core's
//! default domain, the others the process's own slots, which the C interface uses.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use hsakmt_benches::workload::{OpenContext, SIZES, Scene, Walk, c_query};
use hsakmt_core::info::PointerInfo;

criterion_group! {
    name = lookups;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_500))
        .sample_size(30);
    targets = hit, miss, userptr, many
}
criterion_main!(lookups);

/// What a caller does with an answer: looks at it.
#[inline(always)]
fn used(info: &PointerInfo<'_>) -> u64 {
    black_box(info.gpu_address.wrapping_add(info.size).wrapping_add(info.mapped.len() as u64))
}

fn hit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hit");
    for buffers in SIZES {
        let scene = Scene::new(buffers, 0).expect("the simulated machine makes them");
        by_crossbeam(&mut group, buffers, &scene, &scene.addresses.hits);
        let open = OpenContext::new(buffers, 0).expect("the simulated machine makes them");
        by_slots(&mut group, buffers, &open, &open.addresses.hits);
    }
}

fn miss(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("miss");
    for userptrs in SIZES {
        let scene = Scene::new(1_000, userptrs).expect("the simulated machine makes them");
        by_crossbeam(&mut group, userptrs, &scene, &scene.addresses.misses);
    }
}

fn userptr(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("userptr");
    for userptrs in SIZES {
        let scene = Scene::new(1_000, userptrs).expect("the simulated machine makes them");
        by_crossbeam(&mut group, userptrs, &scene, &scene.addresses.userptrs);
    }
}

/// How many at once.
const MANY: usize = 16;

/// Sixteen independent look-ups: one after the other, and side by side so that their cache misses overlap.
fn many(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("many");
    for buffers in SIZES {
        let scene = Scene::new(buffers, 0).expect("the simulated machine makes them");
        let mut reader = scene.reader();
        let mut session = reader.session();
        let mut batches = scene.addresses.hits.chunks_exact(MANY).cycle();
        group.bench_function(BenchmarkId::new("16 one by one", buffers), |bencher| {
            bencher.iter(|| {
                for address in batches.next().unwrap_or_default() {
                    if let Ok(info) = session.query_pointer(*address) {
                        used(&info);
                    }
                }
            });
        });
        group.bench_function(BenchmarkId::new("16 at once", buffers), |bencher| {
            bencher.iter(|| {
                let mut found = [PointerInfo::UNKNOWN; MANY];
                let asked = session.query_many(batches.next().unwrap_or_default(), &mut found);
                for info in &found {
                    used(info);
                }
                asked
            });
        });
    }
}

type Group<'c> = BenchmarkGroup<'c, WallTime>;

fn by_crossbeam(group: &mut Group<'_>, objects: usize, scene: &Scene, list: &[usize]) {
    let mut reader = scene.reader();
    let mut session = reader.session();
    let mut walk = Walk::new(list);
    group.bench_function(BenchmarkId::new("walk", objects), |bencher| {
        let snapshot = session.snapshot().expect("it is open");
        bencher.iter(|| used(&black_box(&snapshot).query_pointer(walk.step())));
    });
    group.bench_function(BenchmarkId::new("crossbeam session", objects), |bencher| {
        bencher.iter(|| session.query_pointer(walk.step()).map_or(0, |info| used(&info)));
    });
    drop(session);
    group.bench_function(BenchmarkId::new("crossbeam one-shot", objects), |bencher| {
        bencher.iter(|| reader.query_pointer(walk.step(), |info| info.map_or(0, |info| used(&info))));
    });
}

fn by_slots(group: &mut Group<'_>, objects: usize, open: &OpenContext, list: &[usize]) {
    let mut walk = Walk::new(list);
    let mut reader = open.context.reader().expect("there are slots");
    let mut session = reader.session();
    group.bench_function(BenchmarkId::new("slots session", objects), |bencher| {
        bencher.iter(|| session.query_pointer(walk.step()).map_or(0, |info| used(&info)));
    });
    group.bench_function(BenchmarkId::new("Context one-shot", objects), |bencher| {
        bencher.iter(|| open.context.query_pointer(walk.step(), |info| used(&info)));
    });
    group.bench_function(BenchmarkId::new("C entry", objects), |bencher| {
        let mut info = MaybeUninit::uninit();
        bencher.iter(|| black_box((c_query(walk.step(), &mut info), &mut info)).0);
    });
}
