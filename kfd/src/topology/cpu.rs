//! The CPU side, from the host's own files: names and APIC ids, caches, NUMA nodes.
//!
//! Everything here is optional. A machine that does not say something (no caches in sysfs, no `model name` on ARM) has
//! nodes without it; nothing is an error.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Cache, files};

/// What `/proc/cpuinfo` says about one processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Processor {
    /// Its id in the interrupt controller.
    pub(super) apic_id: u32,
    /// Its marketing name.
    pub(super) model_name: String,
}

/// The processors of `/proc/cpuinfo`, by number. Where it gives no `apicid` (ARM, RISC-V, LoongArch, POWER) each has id 0.
pub(super) fn processors(cpuinfo: &str) -> BTreeMap<u32, Processor> {
    let mut processors = BTreeMap::new();
    let mut current = 0;
    for line in cpuinfo.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match key.trim_end() {
            "processor" => {
                current = value.parse().unwrap_or(0);
                processors.entry(current).or_insert_with(Processor::default);
            }
            "model name" => processors.entry(current).or_insert_with(Processor::default).model_name = value.into(),
            "apicid" => {
                processors.entry(current).or_insert_with(Processor::default).apic_id = value.parse().unwrap_or(0);
            }
            _ => {}
        }
    }
    processors
}

/// Numbers behind `prefix` among a directory's names, in the directory's order: `cpu0`, `cpu1` ... for `cpu`.
fn numbered(directory: &Path, prefix: &str) -> Vec<u32> {
    let names = files::names(directory).unwrap_or_else(|error| {
        log::debug!("{}: {error}", directory.display());
        Vec::new()
    });
    names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect()
}

/// How many NUMA nodes the machine has, counted up to the highest number; 1 where the kernel knows none.
pub fn numa_nodes() -> u32 {
    let nodes = numbered(Path::new("/sys/devices/system/node"), "node");
    nodes.iter().max().map_or(1, |last| last.saturating_add(1))
}

/// The caches of a CPU node, each listed once, at the first processor that has it. Processors come in the directory's
/// order, as in C, which need not be that of their numbers. `system` is `/sys/devices/system`.
pub(super) fn caches(system: &Path, node: u32, processors: &BTreeMap<u32, Processor>) -> Vec<Cache> {
    let mut directory = system.join(format!("node/node{node}"));
    let mut cpus = numbered(&directory, "cpu");
    if cpus.is_empty() && node == 0 {
        // A kernel without NUMA has no node directory.
        directory = system.join("cpu");
        cpus = numbered(&directory, "cpu");
    }
    let mut caches = Vec::new();
    for cpu in cpus {
        let cache = directory.join(format!("cpu{cpu}/cache"));
        let mut indexes = numbered(&cache, "index");
        indexes.sort_unstable();
        for index in indexes {
            caches.extend(one_cache(&cache.join(format!("index{index}")), cpu, processors));
        }
    }
    caches
}

/// One `index<n>` directory; `None` if another processor lists the cache.
fn one_cache(directory: &Path, cpu: u32, processors: &BTreeMap<u32, Processor>) -> Option<Cache> {
    let text = |name: &str| files::read_optional(&directory.join(name), files::ATTRIBUTE);
    let number = |name: &str| leading_number(&text(name)).unwrap_or(0);
    // "0-3,8": the first of them lists it.
    if leading_number(&text("shared_cpu_list")).is_some_and(|first| first != cpu) {
        return None;
    }
    let kind = match text("type").trim() {
        "Data" => Cache::DATA,
        "Instruction" => Cache::INSTRUCTION,
        "Unified" => Cache::DATA | Cache::INSTRUCTION,
        _ => 0,
    };
    Some(Cache {
        processor_id_low: processors.get(&cpu).map_or(0, |processor| processor.apic_id),
        level: number("level"),
        size: size(&text("size")),
        line_size: number("coherency_line_size"),
        lines_per_tag: number("physical_line_partition"),
        associativity: number("ways_of_associativity"),
        latency: 0,
        cache_type: kind | Cache::CPU,
        sibling_map: siblings(&text("shared_cpu_map"), processors),
    })
}

