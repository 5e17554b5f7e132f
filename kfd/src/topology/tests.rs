//! Trees made for the purpose, and text that nobody would make on purpose.

use std::cell::Cell;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use hsakmt_core::driver::Errno;
use proptest::prelude::*;

use super::*;

/// A topology below a temporary directory.
struct Tree {
    root: tempfile::TempDir,
}

impl Tree {
    fn new() -> Tree {
        let tree = Tree { root: tempfile::tempdir().unwrap() };
        tree.write("generation_id", "3\n");
        tree.write("system_properties", "platform_oem 35\nplatform_id 6\nplatform_rev 2\n");
        tree
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.root.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A node with these properties, banks, and links `(to, type, weight)` of its own kind or peer to peer.
    fn node(&self, id: u32, gpu_id: u32, properties: &str, heaps: &[u32], links: [&[(u32, u32, u32)]; 2]) {
        self.write(&format!("nodes/{id}/gpu_id"), &format!("{gpu_id}\n"));
        self.write(&format!("nodes/{id}/name"), "\n");
        let mut text = format!("{properties}mem_banks_count {}\n", heaps.len());
        writeln!(text, "io_links_count {}", links[0].len()).unwrap();
        if !links[1].is_empty() {
            writeln!(text, "p2p_links_count {}", links[1].len()).unwrap();
        }
        self.write(&format!("nodes/{id}/properties"), &text);
        for (bank, heap) in heaps.iter().enumerate() {
            let text = format!("heap_type {heap}\nsize_in_bytes 68702699520\nflags 1\nwidth 4096\nmem_clk_max 1600\n");
            self.write(&format!("nodes/{id}/mem_banks/{bank}/properties"), &text);
        }
        for (links, kind) in links.iter().zip(["io_links", "p2p_links"]) {
            for (index, (to, link_type, weight)) in links.iter().enumerate() {
                let text =
                    format!("type {link_type}\nnode_from {id}\nnode_to {to}\nweight {weight}\nmax_bandwidth 64000\n");
                self.write(&format!("nodes/{id}/{kind}/{index}/properties"), &text);
            }
        }
    }

    /// One CPU and two gfx90a GPUs, connected by PCI Express.
    fn gfx90a() -> Tree {
        let tree = Tree::new();
        tree.node(0, 0, CPU, &[0], [&[(1, 2, 20), (2, 2, 20)], &[]]);
        tree.node(1, 0x5106, &gpu(128), &[1], [&[(0, 2, 20)], &[]]);
        tree.node(2, 0x9c38, &gpu(129), &[1], [&[(0, 2, 20)], &[]]);
        tree
    }

    fn read_with(&self, ask: Ask<'_>) -> Result<Topology, TopologyError> {
        self.write("ids", "# a list\n1.0.0\n740F,\t02,\tAMD Instinct MI210\n740f,\t03,\tAnother\n");
        self.write("cpuinfo", "processor\t: 0\nmodel name\t: A CPU\napicid\t\t: 0\n");
        let path = |name: &str| -> PathBuf { self.root.path().join(name) };
        let (system, cpuinfo, ids) = (path("system"), path("cpuinfo"), path("ids"));
        Topology::read(&Sources {
            topology: self.root.path(),
            system: &system,
            cpuinfo: &cpuinfo,
            amdgpu_ids: &ids,
            gpu: ask.gpu,
            variable: ask.variable,
            svm_api: ask.svm_api,
        })
    }

    fn read(&self) -> Result<Topology, TopologyError> {
        self.read_with(Ask::default())
    }
}

/// The sources that are no files.
struct Ask<'a> {
    gpu: AskGpu<'a>,
    variable: &'a dyn Fn(&str) -> Option<String>,
    svm_api: bool,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        const MI210: GpuFacts = GpuFacts { pci_revision: 2, family_id: 141, integrated: false };
        Ask { gpu: &|_| Ok(Some(MI210)), variable: &|_| None, svm_api: true }
    }
}

