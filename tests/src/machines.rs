//! Machines in the shape of real ones, as the files that the kernel would show: for `kfd-sim --topology` and `--cpuinfo`.
//!
//! In: nodes and links. Out: a directory. GPUs are those of a preset, by their order: see [`gpu_id`] and [`minor`]. What real
//! kernels wrote that no preset has is here: a machine of 63 partitions, links twice, peer-to-peer links, nodes that a device
//! cgroup hides, a node whose GPU did not come up, a GPU before the CPU.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The id of a preset's GPU.
pub fn gpu_id(index: u32) -> u32 {
    0xa001 + 0x101 * index
}

/// The render minor of a preset's GPU.
pub fn minor(index: u32) -> u32 {
    128 + index
}

/// `type` of a link.
pub const HYPERTRANSPORT: u32 = 1;
/// `type` of a link.
pub const PCI_EXPRESS: u32 = 2;
/// `type` of a link.
pub const XGMI: u32 = 11;

/// A link: to which node, its type, its weight.
pub type Link = (u32, u32, u32);

/// One node's files.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// 0 for a CPU.
    pub gpu_id: u32,
    /// `name value` lines; counts of banks and links are added.
    pub properties: String,
    /// `heap_type`, bytes.
    pub banks: Vec<(u32, u64)>,
    /// `io_links`.
    pub io: Vec<Link>,
    /// `p2p_links`; `None`: the kernel does not know them.
    pub p2p: Option<Vec<Link>>,
    /// A device cgroup hides it: reading its files and links to it is refused (EPERM).
    pub hidden: bool,
}

impl Node {
    /// A CPU node with so many cores, and memory unless it has none.
    pub fn cpu(cores: u32, memory: u64, io: Vec<Link>) -> Node {
        let properties = format!(
            "cpu_cores_count {cores}\nsimd_count 0\ncaches_count 0\ncpu_core_id_base 0\nsimd_id_base 0\n\
             max_waves_per_simd 0\nlds_size_in_kb 0\nmax_engine_clk_ccompute 3400\nnum_xcc 0\n"
        );
        let banks = if memory == 0 { vec![] } else { vec![(0, memory)] };
        Node { properties, banks, io, p2p: Some(vec![]), ..Node::default() }
    }

    /// A GPU of a preset; lines of `more` stand instead of the usual ones of the same name.
    pub fn gpu(index: u32, more: &str, io: Vec<Link>, p2p: Vec<Link>) -> Node {
        let properties = format!(
            "cpu_cores_count 0\nsimd_count 416\ncaches_count 0\ncpu_core_id_base 0\nsimd_id_base 2147487744\n\
             max_waves_per_simd 8\nlds_size_in_kb 64\ngds_size_in_kb 0\nnum_gws 64\nwave_front_size 64\narray_count 8\n\
             simd_arrays_per_engine 1\ncu_per_simd_array 14\nsimd_per_cu 4\nmax_slots_scratch_cu 32\n\
             gfx_target_version 90010\nvendor_id 4098\ndevice_id 29711\nlocation_id {}\ndomain 0\n\
             drm_render_minor {}\nhive_id 0\nnum_sdma_engines 5\nnum_sdma_xgmi_engines 0\n\
             num_sdma_queues_per_engine 8\nnum_cp_queues 24\nmax_engine_clk_fcompute 1700\nlocal_mem_size 0\n\
             fw_version 71\ncapability 746742400\ndebug_prop 1511\nsdma_fw_version 8\nunique_id {}\nnum_xcc 1\n\
             max_engine_clk_ccompute 3400\n",
            (0xc1 + index) << 8,
            minor(index),
            0x5eed_0000 + u64::from(index)
        );
        let name = |line: &str| line.split(' ').next().map(str::to_owned);
        let instead = |line: &str| more.lines().find(|other| name(other) == name(line)).map(str::to_owned);
        let lines = properties.lines().map(|line| instead(line).unwrap_or(line.to_owned()) + "\n");
        let (properties, banks) = (lines.collect(), vec![(1, 68_702_699_520)]);
        Node { gpu_id: gpu_id(index), properties, banks, io, p2p: Some(p2p), hidden: false }
    }
}