/// The decimal number a text starts with.
fn leading_number(text: &str) -> Option<u32> {
    let text = text.trim_start();
    let end = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// A size with a unit, in bytes: `48K`.
fn size(text: &str) -> u32 {
    let shift = match text.trim().chars().last() {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        _ => 0,
    };
    leading_number(text).map_or(0, |number| number.wrapping_shl(shift))
}

/// A map of processors (`...,000000ff,00000003`, 32 in each group, the first 32 in the last) as one of APIC ids. A processor
/// that cpuinfo does not have has id 0, as in C.
fn siblings(map: &str, processors: &BTreeMap<u32, Processor>) -> Vec<u32> {
    let mut siblings = Vec::new();
    for (group, base) in map.trim().rsplit(',').zip((0u32..).step_by(32)) {
        let bits = u32::from_str_radix(group.trim(), 16).unwrap_or(0);
        for bit in (0..32).filter(|bit| bits >> bit & 1 != 0) {
            let place = processors.get(&(base + bit)).map_or(0, |processor| processor.apic_id as usize);
            if place >= Cache::SIBLINGS {
                log::warn!("APIC id {place} does not fit in a cache's sibling map");
                continue;
            }
            if siblings.len() <= place {
                siblings.resize(place + 1, 0);
            }
            if let Some(sibling) = siblings.get_mut(place) {
                *sibling = 1;
            }
        }
    }
    siblings
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "\
processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: A CPU: with a colon
apicid\t\t: 4

processor\t: 33
model name\t: Another
apicid\t\t: 300
";

    #[test]
    fn cpuinfo_gives_names_and_apic_ids() {
        let found = processors(CPUINFO);
        assert_eq!(found[&0], Processor { apic_id: 4, model_name: "A CPU: with a colon".into() });
        assert_eq!(found[&33], Processor { apic_id: 300, model_name: "Another".into() });
        assert_eq!(processors("no colon here\nprocessor : x\napicid : y\n").len(), 1);
    }

    #[test]
    fn sibling_maps_are_by_apic_id() {
        let found = processors(CPUINFO);
        assert_eq!(siblings("00000000,00000001\n", &found), [0, 0, 0, 0, 1]);
        // Processor 33's APIC id is beyond the map. Processor 1 is not in cpuinfo: its id counts as 0.
        assert_eq!(siblings("2,2", &found), [1]);
        assert!(siblings("", &found).is_empty());
        assert!(siblings("zz", &found).is_empty());
    }

    #[test]
    fn case_92_without_apic_ids_all_processors_have_id_0() {
        for cpuinfo in [
            "processor\t: 0\nBogoMIPS\t: 50.00\nCPU part\t: 0xd0c\n\nprocessor\t: 1\nBogoMIPS\t: 50.00\n",
            "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\n\nprocessor\t: 1\nhart\t\t: 0\n",
            "system type\t\t: generic-loongson-machine\n\nprocessor\t\t: 0\nModel Name\t\t: Loongson-3A6000\n\nprocessor\t\t: 1\n",
            "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800.000000MHz\n\nprocessor\t: 1\n",
            "",
        ] {
            let found = processors(cpuinfo);
            assert_eq!(found.len(), if cpuinfo.is_empty() { 0 } else { 2 }, "{cpuinfo}");
            assert_eq!(siblings("3", &found), [1], "{cpuinfo}");
            assert_eq!(siblings("2", &found), [1], "{cpuinfo}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("48K\n"), 48 << 10);
        assert_eq!(size("2M"), 2 << 20);
        assert_eq!(size("512"), 512);
        assert_eq!(size("x"), 0);
    }

    #[test]
    fn this_machine_lists_each_cache_once() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let found = caches(Path::new("/sys/devices/system"), 0, &processors(&text));
        assert!(found.iter().all(|cache| cache.cache_type & Cache::CPU != 0));
        assert!(numa_nodes() >= 1);
    }
}