const CPU: &str = "cpu_cores_count 2\nsimd_count 0\ncpu_core_id_base 0\ncaches_count 0\n";

fn gpu(minor: u32) -> String {
    format!(
        "cpu_cores_count 0\nsimd_count 416\nsimd_arrays_per_engine 1\narray_count 8\nlds_size_in_kb 64\n\
         capability 738218624\ncapability2 1\ndebug_prop 1495\nfw_version 1105\nsdma_fw_version 4104\nvendor_id 4098\n\
         device_id 29711\nhive_id 0\ndrm_render_minor {minor}\ngfx_target_version 90010\nunique_id 18446744073709551615\n\
         num_cp_queues 24\ncaches_count 0\n"
    )
}

#[test]
fn a_machine_reads_as_it_is() {
    let tree = Tree::gfx90a();
    let topology = tree.read().unwrap();
    assert_eq!(
        (topology.generation, topology.platform_oem, topology.platform_id, topology.platform_rev),
        (3, 35, 6, 2)
    );
    assert_eq!((topology.sysfs_nodes, topology.nodes.len()), (3, 3));

    let cpu = &topology.nodes[0];
    assert_eq!((cpu.num_cpu_cores, cpu.gpu_id, cpu.num_xcc), (2, 0, 0));
    assert_eq!((cpu.marketing_name.as_str(), cpu.amd_name.as_str()), ("A CPU", "A CPU"));
    assert_eq!(cpu.engine_id, EngineId::default());

    let gpu = &topology.nodes[1];
    assert_eq!((gpu.gpu_id, gpu.num_f_compute_cores, gpu.drm_render_minor), (0x5106, 416, 128));
    assert_eq!((gpu.marketing_name.as_str(), gpu.amd_name.as_str()), ("AMD Instinct MI210", "Aldebaran"));
    assert_eq!(gpu.engine_id, EngineId { u_code: 1105 & 0x3ff, major: 9, minor: 0, stepping: 10 });
    assert_eq!(gpu.engine_id.value(), 0x0a00_2451);
    assert_eq!((gpu.u_code_sdma, gpu.num_shader_banks, gpu.num_xcc), (8, 8, 1));
    assert_eq!((gpu.unique_id, gpu.debug_properties, gpu.family_id), (u64::MAX, 1495, 141));
    assert_eq!((gpu.vgpr_size_per_cu, gpu.sgpr_size_per_cu), (0x80000, 0x4000));
    let bank = MemoryBank { heap_type: 1, size_in_bytes: 68702699520, flags: 1, width: 4096, memory_clock_max: 1600 };
    assert_eq!(gpu.memory, [bank]);
    assert!(gpu.is_discrete() && topology.has_discrete_gpu() && topology.svm_api());

    // The kernel reported the way to the CPU only.
    let link =
        IoLink { link_type: 2, node_from: 1, node_to: 0, weight: 20, maximum_bandwidth: 64000, ..Default::default() };
    let indirect = IoLink { link_type: 2, node_from: 1, node_to: 2, weight: 40, ..Default::default() };
    assert_eq!(gpu.links, [link, indirect]);
    assert_eq!(topology.nodes[0].link_targets().collect::<Vec<_>>(), [NodeId(1), NodeId(2)]);

    assert!(gpu.svm_api());
    assert_eq!(topology.nodes[2].gpu(), GpuId(0x9c38));
    assert_eq!(topology.node_of(GpuId(0x9c38)), Some(NodeId(2)));
    assert_eq!(topology.node_of(GpuId::NONE), Some(NodeId(0)));
    assert_eq!(topology.direct_link_cpu(NodeId(2)), Some(NodeId(0)));
    assert_eq!(topology.direct_link_cpu(NodeId(0)), None);
    assert_eq!(topology.node(NodeId(3)), None);
}

#[test]
fn a_topology_survives_json() {
    let topology = Tree::gfx90a().read().unwrap();
    let text = serde_json::to_string(&topology).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), topology);
}

