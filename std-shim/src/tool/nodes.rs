//! `hsakmt nodes`: the machine, as tables or as JSON (`json`).

mod json;

use std::collections::BTreeMap;

use hsakmt_core::error::Error;
use hsakmt_core::node::NodeId;
use hsakmt_kfd::topology::{Cache, EngineId, IoLink, MemoryBank, Node};

use super::args::Options;
use super::channel::Channel;
use super::failure::Failure;
use super::output;

/// A memory bank of a node, and where its addresses begin: 0 for memory without an address of its own.
struct Bank {
    memory: MemoryBank,
    base: u64,
}

/// Runs the command.
pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let channel = Channel::open(options)?;
    if options.json {
        output::note(&channel.says);
        return output::print(&json::text(&channel)?);
    }
    let tables = [
        ("Nodes", nodes(&channel)),
        ("Memory banks and address ranges", banks(&channel)?),
        ("Caches", caches(&channel)),
        ("Links", links(&channel)),
    ];
    let mut text = channel.says.clone();
    for (title, table) in tables {
        text.push_str(&format!("\n\n{title}\n{table}"));
    }
    output::print(&text)
}

/// The banks of a node as the library reports them.
fn banks_of(channel: &Channel, node: &Node) -> Result<Vec<Bank>, Failure> {
    let banks = channel.context.banks(node);
    let banks = banks.map_err(|error: Error| Failure::call("hsaKmtGetNodeMemoryProperties", error))?;
    Ok(banks.iter().map(|bank| Bank { memory: bank.memory, base: bank.base as u64 }).collect())
}

/// "gfx90a": minor and stepping are hexadecimal digits. Nothing for a CPU.
fn gfx(engine: EngineId) -> Option<String> {
    (engine.major != 0).then(|| format!("gfx{}{:x}{:x}", engine.major, engine.minor, engine.stepping))
}

fn nodes(channel: &Channel) -> String {
    const HEADER: [&str; 9] = ["node", "kind", "name", "gpu id", "gfx", "cores", "SIMDs", "render node", "features"];
    let rows: Vec<[String; 9]> = channel.nodes().map(|(id, node)| node_row(id, node)).collect();
    output::table(HEADER, &[0, 3, 5, 6], &rows)
}

fn node_row(id: NodeId, node: &Node) -> [String; 9] {
    let some = |number: u32| if number == 0 { "-".into() } else { number.to_string() };
    let is_gpu = node.gpu_id != 0;
    let kind = match (node.num_cpu_cores > 0, is_gpu) {
        (true, true) => "APU",
        (true, false) => "CPU",
        (false, true) => "GPU",
        (false, false) => "-",
    };
    let name = [&node.marketing_name, &node.amd_name].into_iter().find(|name| !name.is_empty());
    let mut features = Vec::new();
    features.extend(node.svm_api().then_some("SVM"));
    features.extend((is_gpu && node.integrated).then_some("integrated"));
    features.extend((node.hive_id != 0).then_some("XGMI"));
    [
        id.0.to_string(),
        kind.into(),
        name.map_or("-".into(), |name| name.trim().to_owned()),
        if is_gpu { format!("{:#x}", node.gpu_id) } else { "-".into() },
        gfx(node.engine_id).unwrap_or("-".into()),
        some(node.num_cpu_cores),
        some(node.num_f_compute_cores),
        if is_gpu { format!("/dev/dri/renderD{}", node.drm_render_minor) } else { "-".into() },
        if features.is_empty() { "-".into() } else { features.join(", ") },
    ]
}