/// Writes the files of these nodes below `folder`.
pub fn write(folder: &Path, nodes: &[Node]) {
    let file = |path: String, text: &str| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    // An open descriptor of /dev/fuse without a mount answers EPERM to each read.
    let refuse = |path: String| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/dev/fuse", path).unwrap();
    };
    file("generation_id".into(), "2\n");
    file("system_properties".into(), "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
    for (id, node) in nodes.iter().enumerate() {
        let at = format!("nodes/{id}");
        let mut properties = node.properties.clone();
        writeln!(properties, "mem_banks_count {}\nio_links_count {}", node.banks.len(), node.io.len()).unwrap();
        if let Some(p2p) = &node.p2p {
            writeln!(properties, "p2p_links_count {}", p2p.len()).unwrap();
        }
        if node.hidden {
            refuse(format!("{at}/gpu_id"));
            refuse(format!("{at}/properties"));
        } else {
            file(format!("{at}/gpu_id"), &format!("{}\n", node.gpu_id));
            file(format!("{at}/properties"), &properties);
        }
        for (bank, (heap, size)) in node.banks.iter().enumerate() {
            let text = format!("heap_type {heap}\nsize_in_bytes {size}\nflags 0\nwidth 4096\nmem_clk_max 1600\n");
            file(format!("{at}/mem_banks/{bank}/properties"), &text);
        }
        for (kind, links) in [("io_links", &node.io), ("p2p_links", node.p2p.as_ref().unwrap_or(&vec![]))] {
            for (number, (to, link_type, weight)) in links.iter().enumerate() {
                let path = format!("{at}/{kind}/{number}/properties");
                let text = format!(
                    "type {link_type}\nversion_major 0\nversion_minor 0\nnode_from {id}\nnode_to {to}\nweight {weight}\n\
                     min_latency 0\nmax_latency 0\nmin_bandwidth 312\nmax_bandwidth {}\nrecommended_transfer_size 0\n\
                     recommended_sdma_engine_id_mask 0\nflags 1\n",
                    1000 + number
                );
                if nodes.get(*to as usize).is_some_and(|to| to.hidden) { refuse(path) } else { file(path, &text) }
            }
        }
    }
}

const GIB: u64 = 1 << 30;

/// Eight MI300X, each in eight partitions (CPX) of which the last is missing, on two sockets: 63 GPUs. `gfx942`.
pub fn mi300x_cpx() -> Vec<Node> {
    const GPUS: u32 = 63;
    let socket = |gpu: u32| gpu / 32;
    let cpu = |own: u32| {
        let gpus = (0..GPUS).filter(|gpu| socket(*gpu) == own).map(|gpu| (2 + gpu, PCI_EXPRESS, 20));
        let other = (1 - own, HYPERTRANSPORT, 32);
        Node::cpu(96, 1152 * GIB, std::iter::once(other).chain(gpus).collect())
    };
    let gpu = |gpu: u32| {
        let (card, part) = (gpu / 8, gpu % 8);
        let more = format!(
            "simd_count 152\narray_count 4\ncu_per_simd_array 10\ngfx_target_version 90402\ndevice_id 29857\n\
             location_id {}\ndomain {card}\nhive_id 6161\nunique_id {}\nnum_sdma_engines 2\nnum_sdma_xgmi_engines 0\n",
            part << 28 | 0xc100,
            0x1234_5678 + u64::from(card)
        );
        let peers = (0..GPUS).filter(|other| *other != gpu).map(|other| (2 + other, XGMI, 15));
        let io = std::iter::once((socket(gpu), PCI_EXPRESS, 20)).chain(peers).collect();
        Node { banks: vec![(1, 24 * GIB - (16 << 20))], ..Node::gpu(gpu, &more, io, vec![]) }
    };
    [cpu(0), cpu(1)].into_iter().chain((0..GPUS).map(gpu)).collect()
}

/// Two MI210 on one socket without a bridge, on a kernel that reports the way over PCI Express. `gfx90a`.
pub fn mi210_p2p() -> Vec<Node> {
    vec![
        Node::cpu(64, 256 * GIB, vec![(1, PCI_EXPRESS, 20), (2, PCI_EXPRESS, 20)]),
        Node::gpu(0, "", vec![(0, PCI_EXPRESS, 20)], vec![(2, PCI_EXPRESS, 40)]),
        Node::gpu(1, "", vec![(0, PCI_EXPRESS, 20)], vec![(1, PCI_EXPRESS, 40)]),
    ]
}

/// Three GPUs of one hive with two links to the CPU and to each peer; `gpus` of them. `gfx90a`.
pub fn doubled(gpus: u32) -> Vec<Node> {
    let twice = |link: Link| [link, link];
    let cpu = Node::cpu(64, 256 * GIB, (1..=gpus).flat_map(|gpu| twice((gpu, PCI_EXPRESS, 20))).collect());
    let gpu = |node: u32| {
        let peers = (1..=gpus).filter(move |other| *other != node).flat_map(|other| twice((other, XGMI, 15)));
        let io = twice((0, PCI_EXPRESS, 20)).into_iter().chain(peers).collect();
        Node::gpu(node - 1, "hive_id 77\n", io, vec![])
    };
    std::iter::once(cpu).chain((1..=gpus).map(gpu)).collect()
}