#[test]
fn a_gpu_that_this_process_may_not_use_is_left_out() {
    for refusal in [libc::ENOENT, libc::EPERM] {
        let tree = Tree::gfx90a();
        let gpu = |minor| if minor == 128 { Err(Errno(refusal)) } else { Ok(None) };
        let topology = tree.read_with(Ask { gpu: &gpu, ..Ask::default() }).unwrap();
        assert_eq!(topology.sysfs_nodes, 3);
        let ids: Vec<(u32, u32)> = topology.nodes.iter().map(|node| (node.sysfs_id, node.gpu_id)).collect();
        assert_eq!(ids, [(0, 0), (2, 0x9c38)]);
        // Node 2 of the kernel is node 1 here, and the link to the missing one is gone.
        assert_eq!(topology.nodes[0].link_targets().collect::<Vec<_>>(), [NodeId(1)]);
        assert_eq!(topology.nodes[1].links[0].node_from, 1);
        // The render node opened but did not say more.
        assert_eq!((topology.nodes[1].marketing_name.as_str(), topology.nodes[1].family_id), ("", 0));
    }
}

#[test]
fn other_refusals_are_errors() {
    let tree = Tree::gfx90a();
    let error = tree.read_with(Ask { gpu: &|_| Err(Errno(libc::EACCES)), ..Ask::default() }).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("nodes/1/properties: /dev/dri/renderD128: Permission denied"), "{text}");
    assert!(text.contains("render"), "it names the group: {text}");
    for minor in [0, 1, 127, 256] {
        tree.node(1, 0x5106, &format!("simd_count 4\ndrm_render_minor {minor}\n"), &[], [&[], &[]]);
        let error = tree.read().unwrap_err().to_string();
        assert!(error.contains(&format!("/dev/dri/renderD{minor}: No such device")), "{error}");
    }
}

/// What opening asks: only which nodes can be used.
#[test]
fn case_89_a_check_opens_each_render_node_and_reads_no_more() {
    let tree = Tree::gfx90a();
    tree.write("nodes/2/io_links/0/properties", "weight heavy\n");
    let check = |answers: [Result<(), i32>; 2]| {
        let asked = Cell::new(0);
        let gpu = |minor: u32| {
            asked.set(asked.get() + 1);
            answers[minor as usize - 128].map(|()| None).map_err(Errno)
        };
        let nowhere = Path::new("/nowhere");
        let sources = Sources {
            topology: tree.root.path(),
            system: nowhere,
            cpuinfo: nowhere,
            amdgpu_ids: nowhere,
            gpu: &gpu,
            variable: &|_| None,
            svm_api: true,
        };
        (Topology::check(&sources).map_err(|error| error.to_string()), asked.get())
    };
    assert_eq!(check([Ok(()), Ok(())]), (Ok(()), 2));
    assert_eq!(check([Err(libc::ENOENT), Err(libc::EPERM)]), (Ok(()), 2));
    for errno in [libc::EACCES, libc::EMFILE] {
        let (refused, asked) = check([Err(errno), Ok(())]);
        assert!(refused.unwrap_err().contains("nodes/1/properties: /dev/dri/renderD128: "));
        assert_eq!(asked, 1);
    }
    std::fs::remove_file(tree.root.path().join("system_properties")).unwrap();
    assert!(check([Ok(()), Ok(())]).0.unwrap_err().contains("system_properties: No such file"));
}

#[test]
fn errors_name_file_and_line() {
    let tree = Tree::gfx90a();
    tree.write("nodes/2/io_links/0/properties", "type 2\nnode_from 2\nnode_to 0\nweight heavy\n");
    let error = tree.read().unwrap_err().to_string();
    let want = "nodes/2/io_links/0/properties:4: a number of 64 bits was expected: \"heavy\"";
    assert!(error.ends_with(want), "{error}");

    let tree = Tree::gfx90a();
    tree.write("nodes/2/io_links/0/properties", "node_from 1\nnode_to 0\n");
    let error = tree.read().unwrap_err().to_string();
    assert!(error.contains("nodes/2/io_links/0/properties: a link from 1 to 0"), "{error}");

    for file in ["generation_id", "system_properties", "nodes/1/mem_banks/0/properties", "nodes/0/gpu_id"] {
        let tree = Tree::gfx90a();
        std::fs::remove_file(tree.root.path().join(file)).unwrap();
        let error = tree.read().unwrap_err();
        assert!(matches!(&error, TopologyError::File { path, .. } if path.ends_with(file)), "{error}");
    }
}

