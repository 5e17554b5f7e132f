//! The files a program reads to learn what machine it is on: [`Tree`], a directory that stands in for `/sys`.
//!
//! In: a [`Machine`]. Out: below one temporary directory the KFD topology (`sys/devices/virtual/kfd`), and for libdrm
//! one PCI device per GPU with its `drm/cardN` and `drm/renderDN`, reached through `sys/dev/char/226:N`; the amdgpu
//! module counts as loaded. Links are
//! relative, so that they mean the same below the directory and below `/`. [`Tree::locate`] says which paths of the
//! real machine are answered from it. The directory goes when the value is dropped. The CPU's own files (caches,
//! NUMA nodes) are not simulated: a program reads the host's. A topology of a real machine, and its `/proc/cpuinfo`, can be
//! given instead ([`Given`]).

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::description::{Gpu, Machine};
use super::machine::queue_check::SaveArea;

/// Where the kernel shows the topology.
pub const TOPOLOGY: &str = "/sys/devices/virtual/kfd/kfd/topology";

/// The simulated root bus: no host has GPUs there.
const PCI_ROOT: &str = "/sys/devices/pci0000:c0";

/// The device numbers: DRM's is fixed, KFD's is dynamic on a real machine.
pub const DRM_MAJOR: u32 = 226;
/// See [`DRM_MAJOR`].
pub const KFD_MAJOR: u32 = 509;

/// Bit of the `capability` property: the SVM ioctl works.
pub const CAPABILITY_SVM: u32 = 1 << 27;
/// Its internal memories are checked for errors: `sramecc+`.
pub const CAPABILITY_SRAM_ECC: u32 = 1 << 26;
/// The firmware can debug: a runtime enables itself with RUNTIME_ENABLE.
pub const CAPABILITY_DEBUG_FIRMWARE: u32 = 1 << 29;
/// Doorbells are 8 bytes, and four watch points.
const CAPABILITY_BASE: u32 = 0x2000 | 0x200 | 0x80;

/// `type` of an io link.
const LINK_PCIE: u32 = 2;
const LINK_XGMI: u32 = 11;

/// Files that are given instead of made from a [`Machine`].
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// A directory that stands in for [`TOPOLOGY`].
    pub topology: Option<PathBuf>,
    /// A file that stands in for `/proc/cpuinfo`.
    pub cpuinfo: Option<PathBuf>,
}

/// The stand-in for `/sys`.
#[derive(Debug)]
pub struct Tree {
    root: tempfile::TempDir,
    gpus: usize,
    generation: u32,
    has_cpuinfo: bool,
}

impl Tree {
    /// Writes the files of `machine`.
    pub fn create(machine: &Machine) -> io::Result<Tree> {
        // Where there is no room for temporary files there is still memory.
        let name = || tempfile::Builder::new().prefix("kfd-sim-").to_owned();
        let root = name().tempdir().or_else(|_| name().tempdir_in("/dev/shm"))?;
        let tree = Tree { root, gpus: machine.gpus.len(), generation: 1, has_cpuinfo: false };
        tree.write_topology(machine)?;
        for index in 0..machine.gpus.len() {
            tree.write_device(machine, index)?;
        }
        tree.link("/sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd")?;
        tree.file("/sys/devices/virtual/kfd/kfd/dev", &format!("{KFD_MAJOR}:0\n"))?;
        tree.file("/sys/devices/virtual/kfd/kfd/uevent", &format!("MAJOR={KFD_MAJOR}\nMINOR=0\nDEVNAME=kfd\n"))?;
        fs::create_dir_all(tree.inside("/dev/dri"))?;
        tree.write_module()?;
        Ok(tree)
    }

    /// Takes over what is given, a copy of it. A symbolic link stays one: what it leads to is what a program opens.
    pub fn replace(&mut self, given: &Given) -> io::Result<()> {
        if let Some(topology) = &given.topology {
            fs::remove_dir_all(self.topology())?;
            copy(topology, &self.topology())?;
        }
        if let Some(cpuinfo) = &given.cpuinfo {
            self.file("/proc/cpuinfo", &fs::read_to_string(cpuinfo)?)?;
            self.has_cpuinfo = true;
        }
        Ok(())
    }