fn banks(channel: &Channel) -> Result<String, Failure> {
    const HEADER: [&str; 6] = ["node", "heap", "size", "from address", "bus", "clock"];
    let mut rows = Vec::new();
    for (id, node) in channel.nodes() {
        for bank in banks_of(channel, node)? {
            let with = |number: u32, unit| if number == 0 { "-".into() } else { format!("{number} {unit}") };
            rows.push([
                id.0.to_string(),
                heap(bank.memory.heap_type).to_owned(),
                output::bytes(bank.memory.size_in_bytes),
                if bank.base == 0 { "-".into() } else { format!("{:#x}", bank.base) },
                with(bank.memory.width, "bit"),
                with(bank.memory.memory_clock_max, "MHz"),
            ]);
        }
    }
    Ok(output::table(HEADER, &[0, 2, 3, 4, 5], &rows))
}

/// `HSA_HEAPTYPE` in words.
fn heap(kind: u32) -> &'static str {
    match kind {
        0 => "host memory",
        1 => "VRAM the host sees",
        2 => "VRAM",
        3 => "GDS",
        4 => "LDS range",
        5 => "scratch range",
        6 => "SVM range",
        7 => "MMIO page",
        _ => "other",
    }
}

/// Caches of one kind are one row: a GPU has hundreds.
fn caches(channel: &Channel) -> String {
    const HEADER: [&str; 7] = ["node", "level", "holds", "size", "line", "ways", "how many"];
    let mut counts: BTreeMap<(u32, u32, u32, u64, u32, u32), u32> = BTreeMap::new();
    for (id, node) in channel.nodes() {
        for cache in &node.caches {
            let key = (id.0, cache.level, cache.cache_type, size(cache), cache.line_size, cache.associativity);
            *counts.entry(key).or_default() += 1;
        }
    }
    let rows: Vec<[String; 7]> = counts
        .into_iter()
        .map(|((node, level, kind, size, line, ways), count)| {
            [
                node.to_string(),
                format!("L{level}"),
                holds(kind).into(),
                output::bytes(size),
                output::bytes(line.into()),
                ways.to_string(),
                count.to_string(),
            ]
        })
        .collect();
    if rows.is_empty() { "none reported".into() } else { output::table(HEADER, &[0, 3, 4, 5, 6], &rows) }
}

/// Bytes: the kernel reports a GPU's caches in KiB.
fn size(cache: &Cache) -> u64 {
    const GPU: u32 = 1 << 3;
    u64::from(cache.size) * if cache.cache_type & GPU != 0 { 1024 } else { 1 }
}

/// Bit 0 data, bit 1 instructions.
fn holds(kind: u32) -> &'static str {
    match kind & 3 {
        1 => "data",
        2 => "instructions",
        3 => "both",
        _ => "-",
    }
}

fn links(channel: &Channel) -> String {
    const HEADER: [&str; 6] = ["from", "to", "kind", "weight", "bandwidth", "latency"];
    let links = channel.topology.nodes.iter().flat_map(|node| &node.links);
    let rows: Vec<[String; 6]> = links.map(link_row).collect();
    if rows.is_empty() { "none".into() } else { output::table(HEADER, &[0, 1, 3, 4, 5], &rows) }
}

fn link_row(link: &IoLink) -> [String; 6] {
    let range = |least: u32, most: u32, unit: &str| match (least, most) {
        (0, 0) => "-".into(),
        (least, most) if least == most => format!("{most} {unit}"),
        (least, most) => format!("{least}-{most} {unit}"),
    };
    let kind = match link.link_type {
        2 => "PCI Express".into(),
        5 => "QPI".into(),
        11 => "XGMI".into(),
        other => format!("type {other}"),
    };
    [
        link.node_from.to_string(),
        link.node_to.to_string(),
        kind,
        link.weight.to_string(),
        range(link.minimum_bandwidth, link.maximum_bandwidth, "MB/s"),
        range(link.minimum_latency, link.maximum_latency, "ns"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_named_as_compilers_name_them() {
        let engine = |major, minor, stepping| EngineId { u_code: 1, major, minor, stepping };
        assert_eq!(gfx(engine(9, 0, 10)).as_deref(), Some("gfx90a"));
        assert_eq!(gfx(engine(11, 0, 0)).as_deref(), Some("gfx1100"));
        assert_eq!(gfx(engine(0, 0, 0)), None);
    }
}