#[test]
fn a_topology_that_changes_is_read_again() {
    let tree = Tree::gfx90a();
    let asked = Cell::new(0);
    let gpu = |_| {
        asked.set(asked.get() + 1);
        if asked.get() == 1 {
            tree.write("generation_id", "4\n");
            tree.write("system_properties", "platform_rev 9\n");
        }
        Ok(None)
    };
    let topology = tree.read_with(Ask { gpu: &gpu, ..Ask::default() }).unwrap();
    assert_eq!((topology.generation, topology.platform_rev, asked.get()), (4, 9, 4));

    let count = Cell::new(0);
    let restless = |_| {
        count.set(count.get() + 1);
        tree.write("generation_id", &format!("{}\n", count.get()));
        Ok(None)
    };
    let error = tree.read_with(Ask { gpu: &restless, ..Ask::default() }).unwrap_err();
    assert!(matches!(error, TopologyError::Unsteady));
}

#[test]
fn the_environment_can_override_the_version() {
    let tree = Tree::gfx90a();
    let only = |wanted: &'static str, text: &'static str| move |name: &str| (name == wanted).then(|| text.to_string());
    let variable = only("HSA_OVERRIDE_GFX_VERSION_2", "10.3.0");
    let topology = tree.read_with(Ask { variable: &variable, ..Ask::default() }).unwrap();
    let overrides: Vec<u32> = topology.nodes.iter().map(|node| node.override_engine_id.gfx_version()).collect();
    assert_eq!(overrides, [0, 0, 0x0a0300]);
    assert_eq!(topology.nodes[2].engine_id.gfx_version(), 0x09000a);
    for bad in ["9", "9.0", "9.0.10.1", "64.0.0", "9.256.0", "9.0.x", "9.-1.0"] {
        let variable = only("HSA_OVERRIDE_GFX_VERSION", bad);
        let error = tree.read_with(Ask { variable: &variable, ..Ask::default() }).unwrap_err();
        assert!(matches!(error, TopologyError::Override(text) if text == bad));
    }
}

#[test]
fn an_override_can_take_the_place_of_the_version() {
    let tree = Tree::gfx90a();
    let variable = |name: &str| (name == "HSA_OVERRIDE_GFX_VERSION").then(|| "11.0.0".to_string());
    let topology = tree.read_with(Ask { variable: &variable, ..Ask::default() }).unwrap();
    let gpu = &topology.nodes[1];
    let overridden = gpu.with_override();
    assert_eq!((overridden.engine_id.gfx_version(), overridden.engine_id.u_code), (0x0b0000, gpu.engine_id.u_code));
    // The registers are the version's; the name is the device's.
    assert_eq!((overridden.vgpr_size_per_cu, &overridden.amd_name), (0x60000, &gpu.amd_name));
    let unnamed = Node { amd_name: names::version_name(gpu.engine_id), ..gpu.clone() };
    assert_eq!(unnamed.with_override().amd_name, "GFX0b0000");
    // A node without an override stays as it is.
    assert_eq!(topology.nodes[0].with_override(), topology.nodes[0]);
}

#[test]
fn case_87_an_empty_variable_is_not_set() {
    let tree = Tree::gfx90a();
    let overrides = |variable: &dyn Fn(&str) -> Option<String>| {
        let topology = tree.read_with(Ask { variable, ..Ask::default() }).unwrap();
        topology.nodes.iter().map(|node| node.override_engine_id.gfx_version()).collect::<Vec<_>>()
    };
    assert_eq!(overrides(&|_| Some(String::new())), [0; 3]);
    // The one for a node is empty: the one for all counts.
    let variable = |name: &str| Some(if name.ends_with('1') { "" } else { "10.3.0" }.to_string());
    assert_eq!(overrides(&variable), [0, 0x0a0300, 0x0a0300]);
}