    /// Shows the GPUs that `machine` shows now: the topology anew, as the next generation.
    pub fn show(&mut self, machine: &Machine) -> io::Result<()> {
        self.generation += 1;
        fs::remove_dir_all(self.inside(&format!("{TOPOLOGY}/nodes")))?;
        self.write_topology(machine)
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The topology below this tree, for a parser that takes a path.
    pub fn topology(&self) -> PathBuf {
        self.inside(TOPOLOGY)
    }

    /// Where the answer for the absolute, normalised `path` lies, if it is one of ours.
    pub fn locate(&self, path: &str) -> Option<PathBuf> {
        let below =
            |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let ours = below("/sys/devices/virtual/kfd")
            || below("/sys/class/kfd")
            || below(PCI_ROOT)
            || below("/sys/module/amdgpu")
            || path == "/proc/modules"
            || (self.has_cpuinfo && path == "/proc/cpuinfo")
            || path == "/dev/dri"
            || (0..self.gpus).any(|index| {
                below(&format!("/sys/dev/char/{DRM_MAJOR}:{}", Machine::render_minor(index)))
                    || below(&format!("/sys/dev/char/{DRM_MAJOR}:{index}"))
                    || below(&format!("/sys/class/drm/renderD{}", Machine::render_minor(index)))
                    || below(&format!("/sys/class/drm/card{index}"))
                    || below(&format!("/sys/bus/pci/devices/{}", pci_address(index)))
            });
        ours.then(|| self.inside(path))
    }

    /// The path of the real machine that a path below this tree stands for.
    pub fn stands_for<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(self.root.path().to_str()?)
    }

