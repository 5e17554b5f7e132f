//! Giving memory to others and taking theirs, on a machine with discrete GPUs.

use hsakmt_core::error::Result;
use hsakmt_core::flags::MemFlags;

use super::super::bench::{Bench, Given};
use super::super::setting::Setting;
use super::{GPU, OTHER, Points, Verb, reserve};
use crate::promise;

const SIZE: usize = 0x4000;

fn vram(bench: &Bench) -> Result<usize> {
    bench.context.allocate(GPU, SIZE, MemFlags::NON_PAGED | MemFlags::HOST_ACCESS)
}

/// A dmabuf to take over.
fn exported(bench: &Bench) -> Result<Given> {
    bench.furnish()?;
    let at = vram(bench)?;
    let (file, _) = bench.context.export_dmabuf(at, SIZE)?;
    bench.keep(file);
    Ok(Given { at, file, ..Given::default() })
}

/// The same, with more metadata than is asked for at first; behind system calls, where no graphics driver stands beside,
/// with none.
fn described(bench: &Bench) -> Result<Given> {
    let given = exported(bench)?;
    bench.describe(&[7; 100]);
    Ok(given)
}

/// A name to take over.
fn shared(bench: &Bench) -> Result<Given> {
    bench.furnish()?;
    let at = vram(bench)?;
    Ok(Given { at, handle: bench.context.share(at, SIZE)?, ..Given::default() })
}

pub(super) fn verbs(setting: &Setting) -> Vec<Verb> {
    let addresses = reserve(setting);
    let graphics = [("dmabuf_info", 1), ("reserve", addresses), ("dmabuf_import", 1)];
    let import = [("reserve", addresses), ("ipc_import", 1), ("mmap", 1)];
    vec![
        Verb::at("share", &[("ipc_export", 1)], vram, |bench, at| bench.context.share(at, SIZE).map(drop)),
        Verb::at("export", &[("dmabuf_export", 1)], vram, |bench, at| {
            let (file, _) = bench.context.export_dmabuf(at, SIZE)?;
            bench.keep(file);
            Ok(())
        }),
        Verb::new("import graphics", &graphics, exported, |bench, given| {
            bench.context.register_graphics(promise::lent(given.file), Some(&[OTHER, GPU]), false).map(drop)
        }),
        Verb::new("import graphics with much metadata", &graphics, described, |bench, given| {
            bench.context.register_graphics(promise::lent(given.file), Some(&[GPU]), false).map(drop)
        })
        .embedded(&[("dmabuf_info", 2)]),
        Verb::new("import graphics with an address", &graphics, exported, |bench, given| {
            bench.context.register_graphics(promise::lent(given.file), None, true).map(drop)
        }),
        Verb::new(
            "import graphics without an address",
            &[("dmabuf_info", 1), ("dmabuf_import", 1)],
            exported,
            |bench, given| bench.context.register_graphics(promise::lent(given.file), None, false).map(drop),
        ),
        Verb::new("import a name", &import, shared, |bench, given| {
            bench.context.import_shared(given.handle, None).map(drop)
        }),
        Verb::new("import a name for nodes", &import, shared, |bench, given| {
            bench.context.import_shared(given.handle, Some(&[GPU])).map(drop)
        }),
    ]
    .into_iter()
    .chain(imported())
    .collect()
}

/// What becomes of imports: mapped, unmapped, ended.
fn imported() -> Vec<Verb> {
    let graphics = |bench: &Bench| {
        let given = exported(bench)?;
        let taken = bench.context.register_graphics(promise::lent(given.file), Some(&[OTHER, GPU]), false)?;
        Ok(Given { at: taken.address, ..given })
    };
    let named = |bench: &Bench| {
        let given = shared(bench)?;
        Ok(Given { at: bench.context.import_shared(given.handle, None)?.0, ..given })
    };
    let free: Points<'static> = &[("free", 1)];
    let mut verbs = vec![
        Verb::new("deregister graphics", free, graphics, |bench, given| bench.context.deregister(given.at)),
        Verb::new("free graphics", free, graphics, |bench, given| bench.context.free(given.at)),
        Verb::new("deregister a name", free, named, |bench, given| bench.context.deregister(given.at)),
        Verb::new("free a name", free, named, |bench, given| bench.context.free(given.at)),
    ];
    verbs.push(Verb::new("map graphics", &[("map", 1)], graphics, |bench, given| {
        bench.context.map(given.at, SIZE).map(drop)
    }));
    verbs.push(Verb::new("map a name", &[("map", 1)], named, |bench, given| {
        bench.context.map(given.at, SIZE).map(drop)
    }));
    verbs
}