#[test]
fn a_file_that_never_ends_is_an_error_that_says_so() {
    let endless = |tree: &Tree, file: &str| {
        let path = tree.root.path().join(file);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    };
    for file in [
        "generation_id",
        "system_properties",
        "nodes/0/gpu_id",
        "nodes/1/properties",
        "nodes/1/mem_banks/0/properties",
        "nodes/1/io_links/0/properties",
    ] {
        let tree = Tree::gfx90a();
        endless(&tree, file);
        let error = tree.read().unwrap_err().to_string();
        assert!(error.ends_with(&format!("{file}: more than 65536 bytes")), "{error}");
    }
    // As long as an attribute can be is not too long.
    let tree = Tree::gfx90a();
    let text = std::fs::read_to_string(tree.root.path().join("nodes/1/properties")).unwrap();
    tree.write("nodes/1/properties", &format!("{text}{}", "\n".repeat((64 << 10) - text.len())));
    assert_eq!(tree.read().unwrap(), Tree::gfx90a().read().unwrap());
}

#[test]
fn the_svm_ioctl_can_be_taken_away() {
    let topology = Tree::gfx90a().read_with(Ask { svm_api: false, ..Ask::default() }).unwrap();
    assert!(topology.nodes.iter().all(|node| !node.svm_api()));
    assert!(!topology.svm_api());
}

#[test]
fn names_come_from_the_device_or_from_the_version() {
    let name = |device, version| names::engine(device, version).map(|(id, name)| (id.gfx_version(), name));
    assert_eq!(name(0x740f, 90010), Some((0x09000a, "Aldebaran".into())));
    assert_eq!(name(0x740f, 0), Some((0x09000a, "Aldebaran".into())));
    assert_eq!(name(0x74a1, 90402), Some((0x090402, "GFX090402".into())));
    // A device known by name, but of a later architecture than names go to.
    assert_eq!(name(0x740f, 110000), Some((0x0b0000, "GFX0b0000".into())));
    assert_eq!(name(0x1234, 0), None);
    assert_eq!(names::vgpr_size_per_cu(0x090402), 0x80000);
    assert_eq!(names::vgpr_size_per_cu(0x0b0001), 0x60000);
    assert_eq!(names::vgpr_size_per_cu(0x0a0300), 0x40000);
    // Case 88.
    let sizes = [0x0b0500, 0x0b0501, 0x0b0502, 0x0c0001, 0x0c0500].map(names::vgpr_size_per_cu);
    assert_eq!(sizes, [0x40000, 0x60000, 0x40000, 0x60000, 0x80000]);
    let list = "# 740F, 03, a comment\n1.0.0\n740F,\t02,\tFirst\n740f,\t03,\tSecond\n";
    assert_eq!(names::marketing_name(list, 0x740f, 3), "Second");
    assert_eq!(names::marketing_name(list, 0x740f, 4), "AMD Radeon Graphics");
}

/// Targets with weights of each node's links.
fn links_of(tree: &Tree) -> Vec<Vec<(u32, u32)>> {
    let topology = tree.read().unwrap();
    let links = topology.nodes.iter().map(|node| node.links.iter().map(|link| (link.node_to, link.weight)).collect());
    links.collect()
}

#[test]
fn counts_that_cannot_be_end_somewhere() {
    let tree = Tree::gfx90a();
    tree.write("nodes/0/properties", "cpu_cores_count 2\nio_links_count 4294967295\n");
    assert_eq!(tree.read().unwrap().nodes[0].links.len(), 2);
    tree.write("nodes/0/properties", "cpu_cores_count 2\nmem_banks_count 4294967295\n");
    let error = tree.read().unwrap_err();
    assert!(matches!(&error, TopologyError::File { path, .. } if path.ends_with("mem_banks/1/properties")), "{error}");
}

