//! What the write verbs cost without the device, by how many objects there are: growth should be logarithmic.
//!
//! The simulated machine says how long it was busy, and that time is taken away. What is left is the memory manager:
//! deciding, the ledger, copying one path of the tree, publishing, and its share of reclaiming. The simulator's own
//! clock readings (two a call) stay in; `set user data` makes no call and has none.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hsakmt_benches::workload::{BUFFER, OpenContext, SIZES, Scene, Walk, allocate, c_set_user_data, userptr};
use hsakmt_core::error::Result;

criterion_group! {
    name = edits;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_500))
        .sample_size(20);
    targets = verbs, c_entry
}
criterion_main!(edits);

/// A host range that the workload does not register.
const HOST: usize = 0x2000_0000_0000;

fn verbs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("edit");
    for buffers in SIZES {
        let mut scene = Scene::new(buffers, 0).expect("the simulated machine makes them");
        let starts = scene.addresses.starts.clone();
        let mut walk = Walk::new(&starts);
        let mut bench = |name: &str, verb: &mut dyn FnMut(&mut Scene) -> Result<()>| {
            group.bench_function(BenchmarkId::new(name, buffers), |bencher| {
                bencher.iter_custom(|turns| without_device(&mut scene, turns, verb));
            });
        };
        let mut value = 0;
        bench("set user data", &mut |scene| {
            value += 1;
            scene.manager.set_user_data(walk.step(), value)
        });
        bench("unmap + map", &mut |scene| {
            let address = walk.step();
            scene.manager.unmap(address)?;
            scene.manager.map(address, BUFFER).map(drop)
        });
        bench("allocate + map + unmap + free", &mut |scene| {
            let address = allocate(&mut scene.manager)?;
            scene.manager.unmap(address)?;
            scene.manager.free(address)
        });
        bench("register + deregister", &mut |scene| {
            scene.manager.register(userptr(HOST))?;
            scene.manager.deregister(HOST)
        });
    }
}

/// How long `turns` of a verb take, the device's time not counted.
fn without_device(scene: &mut Scene, turns: u64, verb: &mut dyn FnMut(&mut Scene) -> Result<()>) -> Duration {
    let inside = scene.manager.driver().time_inside();
    let begin = Instant::now();
    for _ in 0..turns {
        verb(scene).expect("the verb works");
    }
    let took = begin.elapsed();
    took.saturating_sub(scene.manager.driver().time_inside() - inside)
}

fn c_entry(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("edit");
    for buffers in SIZES {
        let open = OpenContext::new(buffers, 0).expect("the simulated machine makes them");
        let mut walk = Walk::new(&open.addresses.starts);
        let mut value = 0;
        group.bench_function(BenchmarkId::new("set user data, C entry", buffers), |bencher| {
            bencher.iter(|| {
                value += 1;
                c_set_user_data(walk.step(), value)
            });
        });
    }
}