/// Two GPUs with two links each to the CPU, on a kernel that reports direct links only. `gfx90a`.
pub fn doubled_without_peers() -> Vec<Node> {
    let mut nodes = doubled(2);
    for node in &mut nodes {
        node.p2p = None;
        node.io.retain(|link| link.1 == PCI_EXPRESS);
        node.properties = node.properties.replace("hive_id 77\n", "");
    }
    nodes
}

/// Four GPUs, all linked, of which the second, in the middle, is not for this process. A device cgroup hides it, from the
/// driver's list of GPUs too (`gfx90a`, 3 GPUs); or this container has no render node of it (`gfx90a`, 4 GPUs).
pub fn hidden_in_the_middle(by_cgroup: bool) -> Vec<Node> {
    let gpu = |node: u32| {
        let (xgmi, far) = (1..=4).filter(|other| *other != node).partition::<Vec<u32>, _>(|other| *other == node ^ 1);
        let io = std::iter::once((0, PCI_EXPRESS, 20)).chain(xgmi.into_iter().map(|to| (to, XGMI, 15)));
        let p2p = far.into_iter().map(|to| (to, PCI_EXPRESS, 40));
        let (hidden, absent) = (node == 2 && by_cgroup, node == 2 && !by_cgroup);
        let index = if by_cgroup && node > 2 { node - 2 } else { node - 1 };
        let more = if absent { "drm_render_minor 170\n" } else { "" };
        Node { hidden, ..Node::gpu(index, more, io.collect(), p2p.collect()) }
    };
    let cpu = Node::cpu(64, 256 * GIB, (1..=4).map(|gpu| (gpu, PCI_EXPRESS, 20)).collect());
    std::iter::once(cpu).chain((1..=4).map(gpu)).collect()
}

/// A GPU that did not come up between two that did: no gpu id, no render node, no arrays. `gfx90a`.
pub fn half_initialised() -> Vec<Node> {
    let cpu = Node::cpu(64, 256 * GIB, vec![(1, PCI_EXPRESS, 20), (2, PCI_EXPRESS, 20), (3, PCI_EXPRESS, 20)]);
    let half = "simd_count 256\narray_count 0\nsimd_arrays_per_engine 0\ndrm_render_minor 0\n";
    let half = Node { gpu_id: 0, ..Node::gpu(7, half, vec![(0, PCI_EXPRESS, 20)], vec![]) };
    let gpu = |index: u32, other: u32| {
        Node::gpu(index, "", vec![(0, PCI_EXPRESS, 20)], vec![(other, PCI_EXPRESS, 40), (2, PCI_EXPRESS, 40)])
    };
    vec![cpu, gpu(0, 3), half, gpu(1, 1)]
}

/// A GPU before the CPU, a CPU without memory, memory without cores; lines that end in CR LF. `gfx90a`.
pub fn out_of_order() -> Vec<Node> {
    let mut first = Node::gpu(0, "", vec![(1, PCI_EXPRESS, 20)], vec![(4, PCI_EXPRESS, 52)]);
    first.properties = first.properties.replace('\n', "\r\n");
    vec![
        first,
        Node::cpu(64, 0, vec![(0, PCI_EXPRESS, 20), (2, HYPERTRANSPORT, 16), (3, HYPERTRANSPORT, 32)]),
        Node::cpu(0, 64 * GIB, vec![(1, HYPERTRANSPORT, 16)]),
        Node::cpu(64, 256 * GIB, vec![(1, HYPERTRANSPORT, 32), (4, PCI_EXPRESS, 20)]),
        Node::gpu(1, "", vec![(3, PCI_EXPRESS, 20)], vec![(0, PCI_EXPRESS, 52)]),
    ]
}

/// `/proc/cpuinfo` of two x86 processors.
pub const X86: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9654 96-Core Processor\n\
     apicid\t\t: 0\n\nprocessor\t: 1\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9654 96-Core Processor\n\
     apicid\t\t: 1\n";

/// `/proc/cpuinfo` of two processors on architectures without APIC ids.
pub const WITHOUT_APIC: [(&str, &str); 4] = [
    ("arm", "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU part\t: 0xd4f\n\nprocessor\t: 1\nBogoMIPS\t: 2000.00\n"),
    ("riscv", "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\n\nprocessor\t: 1\nhart\t\t: 0\nisa\t\t: rv64imafdc\n"),
    (
        "loongarch",
        "system type\t\t: generic\n\nprocessor\t\t: 0\nModel Name\t\t: Loongson-3C6000\n\nprocessor\t\t: 1\n",
    ),
    ("power", "processor\t: 0\ncpu\t\t: POWER10, altivec supported\n\nprocessor\t: 1\ncpu\t\t: POWER10\n"),
];
