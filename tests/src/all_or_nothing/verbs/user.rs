//! Host memory on a machine with discrete GPUs: registered as a userptr, or known to the kernel's SVM.

use hsakmt_core::driver::SvmAttribute;
use hsakmt_core::error::Result;
use hsakmt_core::flags::MemFlags;

use super::super::bench::{Bench, Given, PAGE, host_memory};
use super::super::setting::Setting;
use super::super::strike::PART;
use super::{GPU, OTHER, Points, Verb, reserve};
use crate::promise;

/// More than one buffer object holds.
const LARGE: usize = (512 << 30) + (8 << 20);

/// The range that is registered: not whole pages.
const LENGTH: usize = 2 * PAGE + 17;

pub(super) fn verbs(setting: &Setting) -> Vec<Verb> {
    let mut verbs = vec![];
    if setting.svm && !setting.svm_fails {
        verbs.extend(known_to_svm());
    } else {
        verbs.extend(registrations(setting));
        verbs.extend(ends());
    }
    if setting.svm {
        verbs.extend(attributes(setting));
    }
    verbs
}

fn range() -> usize {
    host_memory() + 0x123
}

/// A way to register a range: address, size.
type Register = fn(&Bench, usize, usize) -> Result<()>;

/// How a range may be registered.
fn ways() -> [(&'static str, Register); 3] {
    [
        ("register", |bench, at, size| bench.context.register(promise::range(at, size))),
        ("register to nodes", |bench, at, size| {
            bench.context.register_to_nodes(promise::range(at, size), &[OTHER, GPU])
        }),
        ("register with flags", |bench, at, size| {
            bench
                .context
                .register_with_flags(promise::range(at, size), MemFlags::HOST_ACCESS | MemFlags::EXTENDED_COHERENT)
        }),
    ]
}

fn registrations(setting: &Setting) -> Vec<Verb> {
    let asks = u64::from(setting.svm);
    let furnish = |bench: &Bench| bench.furnish().map(|()| Given::default());
    let mut verbs = Vec::new();
    for (name, register) in ways() {
        let points = [("svm", asks), ("reserve", reserve(setting)), ("alloc", 1)];
        verbs.push(Verb::new(name, &points, furnish, move |bench, _| register(bench, range(), LENGTH)));
        let points = [("svm", asks), ("reserve", reserve(setting)), ("alloc", 2)];
        let large = |bench: &Bench| Ok(bench.large_memory(LARGE));
        verbs.push(Verb::at(format!("{name} in two parts"), &points, large, move |bench, at| {
            register(bench, at, LARGE)
        }));
    }
    verbs
}

fn registered(bench: &Bench) -> Result<usize> {
    bench.context.register(promise::range(range(), LENGTH)).map(|()| range())
}

fn registered_to_nodes(bench: &Bench) -> Result<usize> {
    bench.context.register_to_nodes(promise::range(range(), LENGTH), &[OTHER, GPU]).map(|()| range())
}

fn in_two_parts(bench: &Bench) -> Result<usize> {
    let at = bench.large_memory(LARGE);
    bench.context.register(promise::range(at, LARGE)).map(|()| at)
}

fn ends() -> Vec<Verb> {
    let one: Points<'static> = &[("free", 1)];
    let two: Points<'static> = &[("free", 2), ("alloc", 0)];
    let mapped = |bench: &Bench| {
        let at = registered(bench)?;
        bench.context.map(at, LENGTH).map(|_| at)
    };
    let both_mapped = |bench: &Bench| {
        let at = in_two_parts(bench)?;
        bench.context.map(at, LARGE).map(|_| at)
    };
    vec![
        Verb::at("deregister", one, registered, |bench, at| bench.context.deregister(at)),
        Verb::at("free a registration", one, registered, |bench, at| bench.context.free(at)),
        Verb::at("deregister two parts", two, in_two_parts, |bench, at| bench.context.deregister(at)),
        Verb::at("free two parts", two, in_two_parts, |bench, at| bench.context.free(at)),
        Verb::at("map a registration", &[("map", 1), (PART, 1)], registered, |bench, at| {
            bench.context.map(at, LENGTH).map(drop)
        }),
        Verb::at("map a registration to nodes", &[("map", 1), (PART, 1)], registered_to_nodes, |bench, at| {
            bench.context.map_nodes(at, LENGTH, &[GPU]).map(drop)
        }),
        Verb::at("map two parts", &[("map", 2), (PART, 2)], in_two_parts, |bench, at| {
            bench.context.map(at, LARGE).map(drop)
        }),
        Verb::at("unmap a registration", &[("unmap", 1), (PART, 1)], mapped, |bench, at| bench.context.unmap(at)),
        Verb::at("unmap two parts", &[("unmap", 2), (PART, 2)], both_mapped, |bench, at| bench.context.unmap(at)),
    ]
}

/// With the SVM API, registering and mapping are one call each, and no object is made. A registration that is refused
/// goes the other way.
fn known_to_svm() -> Vec<Verb> {
    let furnish = |bench: &Bench| bench.furnish().map(|()| Given::default());
    let mut verbs = Vec::new();
    for (name, register) in ways() {
        verbs.push(Verb::new(name, &[("svm", 1)], furnish, move |bench, _| register(bench, range(), LENGTH)));
    }
    verbs.push(Verb::at("map a registration", &[("svm", 1)], registered, |bench, at| {
        bench.context.map_range(promise::range(at, LENGTH)).map(drop)
    }));
    verbs.push(Verb::at("map a registration to nodes", &[("svm", 1)], registered, |bench, at| {
        bench.context.map_range_nodes(promise::range(at, LENGTH), &[OTHER]).map(drop)
    }));
    verbs
}

/// SVM attributes: the caller's are not written when asking fails.
fn attributes(setting: &Setting) -> Vec<Verb> {
    if setting.svm_fails {
        return Vec::new();
    }
    let furnish = |bench: &Bench| bench.furnish().map(|()| Given::default());
    let access = SvmAttribute { kind: SvmAttribute::ACCESS_IN_PLACE, value: GPU.0 };
    // Asked is whether there is access; the answer's kind says which.
    let question = SvmAttribute { kind: 2, value: GPU.0 };
    let set = move |bench: &Bench| bench.context.set_svm_attributes(promise::range(host_memory(), 2 * PAGE), &[access]);
    let known = move |bench: &Bench| set(bench).map(|()| 0);
    vec![
        Verb::new("set SVM attributes", &[("svm", 1)], furnish, move |bench, _| set(bench)),
        Verb::at("get SVM attributes", &[("svm", 1)], known, move |bench, _| {
            let mut answer = [question];
            let asked = bench.context.svm_attributes(host_memory(), 2 * PAGE, &mut answer);
            assert!(asked.is_ok() || answer == [question], "a failed call wrote its answer");
            asked
        }),
    ]
}
