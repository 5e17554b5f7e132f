//! Making, mapping and ending memory on a machine with discrete GPUs; scratch.

use hsakmt_core::error::Result;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::NodeId;

use super::super::bench::{Bench, Given, PAGE};
use super::super::setting::Setting;
use super::super::strike::PART;
use super::{CPU, GPU, OTHER, Points, Verb, reserve};

const HOST: MemFlags = MemFlags::HOST_ACCESS;
const VRAM: MemFlags = MemFlags::NON_PAGED;
const SIZE: usize = 0x1_0000;

pub(super) fn verbs(setting: &Setting) -> Vec<Verb> {
    let mut verbs = allocations(setting);
    verbs.extend(maps());
    verbs.extend(scratch(setting));
    verbs
}

/// What there is to allocate: name, node, flags, how many calls it takes besides the addresses.
fn kinds() -> Vec<(&'static str, NodeId, MemFlags, Points<'static>)> {
    const ALL: Points<'static> = &[("alloc", 1), ("mmap", 1)];
    const UNSEEN: Points<'static> = &[("alloc", 1)];
    vec![
        ("VRAM", GPU, VRAM, ALL),
        ("visible VRAM", GPU, VRAM | HOST, ALL),
        ("VRAM for an AQL ring", GPU, VRAM | HOST | MemFlags::AQL_QUEUE_MEMORY, ALL),
        ("VRAM without an address", GPU, VRAM | MemFlags::NO_ADDRESS, UNSEEN),
        ("an address", GPU, VRAM | MemFlags::ONLY_ADDRESS, &[]),
        ("a coarse address", CPU, MemFlags::ONLY_ADDRESS | MemFlags::COARSE_GRAIN, &[]),
        ("paged memory", CPU, HOST, ALL),
        ("coarse paged memory", CPU, HOST | MemFlags::COARSE_GRAIN, ALL),
        ("paged memory for an AQL ring", GPU, HOST | MemFlags::AQL_QUEUE_MEMORY, ALL),
        ("GTT memory", CPU, VRAM | HOST, ALL),
        ("unseen GTT memory", CPU, VRAM, UNSEEN),
        ("GTT memory of a GPU", GPU, VRAM | HOST | MemFlags::GTT_ACCESS, ALL),
    ]
}

fn allocations(setting: &Setting) -> Vec<Verb> {
    let addresses = reserve(setting);
    let mut verbs = Vec::new();
    for (name, node, flags, points) in kinds() {
        let own = if flags.contains(MemFlags::NO_ADDRESS) { 0 } else { addresses };
        let points = [points, &[("reserve", own)]].concat();
        let furnish = |bench: &Bench| bench.furnish().map(|()| Given::default());
        verbs.push(Verb::new(format!("allocate {name}"), &points, furnish, move |bench, _| {
            bench.context.allocate(node, SIZE, flags).map(drop)
        }));
        let frees = if flags.contains(MemFlags::ONLY_ADDRESS) { 0 } else { 1 };
        let made = move |bench: &Bench| bench.context.allocate(node, SIZE, flags);
        verbs.push(Verb::at(format!("free {name}"), &[("free", frees)], made, |bench, at| bench.context.free(at)));
    }
    let all = [("reserve", addresses), ("alloc", 1), ("mmap", 1)];
    let furnish = |bench: &Bench| bench.furnish().map(|()| Given::default());
    verbs.push(Verb::new("allocate aligned VRAM", &all, furnish, |bench, _| {
        bench.context.allocate_aligned(GPU, SIZE, 1 << 22, VRAM).map(drop)
    }));
    for (name, node, flags) in [("VRAM", GPU, VRAM), ("paged memory", CPU, HOST)] {
        let free = move |bench: &Bench| {
            let at = bench.context.allocate(node, SIZE, flags)?;
            bench.context.free(at).map(|()| at)
        };
        verbs.push(Verb::at(format!("allocate {name} there"), &all, free, move |bench, at| {
            bench.context.allocate_at(node, at, SIZE, flags).map(drop)
        }));
    }
    verbs
}

/// VRAM, mapped on these nodes.
fn mapped_on(bench: &Bench, nodes: &[NodeId]) -> Result<usize> {
    let at = bench.context.allocate(GPU, SIZE, VRAM)?;
    if !nodes.is_empty() {
        bench.context.map_nodes(at, SIZE, nodes)?;
    }
    Ok(at)
}

fn maps() -> Vec<Verb> {
    let lists: [&'static [NodeId]; 4] = [&[], &[GPU], &[OTHER, GPU], &[GPU, GPU]];
    let mut verbs = Vec::new();
    for first in lists {
        let made = move |bench: &Bench| mapped_on(bench, first);
        let map = |bench: &Bench, at| bench.context.map(at, SIZE).map(drop);
        verbs.push(Verb::at(format!("map what is mapped on {first:?}"), &[("map", 1)], made, map));
        let off = u64::from(!first.is_empty());
        let unmap = |bench: &Bench, at| bench.context.unmap(at);
        verbs.push(Verb::at(format!("unmap what is mapped on {first:?}"), &[("unmap", off)], made, unmap));
    }
    let changes: [(&'static [NodeId], &'static [NodeId], Points<'static>); 4] = [
        (&[], &[GPU, OTHER], &[("map", 1), (PART, 1)]),
        (&[GPU], &[OTHER], &[("unmap", 1), ("map", 1)]),
        (&[OTHER], &[GPU, OTHER], &[("map", 1)]),
        (&[GPU, OTHER], &[OTHER], &[("unmap", 1)]),
    ];
    for (first, then, points) in changes {
        let made = move |bench: &Bench| mapped_on(bench, first);
        verbs.push(Verb::at(format!("map on {then:?} what is on {first:?}"), points, made, move |bench, at| {
            bench.context.map_nodes(at, SIZE, then).map(drop)
        }));
    }
    verbs
}

/// A scratch range with pieces at these pages.
fn filled(bench: &Bench, pages: &[usize]) -> Result<usize> {
    let at = bench.context.allocate(GPU, 2 * SIZE, MemFlags::SCRATCH)?;
    for page in pages {
        bench.context.map(at + page * PAGE, PAGE)?;
    }
    Ok(at)
}

fn scratch(setting: &Setting) -> Vec<Verb> {
    let furnish = |bench: &Bench| bench.furnish().map(|()| Given::default());
    let range = [("reserve", reserve(setting)), ("scratch", 1)];
    let piece = [("alloc", 1), ("mmap", 1), ("map", 1)];
    vec![
        Verb::new("allocate scratch", &range, furnish, |bench, _| filled(bench, &[]).map(drop)),
        Verb::at("map scratch", &piece, |bench| filled(bench, &[5]), |bench, at| bench.context.map(at, PAGE).map(drop)),
        Verb::at(
            "unmap scratch",
            &[("unmap", 1), ("free", 1)],
            |bench| filled(bench, &[5, 0, 7]),
            |bench, at| bench.context.unmap(at),
        ),
        Verb::at(
            "free scratch",
            &[("unmap", 3), ("free", 3)],
            |bench| filled(bench, &[5, 0, 7]),
            |bench, at| bench.context.free(at),
        ),
        Verb::at(
            "export scratch",
            &[("dmabuf_export", 1)],
            |bench| filled(bench, &[0]),
            |bench, at| {
                let (file, _) = bench.context.export_dmabuf(at, PAGE)?;
                bench.keep(file);
                Ok(())
            },
        ),
    ]
}