#[test]
fn a_kernel_that_reports_peer_links_is_believed() {
    let tree = Tree::new();
    tree.node(0, 0, CPU, &[0], [&[(1, 2, 20), (2, 2, 20)], &[]]);
    tree.node(1, 0x5106, &gpu(128), &[1], [&[(0, 2, 20)], &[(2, 2, 40)]]);
    tree.node(2, 0x9c38, &gpu(129), &[1], [&[(0, 2, 20)], &[]]);
    assert_eq!(links_of(&tree), [vec![(1, 20), (2, 20)], vec![(0, 20), (2, 40)], vec![(0, 20)]]);
}

/// Links of a CPU node and `gpus` GPUs, each link to the CPU and to another GPU of the hive twice.
fn doubled(gpus: u32, peers: u32, p2p: bool) -> Vec<Vec<u32>> {
    let tree = Tree::new();
    let twice = |links: Vec<(u32, u32, u32)>| links.iter().flat_map(|link| [*link, *link]).collect::<Vec<_>>();
    tree.node(0, 0, CPU, &[0], [&twice((1..=gpus).map(|gpu| (gpu, 2, 20)).collect()), &[]]);
    for node in 1..=gpus {
        let others = (1..=gpus).filter(|other| *other != node).take(peers as usize).map(|other| (other, 11, 15));
        let (to_cpu, to_peers) = (twice(vec![(0, 2, 20)]), twice(others.collect()));
        let properties = gpu(127 + node).replace("hive_id 0", "hive_id 77");
        let all = [to_cpu.as_slice(), to_peers.as_slice()].concat();
        let links: [&[_]; 2] = if p2p { [&to_cpu, &to_peers] } else { [&all, &[]] };
        tree.node(node, 0x5000 + node, &properties, &[1], links);
    }
    let targets = |node: &Node| node.links.iter().map(|link| link.node_to).collect();
    tree.read().unwrap().nodes.iter().map(targets).collect()
}

#[test]
fn case_86_several_links_to_one_node_push_no_other_out() {
    for p2p in [false, true] {
        assert_eq!(doubled(2, 1, p2p), [vec![1, 1, 2, 2], vec![0, 0, 2, 2], vec![0, 0, 1, 1]]);
        let all = doubled(3, 2, p2p);
        assert_eq!(all[1..], [vec![0, 0, 2, 2, 3, 3], vec![0, 0, 1, 1, 3, 3], vec![0, 0, 1, 1, 2, 2]]);
    }
    // A kernel that reports direct links only: the way to the other GPU is computed although both have links to the CPU
    // for two.
    let tree = Tree::new();
    tree.node(0, 0, CPU, &[0], [&[(1, 2, 20), (1, 2, 20), (2, 2, 20), (2, 2, 20)], &[]]);
    tree.node(1, 0x5106, &gpu(128), &[1], [&[(0, 2, 20), (0, 2, 20)], &[]]);
    tree.node(2, 0x9c38, &gpu(129), &[1], [&[(0, 2, 20), (0, 2, 20)], &[]]);
    let links = links_of(&tree);
    assert_eq!(links[1..], [vec![(0, 20), (0, 20), (2, 40)], vec![(0, 20), (0, 20), (1, 40)]]);
}

#[test]
fn indirect_links_go_over_the_cpus_between() {
    // Two sockets, a GPU on each.
    let two_sockets = |between: (u32, u32)| {
        let tree = Tree::new();
        let (link_type, weight) = between;
        tree.node(0, 0, CPU, &[0], [&[(1, link_type, weight), (2, 2, 20)], &[]]);
        tree.node(1, 0, CPU, &[0], [&[(0, link_type, weight), (3, 2, 20)], &[]]);
        tree.node(2, 0x5106, &gpu(128), &[1], [&[(0, 2, 20)], &[]]);
        tree.node(3, 0x9c38, &gpu(129), &[1], [&[(1, 2, 20)], &[]]);
        links_of(&tree)
    };
    let hypertransport = two_sockets((1, 32));
    assert_eq!(hypertransport[0], [(1, 32), (2, 20), (3, 52)]);
    assert_eq!(hypertransport[2], [(0, 20), (1, 52), (3, 72)]);
    // Over QPI, GPUs on different sockets do not reach each other; CPUs reach the GPU.
    let qpi = two_sockets((5, 32));
    assert_eq!(qpi[0], [(1, 32), (2, 20), (3, 52)]);
    assert_eq!(qpi[2], [(0, 20), (1, 52)]);
}