    fn inside(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn file(&self, path: &str, text: &str) -> io::Result<()> {
        let path = self.inside(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        fs::write(path, text)
    }

    fn link(&self, path: &str, to: &str) -> io::Result<()> {
        let path = self.inside(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        std::os::unix::fs::symlink(to, path)
    }

    fn write_topology(&self, machine: &Machine) -> io::Result<()> {
        self.file(&format!("{TOPOLOGY}/generation_id"), &format!("{}\n", self.generation))?;
        let system = "platform_oem 2314885531223470915\nplatform_id 26692224626\nplatform_rev 1\n";
        self.file(&format!("{TOPOLOGY}/system_properties"), system)?;
        let apu = machine.shown().map(|(_, gpu)| gpu).find(|gpu| gpu.apu);
        self.write_node(machine, 0, apu)?;
        for (index, gpu) in machine.discrete() {
            self.write_node(machine, machine.node_of_gpu(index).0, Some(gpu))?;
        }
        Ok(())
    }

    fn write_node(&self, machine: &Machine, node: u32, gpu: Option<&Gpu>) -> io::Result<()> {
        let at = format!("{TOPOLOGY}/nodes/{node}");
        let links = links(machine, node);
        let banks = u32::from(node == 0) + u32::from(gpu.is_some_and(|gpu| gpu.vram > 0));
        self.file(&format!("{at}/gpu_id"), &format!("{}\n", gpu.map_or(0, |gpu| gpu.gpu_id.0)))?;
        self.file(&format!("{at}/name"), &format!("{}\n", gpu.map_or("", |gpu| gpu.name.as_str())))?;
        self.file(&format!("{at}/properties"), &properties(machine, node, gpu, banks, links.len()))?;
        let mut bank = 0;
        if node == 0 {
            let text = bank_properties(0, machine.memory, 64, 3200);
            self.file(&format!("{at}/mem_banks/{bank}/properties"), &text)?;
            bank += 1;
        }
        if let Some(gpu) = gpu.filter(|gpu| gpu.vram > 0) {
            let text = bank_properties(if gpu.large_bar { 1 } else { 2 }, gpu.vram, 4096, 1600);
            self.file(&format!("{at}/mem_banks/{bank}/properties"), &text)?;
        }
        fs::create_dir_all(self.inside(&format!("{at}/caches")))?;
        for (number, cache) in caches(gpu).iter().enumerate() {
            self.file(&format!("{at}/caches/{number}/properties"), cache)?;
        }
        for folder in ["io_links", "p2p_links", "perf"] {
            fs::create_dir_all(self.inside(&format!("{at}/{folder}")))?;
        }
        for (number, link) in links.iter().enumerate() {
            self.file(&format!("{at}/io_links/{number}/properties"), link)?;
        }
        Ok(())
    }

    /// The driver's module, for tools that look whether it is loaded.
    fn write_module(&self) -> io::Result<()> {
        for (name, text) in [("initstate", "live\n"), ("refcnt", "2\n"), ("coresize", "9437184\n")] {
            self.file(&format!("/sys/module/amdgpu/{name}"), text)?;
        }
        fs::create_dir_all(self.inside("/sys/module/amdgpu/holders"))?;
        let host = fs::read_to_string("/proc/modules").unwrap_or_default();
        self.file("/proc/modules", &format!("amdgpu 9437184 2 - Live 0x0000000000000000\n{host}"))
    }

    /// The versions of a GPU's blocks, as far as a driver that makes its own packets asks for them.
    fn write_blocks(&self, device: &str, gfx: u32) -> io::Result<()> {
        const GC: u32 = 11;
        const SDMA0: u32 = 42;
        const NBIF: u32 = 108;
        let [gc, sdma, nbif] = match gfx {
            90010 => [[9, 4, 2], [4, 4, 0], [7, 4, 4]],
            90402 => [[9, 4, 3], [4, 4, 2], [7, 9, 0]],
            110000 => [[11, 0, 0], [6, 0, 0], [4, 3, 0]],
            _ => return Ok(()),
        };
        for (block, version) in [(GC, gc), (SDMA0, sdma), (NBIF, nbif)] {
            for (name, number) in ["major", "minor", "revision"].iter().zip(version) {
                self.file(&format!("{device}/ip_discovery/die/0/{block}/0/{name}"), &format!("{number}\n"))?;
            }
        }
        Ok(())
    }

    fn write_device(&self, machine: &Machine, index: usize) -> io::Result<()> {
        let Some(gpu) = machine.gpus.get(index) else { return Ok(()) };
        let (address, minor) = (pci_address(index), Machine::render_minor(index));
        let device = format!("{PCI_ROOT}/{address}");
        self.file(&format!("{device}/vendor"), "0x1002\n")?;
        self.file(&format!("{device}/device"), &format!("0x{:04x}\n", gpu.device_id))?;
        self.file(&format!("{device}/revision"), &format!("0x{:02x}\n", gpu.revision))?;
        self.file(&format!("{device}/subsystem_vendor"), "0x1002\n")?;
        self.file(&format!("{device}/subsystem_device"), "0x0c34\n")?;
        self.file(&format!("{device}/class"), "0x038000\n")?;
        let uevent = format!(
            "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:{:04X}\nPCI_SUBSYS_ID=1002:0C34\nPCI_SLOT_NAME={address}\n",
            gpu.device_id
        );
        self.file(&format!("{device}/uevent"), &uevent)?;
        self.link(&format!("{device}/subsystem"), "../../../bus/pci")?;
        self.write_blocks(&device, gpu.gfx_target_version)?;
        for (name, number) in [(format!("card{index}"), index as u32), (format!("renderD{minor}"), minor)] {
            let node = format!("{device}/drm/{name}");
            self.file(&format!("{node}/dev"), &format!("{DRM_MAJOR}:{number}\n"))?;
            let uevent = format!("MAJOR={DRM_MAJOR}\nMINOR={number}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor\n");
            self.file(&format!("{node}/uevent"), &uevent)?;
            self.link(&format!("{node}/device"), &format!("../../../{address}"))?;
            let target = format!("devices/pci0000:c0/{address}/drm/{name}");
            self.link(&format!("/sys/dev/char/{DRM_MAJOR}:{number}"), &format!("../../{target}"))?;
            self.link(&format!("/sys/class/drm/{name}"), &format!("../../{target}"))?;
            self.file(&format!("/dev/dri/{name}"), "")?;
        }
        self.link(&format!("/sys/bus/pci/devices/{address}"), &format!("../../../devices/pci0000:c0/{address}"))
    }
}

/// Copies a directory.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            copy(&from, &to)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

/// The PCI address of the GPU at `index`.
pub fn pci_address(index: usize) -> String {
    format!("0000:{:02x}:00.0", Machine::pci_bus(index))
}

/// The caches that the kernel lists: a GPU's level 2, and on an APU, whose node is a CPU too, those of a CPU. Those of
/// a CPU alone a program reads from the CPU's own files.
fn caches(gpu: Option<&Gpu>) -> Vec<String> {
    const OF_GPU: u32 = 1 | 8;
    const OF_CPU: u32 = 1 | 4;
    let one = |level: u32, size: u32, line: u32, kind: u32| {
        format!(
            "processor_id_low 0\nlevel {level}\nsize {size}\ncache_line_size {line}\ncache_lines_per_tag 1\n\
             association 16\nlatency 0\ntype {kind}\nsibling_map 1\n"
        )
    };
    let mut list = Vec::new();
    if gpu.is_some_and(|gpu| gpu.apu) {
        list.extend([one(1, 32, 64, OF_CPU), one(2, 1024, 64, OF_CPU)]);
    }
    if gpu.is_some() {
        list.push(one(2, 8192, 128, OF_GPU));
    }
    list
}

fn bank_properties(heap: u32, size: u64, width: u32, clock: u32) -> String {
    format!("heap_type {heap}\nsize_in_bytes {size}\nflags 0\nwidth {width}\nmem_clk_max {clock}\n")
}

/// The io links of `node`: a CPU node reaches every GPU, a GPU the CPU and, directly, the other XGMI GPUs.
fn links(machine: &Machine, node: u32) -> Vec<String> {
    let mut list = Vec::new();
    let own_xgmi = machine.discrete().any(|(index, gpu)| machine.node_of_gpu(index).0 == node && gpu.xgmi);
    if node != 0 {
        list.push(link_properties(LINK_PCIE, node, 0, 20));
    }
    for (index, gpu) in machine.discrete() {
        let other = machine.node_of_gpu(index).0;
        if other == node {
            continue;
        }
        if node == 0 {
            list.push(link_properties(LINK_PCIE, 0, other, 20));
        } else if own_xgmi && gpu.xgmi {
            list.push(link_properties(LINK_XGMI, node, other, 15));
        }
    }
    list
}

fn link_properties(kind: u32, from: u32, to: u32, weight: u32) -> String {
    format!(
        "type {kind}\nversion_major 0\nversion_minor 0\nnode_from {from}\nnode_to {to}\nweight {weight}\n\
         min_latency 0\nmax_latency 0\nmin_bandwidth 0\nmax_bandwidth 0\nrecommended_transfer_size 0\n\
         recommended_sdma_engine_id_mask 0\nflags 1\n"
    )
}

/// A property of a GPU's node that does not depend on banks or links, by its name; 0 for an unknown one.
pub(crate) fn gpu_property(machine: &Machine, index: usize, name: &str) -> u64 {
    let text = properties(machine, 1, machine.gpus.get(index), 0, 0);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or(0)
}

fn properties(machine: &Machine, node: u32, gpu: Option<&Gpu>, banks: u32, links: usize) -> String {
    let cores = if node == 0 { machine.cpu_cores } else { 0 };
    let index = gpu.and_then(|gpu| machine.gpu_index(gpu.gpu_id)).unwrap_or(0);
    let of_gpu = |value: &dyn Fn(&Gpu) -> u64| gpu.map_or(0, value);
    let debug = machine.kfd_version >= (1, 13);
    let capability = |gpu: &Gpu| {
        let bit = |has: bool, bit: u32| if has { bit } else { 0 };
        let debug = bit(debug && gpu.gfx_target_version >= 90000, CAPABILITY_DEBUG_FIRMWARE);
        u64::from(CAPABILITY_BASE | bit(gpu.svm, CAPABILITY_SVM) | bit(gpu.sram_ecc(), CAPABILITY_SRAM_ECC) | debug)
    };
    let area = gpu.and_then(SaveArea::of);
    let lines: [(&str, u64); 40] = [
        ("cpu_cores_count", cores.into()),
        ("simd_count", of_gpu(&|gpu| gpu.simds.into())),
        ("mem_banks_count", banks.into()),
        ("caches_count", caches(gpu).len() as u64),
        ("io_links_count", links as u64),
        ("p2p_links_count", 0),
        ("cpu_core_id_base", 0),
        ("simd_id_base", of_gpu(&|_| 0x8000_1000)),
        ("max_waves_per_simd", of_gpu(&|gpu| if gpu.gfx_target_version < 100000 { 8 } else { 16 })),
        ("lds_size_in_kb", of_gpu(&|_| 64)),
        ("gds_size_in_kb", 0),
        ("num_gws", of_gpu(&|gpu| gpu.gws().into())),
        ("wave_front_size", of_gpu(&|gpu| gpu.wave_size.into())),
        ("array_count", of_gpu(&|_| 8)),
        ("simd_arrays_per_engine", of_gpu(&|_| 1)),
        ("cu_per_simd_array", of_gpu(&|gpu| u64::from(gpu.simds) / u64::from(gpu.simd_per_cu.max(1)) / 8)),
        ("simd_per_cu", of_gpu(&|gpu| gpu.simd_per_cu.into())),
        ("max_slots_scratch_cu", of_gpu(&|_| 32)),
        ("gfx_target_version", of_gpu(&|gpu| gpu.gfx_target_version.into())),
        ("vendor_id", of_gpu(&|_| 0x1002)),
        ("device_id", of_gpu(&|gpu| gpu.device_id.into())),
        ("location_id", of_gpu(&|_| u64::from(Machine::pci_bus(index)) << 8)),
        ("domain", 0),
        ("drm_render_minor", of_gpu(&|_| Machine::render_minor(index).into())),
        ("hive_id", of_gpu(&|gpu| if gpu.xgmi { 0x5eed } else { 0 })),
        ("num_sdma_engines", of_gpu(&|gpu| gpu.sdma_engines().0.into())),
        ("num_sdma_xgmi_engines", of_gpu(&|gpu| gpu.sdma_engines().1.into())),
        ("num_sdma_queues_per_engine", of_gpu(&|gpu| gpu.sdma_queues().into())),
        ("num_cp_queues", of_gpu(&|_| 24)),
        ("cwsr_size", area.map_or(0, |area| area.size.into())),
        ("ctl_stack_size", area.map_or(0, |area| area.control_stack.into())),
        ("max_engine_clk_fcompute", of_gpu(&|_| 1700)),
        ("local_mem_size", of_gpu(&|gpu| gpu.vram)),
        ("fw_version", of_gpu(&|_| 71)),
        ("capability", of_gpu(&capability)),
        ("debug_prop", of_gpu(&|_| 1495)),
        ("sdma_fw_version", of_gpu(&|_| 8)),
        ("unique_id", of_gpu(&|gpu| 0x5eed_0000 + u64::from(gpu.gpu_id.0))),
        ("num_xcc", of_gpu(&|gpu| gpu.dies.into())),
        ("max_engine_clk_ccompute", 3400),
    ];
    // Some are said of a node with a GPU only, some by newer drivers only.
    let said = |name: &str| match name {
        "max_engine_clk_fcompute" | "local_mem_size" | "fw_version" | "capability" => gpu.is_some(),
        "debug_prop" | "sdma_fw_version" | "unique_id" | "num_xcc" => gpu.is_some(),
        "cwsr_size" | "ctl_stack_size" => machine.kfd_version >= (1, 17),
        _ => true,
    };
    let mut text = String::new();
    for (name, value) in lines.into_iter().filter(|(name, _)| said(name)) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{name} {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_holds_what_the_topology_and_libdrm_need() {
        let machine = Machine::preset("gfx90a", None).unwrap();
        let tree = Tree::create(&machine).unwrap();
        let properties = fs::read_to_string(tree.topology().join("nodes/2/properties")).unwrap();
        assert!(properties.contains("simd_count 416\n") && properties.contains("drm_render_minor 129\n"));
        assert!(properties.contains("io_links_count 2\n"));
        let drm = tree.locate("/sys/dev/char/226:129/device/drm").unwrap();
        let mut names: Vec<_> =
            fs::read_dir(drm).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["card1", "renderD129"]);
        assert_eq!(tree.locate("/sys/dev/char/226:130/device"), None);
        assert_eq!(tree.locate("/sys/devices/virtual/kfdx"), None);
        let root = tree.root.path().to_owned();
        drop(tree);
        assert!(!root.exists());
    }
}
