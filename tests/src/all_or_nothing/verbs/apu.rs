//! A machine whose GPU shares a node with the CPU cores, and one without a GPU: host memory is the process's own.

use hsakmt_core::error::Result;
use hsakmt_core::flags::MemFlags;

use super::super::bench::{Bench, Given};
use super::super::setting::Setting;
use super::{CPU, Points, Verb};
use crate::promise;

const HOST: MemFlags = MemFlags::HOST_ACCESS;
const SIZE: usize = 0x1_0000;

pub(super) fn verbs(setting: &Setting) -> Vec<Verb> {
    let mut verbs = Vec::new();
    for (name, flags) in [("host memory", HOST), ("an address", HOST | MemFlags::ONLY_ADDRESS)] {
        let furnish = |bench: &Bench| bench.furnish().map(|()| Given::default());
        verbs.push(Verb::new(format!("allocate {name}"), &[("mmap", 1)], furnish, move |bench, _| {
            bench.context.allocate(CPU, SIZE, flags).map(drop)
        }));
        let made = move |bench: &Bench| bench.context.allocate(CPU, SIZE, flags);
        verbs.push(Verb::at(format!("free {name}"), &[], made, |bench, at| bench.context.free(at)));
    }
    if setting.gpus > 0 {
        verbs.extend(of_its_gpu(setting));
    }
    verbs
}

/// Memory of the GPU: in addresses of its own, or in SVM.
fn of_its_gpu(setting: &Setting) -> Vec<Verb> {
    let seen = u64::from(!setting.old_apu());
    let vram = |bench: &Bench| bench.context.allocate(CPU, SIZE, MemFlags::NON_PAGED);
    let mapped = move |bench: &Bench| {
        let at = vram(bench)?;
        bench.context.map(at, SIZE).map(|_| at)
    };
    let scratch = |bench: &Bench| bench.context.allocate(CPU, SIZE, MemFlags::SCRATCH);
    let furnish = |bench: &Bench| bench.furnish().map(|()| Given::default());
    let nothing: Points<'static> = &[];
    let mut verbs = vec![
        Verb::new("allocate VRAM", &[("alloc", 1), ("reserve", seen), ("mmap", seen)], furnish, move |bench, _| {
            vram(bench).map(drop)
        }),
        Verb::new("allocate VRAM without an address", &[("alloc", 1)], furnish, |bench, _| {
            bench.context.allocate(CPU, SIZE, MemFlags::NON_PAGED | MemFlags::NO_ADDRESS).map(drop)
        }),
        Verb::at("free VRAM", &[("free", 1)], vram, |bench, at| bench.context.free(at)),
        Verb::at("map VRAM", &[("map", 1)], vram, |bench, at| bench.context.map(at, SIZE).map(drop)),
        Verb::at("unmap VRAM", &[("unmap", 1)], mapped, |bench, at| bench.context.unmap(at)),
        Verb::new("allocate scratch", &[("mmap", 1), ("scratch", 1)], furnish, move |bench, _| {
            scratch(bench).map(drop)
        }),
        Verb::at("free scratch", nothing, scratch, |bench, at| bench.context.free(at)),
        Verb::at("share VRAM", &[("ipc_export", 1)], vram, |bench, at| bench.context.share(at, SIZE).map(drop)),
        Verb::at("export VRAM", &[("dmabuf_export", 1)], vram, |bench, at| {
            let (file, _) = bench.context.export_dmabuf(at, SIZE)?;
            bench.keep(file);
            Ok(())
        }),
    ];
    verbs.extend(imports(seen, vram));
    verbs
}

fn imports(seen: u64, vram: impl Fn(&Bench) -> Result<usize> + Copy + 'static) -> Vec<Verb> {
    let exported = move |bench: &Bench| {
        bench.furnish()?;
        let at = vram(bench)?;
        let (file, _) = bench.context.export_dmabuf(at, SIZE)?;
        bench.keep(file);
        Ok(Given { at, file, ..Given::default() })
    };
    let shared = move |bench: &Bench| {
        bench.furnish()?;
        let at = vram(bench)?;
        Ok(Given { at, handle: bench.context.share(at, SIZE)?, ..Given::default() })
    };
    let graphics = [("dmabuf_info", 1), ("reserve", seen), ("dmabuf_import", 1)];
    let mut verbs = vec![Verb::new("import graphics", &graphics, exported, |bench, given| {
        bench.context.register_graphics(promise::lent(given.file), Some(&[CPU]), false).map(drop)
    })];
    // The CPU is to see what comes by a name, which it cannot in an old APU's aperture.
    if seen > 0 {
        let calls = [("reserve", seen), ("ipc_import", 1), ("mmap", seen)];
        verbs.push(Verb::new("import a name", &calls, shared, |bench, given| {
            bench.context.import_shared(given.handle, None).map(drop)
        }));
    }
    verbs
}