#[test]
fn no_link_leads_to_vram_the_host_does_not_see_or_into_the_own_hive() {
    let tree = Tree::new();
    tree.node(0, 0, CPU, &[0], [&[(1, 2, 20), (2, 2, 20)], &[]]);
    tree.node(1, 0x5106, &gpu(128), &[2], [&[(0, 2, 20)], &[]]);
    tree.node(2, 0x9c38, &gpu(129), &[1], [&[(0, 2, 20)], &[]]);
    assert_eq!(links_of(&tree)[1..], [vec![(0, 20), (2, 40)], vec![(0, 20)]]);

    let hive = |minor| gpu(minor).replace("hive_id 0", "hive_id 77");
    tree.node(1, 0x5106, &hive(128), &[1], [&[(0, 2, 20)], &[]]);
    tree.node(2, 0x9c38, &hive(129), &[1], [&[(0, 2, 20)], &[]]);
    assert_eq!(links_of(&tree)[1..], [vec![(0, 20)], vec![(0, 20)]]);
}

#[test]
fn lines_that_nobody_asks_for_are_not_looked_at() {
    let text = "colour blue\n\n  count 7 and more\ncount_all 9\nsigned -2\nlist 1,2,,3,\ncount 8\n";
    let properties = Properties::new(Path::new("p"), text);
    assert_eq!(properties.u32("count"), Ok(8));
    assert_eq!(properties.u64("signed"), Ok(u64::MAX - 1));
    assert_eq!(properties.u64("absent"), Ok(0));
    assert_eq!(properties.list("list", 2), Ok(vec![1, 2]));
    assert_eq!(properties.list("list", 9), Ok(vec![1, 2, 3]));
    assert_eq!(properties.list("absent", 9), Ok(vec![]));
    assert!(properties.has("colour") && !properties.has("col"));
    let error = properties.u64("colour").unwrap_err();
    assert_eq!(error.to_string(), "p:1: a number of 64 bits was expected: \"blue\"");
    assert!(properties.list("colour", 9).is_err());
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in "(?s).{0,400}", name in "[a-z_ ]{0,8}", most in 0usize..9) {
        let properties = Properties::new(Path::new("p"), &text);
        let _ = (properties.u64(&name), properties.u32(&name), properties.has(&name), properties.list(&name, most));
        let _ = (names::parse_override(&text), names::marketing_name(&text, 0x740f, 0), cpu::processors(&text));
    }

    #[test]
    fn lines_of_words_and_numbers_read_back(lines in prop::collection::vec(("[a-c]{1,3}", any::<u64>()), 0..20)) {
        let text: String = lines.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        let properties = Properties::new(Path::new("p"), &text);
        for (name, _) in &lines {
            let last = lines.iter().rfind(|(other, _)| other == name).map(|(_, value)| *value);
            prop_assert_eq!(properties.u64(name).ok(), last);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn no_file_makes_reading_panic(
        file in prop::sample::select(vec![
            "generation_id", "system_properties", "nodes/0/gpu_id", "nodes/1/gpu_id", "nodes/1/properties",
            "nodes/0/properties", "nodes/2/io_links/0/properties", "nodes/1/mem_banks/0/properties",
        ]),
        text in "([a-z_]{0,12} ?[0-9a-z-]{0,22}\n){0,6}",
        known in "(simd_count|cpu_cores_count|io_links_count|mem_banks_count|caches_count|node_to|weight) [0-9]{1,20}\n",
    ) {
        let tree = Tree::gfx90a();
        tree.write(file, &(text + &known));
        let _ = tree.read();
    }
}
