//! Opening, acquiring, closing; secondary contexts.
//!
//! An acquired GPU stays acquired and a cache policy stays set, whatever fails afterwards: the kernel has no call that
//! takes either back, and asking for them again is allowed.

use hsakmt_core::flags::MemFlags;

use super::super::bench::{Bench, Given, PAGE};
use super::super::setting::Setting;
use super::{CPU, Verb};

/// What of a set-up stays: the kernel's settings of each GPU, and (of the real channel) the render nodes that it knows
/// them by. A GPU acquired through one opening of its render node is refused to another.
const KEPT: &[(&str, &str)] = &[("kernel: process", "set GPU"), ("file: ", ".render.")];

pub(super) fn verbs(setting: &Setting) -> Vec<Verb> {
    let gpus = setting.gpus as u64;
    let svm = if setting.old_apu() { 0 } else { gpus };
    let set_up = [("apertures", 1), ("acquire_vm", gpus), ("policy", svm), ("alloc", svm), ("mmap", svm), ("map", svm)];
    let with = |more: &[(&'static str, u64)]| [more, &set_up].concat();
    let open = |bench: &Bench| {
        bench.context.release_system_properties();
        bench.open().map(|()| Given::default())
    };
    // Without a topology an opening makes no apertures.
    let unknown = |bench: &Bench| {
        bench.context.release_system_properties();
        Ok(Given::default())
    };
    let furnish = |bench: &Bench| bench.furnish().map(|()| Given::default());
    let mut acquire =
        Verb::new("acquire", &set_up, open, |bench, _| bench.context.acquire_system_properties().map(drop));
    acquire.stays = KEPT;
    let closed = |bench: &Bench| {
        bench.furnish()?;
        bench.context.close()?;
        Ok(Given::default())
    };
    let unmapped = if setting.dgpu() { 2 } else { 0 };
    let mut verbs = vec![
        Verb::new("open", &[("open", 1), ("version", 1)], unknown, |bench, _| bench.open()),
        acquire,
        Verb::new("open again", &with(&[("open", 1), ("version", 1)]), closed, |bench, _| bench.open()),
        Verb::new("close", &[("unmap", unmapped), ("free", unmapped)], furnish, |bench, _| bench.context.close()),
    ];
    // The primary context has all the addresses that may be reserved.
    if setting.reserved() {
        return verbs;
    }
    let second = |bench: &Bench| {
        bench.furnish()?;
        bench.open_secondary()?;
        let at = bench.second().allocate(CPU, PAGE, MemFlags::HOST_ACCESS)?;
        bench.second().map(at, PAGE)?;
        Ok(Given::default())
    };
    verbs.extend([
        Verb::new(
            "open secondary",
            &with(&[("open", 1), ("version", 1), ("create_process", 1)]),
            furnish,
            |bench, _| bench.open_secondary(),
        ),
        Verb::new("close secondary", &[("unmap", unmapped / 2), ("free", unmapped / 2)], second, |bench, _| {
            bench.close_secondary()
        }),
    ]);
    verbs
}
