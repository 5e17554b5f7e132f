//! From files to [`Topology`]: which files, in which order, and what C's library derives from them.
//!
//! [`Sources`] says where the files are and whom to ask for what is in no file, so that a test or a simulator can put
//! a tree of its own there. The host's is [`Sources::host`].

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use hsakmt_core::driver::Errno;

use super::text::{Properties, SyntaxError, number};
use super::{CAPABILITY_SVM_API, Cache, IoLink, MemoryBank, Node, Topology, cpu, files, links, names};
use crate::device::{self, RenderNode};
use crate::environment::variable;

/// How often a topology that changes while it is read is read again.
const ATTEMPTS: u32 = 100;

/// Minors of render nodes.
const RENDER_MINORS: std::ops::RangeInclusive<u32> = 128..=255;

/// Why there is no topology.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// A file that must be there is not, or cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file goes on beyond what any kernel writes.
    #[error("{}: more than {limit} bytes", path.display())]
    TooLong {
        /// Which.
        path: PathBuf,
        /// Bytes that are read at most.
        limit: u64,
    },
    /// A file says something else than it should.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A GPU has no render node, or it cannot be opened for another reason than that this process may not.
    #[error("{}: /dev/dri/renderD{minor}: {}", path.display(), device::open_failure(*errno))]
    RenderNode {
        /// The node's `properties`.
        path: PathBuf,
        /// The render node's minor, 0 for none.
        minor: u32,
        /// What opening it said.
        errno: Errno,
    },
    /// A link starts or ends where it cannot.
    #[error("{}: a link from {from} to {to}, among the links of another node", path.display())]
    Link {
        /// The link's `properties`.
        path: PathBuf,
        /// The kernel's node ids.
        from: u32,
        /// The kernel's node ids.
        to: u32,
    },
    /// `HSA_OVERRIDE_GFX_VERSION` is no `major.minor.stepping`.
    #[error("HSA_OVERRIDE_GFX_VERSION is {0:?} and not a version such as 9.0.10")]
    Override(String),
    /// The kernel changed it each time it was read.
    #[error("the topology changed {ATTEMPTS} times while it was read")]
    Unsteady,
}

impl TopologyError {
    /// Whether a file is not there.
    fn is_missing_file(&self) -> bool {
        matches!(self, TopologyError::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// What a GPU says through its render node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuFacts {
    /// PCI revision: together with the device it has a marketing name.
    pub pci_revision: u32,
    /// `FamilyID`
    pub family_id: u32,
    /// Shares the CPU's memory.
    pub integrated: bool,
}

/// Opens a render node and asks it: an error if it does not open, nothing if it opens and does not say.
pub type AskGpu<'a> = &'a dyn Fn(u32) -> Result<Option<GpuFacts>, Errno>;

/// Where a topology is read from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The kernel's topology, [`super::PATH`] on a host.
    pub topology: &'a Path,
    /// `/sys/devices/system`
    pub system: &'a Path,
    /// `/proc/cpuinfo`
    pub cpuinfo: &'a Path,
    /// libdrm's list of marketing names.
    pub amdgpu_ids: &'a Path,
    /// Asks a GPU by its render node's minor. `ENOENT` and `EPERM`: the GPU is not for this process.
    pub gpu: AskGpu<'a>,
    /// An environment variable; `None` if it is not set or empty.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Whether the SVM ioctl may be used at all.
    pub svm_api: bool,
}

impl Sources<'_> {
    /// The machine this runs on.
    pub fn host(svm_api: bool) -> Sources<'static> {
        Sources {
            topology: Path::new(super::PATH),
            system: Path::new("/sys/devices/system"),
            cpuinfo: Path::new("/proc/cpuinfo"),
            amdgpu_ids: Path::new("/usr/share/libdrm/amdgpu.ids"),
            gpu: &|minor| {
                let facts = RenderNode::open(minor)?.gpu_facts();
                let facts =
                    facts.inspect_err(|errno| log::debug!("/dev/dri/renderD{minor}: AMDGPU_INFO: error {}", errno.0));
                Ok(facts.ok())
            },
            variable: &|name| variable(name),
            svm_api,
        }
    }
}

/// An attribute's text. A directory entry that vanishes is an error like any other: the generation then tells.
fn read(path: &Path) -> Result<String, TopologyError> {
    files::read(path, files::ATTRIBUTE)
}

/// An attribute's text; `None` where the kernel shows it and refuses to read it, as it does what a cgroup hides.
fn read_allowed(path: &Path) -> Result<Option<String>, TopologyError> {
    match read(path) {
        Err(TopologyError::File { source, .. }) if source.raw_os_error() == Some(libc::EPERM) => Ok(None),
        text => text.map(Some),
    }
}

impl Topology {
    /// Reads a topology; again if it changed meanwhile.
    pub fn read(sources: &Sources<'_>) -> Result<Topology, TopologyError> {
        let path = sources.topology.join("generation_id");
        let generation = || Ok::<u32, TopologyError>(number(&path, &read(&path)?)? as u32);
        for _ in 0..ATTEMPTS {
            let before = generation()?;
            let result = Reader::new(sources).topology(before);
            if generation()? == before {
                return result;
            }
        }
        Err(TopologyError::Unsteady)
    }

    /// Looks which nodes this process may use: what opening asks. Opens each render node.
    ///
    /// # Errors
    /// A file that must be there cannot be read, or a render node does not open for another reason than `ENOENT` or `EPERM`.
    pub fn check(sources: &Sources<'_>) -> Result<(), TopologyError> {
        read(&sources.topology.join("system_properties"))?;
        Reader::new(sources).find_usable().map(drop)
    }
}

/// One attempt.
struct Reader<'a> {
    sources: &'a Sources<'a>,
    processors: BTreeMap<u32, cpu::Processor>,
    marketing: String,
    /// The kernel's ids of the nodes this process may use, in order.
    usable: Vec<u32>,
    gpus: BTreeMap<u32, Option<GpuFacts>>,
}

impl<'a> Reader<'a> {
    fn new(sources: &'a Sources<'a>) -> Reader<'a> {
        Reader {
            sources,
            processors: BTreeMap::new(),
            marketing: String::new(),
            usable: Vec::new(),
            gpus: BTreeMap::new(),
        }
    }

    fn topology(mut self, generation: u32) -> Result<Topology, TopologyError> {
        self.processors = cpu::processors(&files::read_optional(self.sources.cpuinfo, files::LIST));
        self.marketing = files::read_optional(self.sources.amdgpu_ids, files::LIST);
        let path = self.sources.topology.join("system_properties");
        let text = read(&path)?;
        let system = Properties::new(&path, &text);
        let sysfs_nodes = self.find_usable()?;
        let mut nodes = Vec::new();
        let mut kernel_has_all_links = false;
        for (node, &sysfs_id) in (0..).zip(&self.usable) {
            let (read, has_all_links) = self.node(node, sysfs_id)?;
            kernel_has_all_links |= has_all_links;
            nodes.push(read);
        }
        if !kernel_has_all_links {
            links::add_indirect(&mut nodes);
        }
        Ok(Topology {
            generation,
            platform_oem: system.u32("platform_oem")?,
            platform_id: system.u32("platform_id")?,
            platform_rev: system.u32("platform_rev")?,
            sysfs_nodes,
            nodes,
        })
    }

    fn path(&self, sysfs_id: u32, file: &str) -> PathBuf {
        self.sources.topology.join(format!("nodes/{sysfs_id}/{file}"))
    }

    /// The kernel numbers nodes without gaps.
    fn count_nodes(&self) -> Result<u32, TopologyError> {
        let path = self.sources.topology.join("nodes");
        match files::names(&path) {
            Ok(names) => Ok(names.len() as u32),
            Err(source) => Err(TopologyError::File { path, source }),
        }
    }

    /// Fills `usable`; how many nodes the kernel has.
    fn find_usable(&mut self) -> Result<u32, TopologyError> {
        let sysfs_nodes = self.count_nodes()?;
        for sysfs_id in 0..sysfs_nodes {
            if self.is_usable(sysfs_id)? {
                self.usable.push(sysfs_id);
            }
        }
        Ok(sysfs_nodes)
    }

    /// Whether this process may use a node. Of a GPU that it may use, what the render node says is kept.
    fn is_usable(&mut self, sysfs_id: u32) -> Result<bool, TopologyError> {
        let path = self.path(sysfs_id, "gpu_id");
        let Some(text) = read_allowed(&path)? else { return Ok(false) };
        if number(&path, &text)? == 0 {
            return Ok(true);
        }
        let path = self.path(sysfs_id, "properties");
        let text = read(&path)?;
        let minor = Properties::new(&path, &text).u32("drm_render_minor")?;
        if !RENDER_MINORS.contains(&minor) {
            return Err(TopologyError::RenderNode { path, minor, errno: Errno(libc::ENODEV) });
        }
        match (self.sources.gpu)(minor) {
            Ok(facts) => {
                self.gpus.insert(sysfs_id, facts);
                Ok(true)
            }
            Err(Errno(libc::ENOENT | libc::EPERM)) => Ok(false),
            Err(errno) => Err(TopologyError::RenderNode { path, minor, errno }),
        }
    }

    /// One node, and whether its kernel reports links between GPUs.
    fn node(&self, node: u32, sysfs_id: u32) -> Result<(Node, bool), TopologyError> {
        let path = self.path(sysfs_id, "gpu_id");
        let gpu_id = number(&path, &read(&path)?)? as u32;
        let path = self.path(sysfs_id, "properties");
        let text = read(&path)?;
        let properties = Properties::new(&path, &text);

        let mut read = Node { sysfs_id, gpu_id, ..plain_properties(&properties)? };
        if !self.sources.svm_api {
            read.capability &= !CAPABILITY_SVM_API;
        }
        if read.num_f_compute_cores != 0 {
            self.gpu_properties(node, &mut read, &properties)?;
        }
        if read.num_cpu_cores != 0 {
            self.name_cpu(&mut read);
        }
        for bank in 0..properties.u32("mem_banks_count")? {
            read.memory.push(memory_bank(&self.path(sysfs_id, &format!("mem_banks/{bank}/properties")))?);
        }
        for cache in 0..properties.u32("caches_count")? {
            read.caches.push(gpu_cache(&self.path(sysfs_id, &format!("caches/{cache}/properties")))?);
        }
        if read.caches.is_empty() && gpu_id == 0 {
            read.caches = cpu::caches(self.sources.system, node, &self.processors);
        }
        for (kind, count) in [("io_links", "io_links_count"), ("p2p_links", "p2p_links_count")] {
            for link in 0..properties.u32(count)? {
                let path = self.path(sysfs_id, &format!("{kind}/{link}/properties"));
                let link = self.link(&path, node, sysfs_id);
                // Several links can lead to one node, so there may be more links than other nodes. C reads no further than
                // that: beyond, a count that is too high is no error.
                if read.links.len() + 1 >= self.usable.len() && matches!(&link, Err(error) if error.is_missing_file()) {
                    break;
                }
                read.links.extend(link?);
            }
        }
        Ok((read, properties.has("p2p_links_count")))
    }

    /// Version, names, registers, and what the render node says.
    fn gpu_properties(&self, node: u32, gpu: &mut Node, properties: &Properties<'_>) -> Result<(), TopologyError> {
        if let Some(banks) = properties.u32("array_count")?.checked_div(gpu.num_arrays) {
            gpu.num_shader_banks = banks;
        }
        if gpu.num_xcc == 0 {
            gpu.num_xcc = 1;
        }
        let Some((engine, name)) = names::engine(gpu.device_id, properties.u32("gfx_target_version")?) else {
            log::warn!("GPU node {node}: PCI device {:#x} is not known and reports no version", gpu.device_id);
            return Ok(());
        };
        let variable = self.sources.variable;
        let variable = |name: &str| variable(name).filter(|text| !text.is_empty());
        let wanted = variable(&format!("HSA_OVERRIDE_GFX_VERSION_{node}"));
        if let Some(text) = wanted.or_else(|| variable("HSA_OVERRIDE_GFX_VERSION")) {
            gpu.override_engine_id = names::parse_override(&text).ok_or(TopologyError::Override(text))?;
        }
        gpu.engine_id = super::EngineId { u_code: gpu.engine_id.u_code, ..engine };
        gpu.amd_name = name;
        gpu.sgpr_size_per_cu = names::SGPR_SIZE_PER_CU;
        gpu.vgpr_size_per_cu = names::vgpr_size_per_cu(gpu.engine_id.gfx_version());
        if let Some(Some(facts)) = self.gpus.get(&gpu.sysfs_id) {
            let name = names::marketing_name(&self.marketing, gpu.device_id, facts.pci_revision);
            gpu.marketing_name = name.into();
            gpu.family_id = facts.family_id;
            gpu.integrated = facts.integrated;
        }
        Ok(())
    }

    /// The CPU's name goes to a CPU node, and as marketing name to an APU.
    fn name_cpu(&self, node: &mut Node) {
        let first = self.processors.values().find(|processor| processor.apic_id == node.c_compute_id_lo);
        let Some(processor) = first else { return };
        if node.device_id == 0 {
            node.amd_name = processor.model_name.clone();
        }
        node.marketing_name = processor.model_name.clone();
    }

    /// One link; `None` if it leads to a node this process may not use.
    fn link(&self, path: &Path, node: u32, sysfs_id: u32) -> Result<Option<IoLink>, TopologyError> {
        let Some(text) = read_allowed(path)? else { return Ok(None) };
        let properties = Properties::new(path, &text);
        let (from, to) = (properties.u32("node_from")?, properties.u32("node_to")?);
        if from != sysfs_id {
            return Err(TopologyError::Link { path: path.into(), from, to });
        }
        let Some(node_to) = self.usable.iter().position(|&usable| usable == to) else { return Ok(None) };
        Ok(Some(IoLink {
            link_type: properties.u32("type")?,
            version_major: properties.u32("version_major")?,
            version_minor: properties.u32("version_minor")?,
            node_from: node,
            node_to: node_to as u32,
            weight: properties.u32("weight")?,
            minimum_latency: properties.u32("min_latency")?,
            maximum_latency: properties.u32("max_latency")?,
            minimum_bandwidth: properties.u32("min_bandwidth")?,
            maximum_bandwidth: properties.u32("max_bandwidth")?,
            rec_transfer_size: properties.u32("recommended_transfer_size")?,
            rec_sdma_eng_id_mask: properties.u32("recommended_sdma_engine_id_mask")?,
            flags: properties.u32("flags")?,
        }))
    }
}

/// What is taken over as it stands.
fn plain_properties(properties: &Properties<'_>) -> Result<Node, SyntaxError> {
    let u32 = |name| properties.u32(name);
    let u64 = |name| properties.u64(name);
    Ok(Node {
        num_cpu_cores: u32("cpu_cores_count")?,
        num_f_compute_cores: u32("simd_count")?,
        c_compute_id_lo: u32("cpu_core_id_base")?,
        f_compute_id_lo: u32("simd_id_base")?,
        capability: u32("capability")?,
        capability2: u32("capability2")?,
        debug_properties: u64("debug_prop")?,
        max_waves_per_simd: u32("max_waves_per_simd")?,
        lds_size_in_kb: u32("lds_size_in_kb")?,
        gds_size_in_kb: u32("gds_size_in_kb")?,
        wave_front_size: u32("wave_front_size")?,
        num_arrays: u32("simd_arrays_per_engine")?,
        num_cu_per_array: u32("cu_per_simd_array")?,
        num_simd_per_cu: u32("simd_per_cu")?,
        max_slots_scratch_cu: u32("max_slots_scratch_cu")?,
        engine_id: super::EngineId { u_code: u32("fw_version")? as u16 & 0x3ff, ..Default::default() },
        vendor_id: u32("vendor_id")? as u16,
        device_id: u32("device_id")? as u16,
        location_id: u32("location_id")?,
        local_mem_size: u64("local_mem_size")?,
        max_engine_clock_mhz_f_compute: u32("max_engine_clk_fcompute")?,
        max_engine_clock_mhz_c_compute: u32("max_engine_clk_ccompute")?,
        drm_render_minor: u32("drm_render_minor")?,
        u_code_sdma: u32("sdma_fw_version")? as u16 & 0x3ff,
        hive_id: u64("hive_id")?,
        num_sdma_engines: u32("num_sdma_engines")?,
        num_sdma_xgmi_engines: u32("num_sdma_xgmi_engines")?,
        num_sdma_queues_per_engine: u32("num_sdma_queues_per_engine")? as u8,
        num_cp_queues: u32("num_cp_queues")? as u8,
        num_gws: u32("num_gws")? as u8,
        domain: u32("domain")?,
        unique_id: u64("unique_id")?,
        num_xcc: u32("num_xcc")?,
        family_id: u32("family_id")?,
        ..Node::default()
    })
}

fn memory_bank(path: &Path) -> Result<MemoryBank, TopologyError> {
    let text = read(path)?;
    let properties = Properties::new(path, &text);
    Ok(MemoryBank {
        heap_type: properties.u32("heap_type")?,
        size_in_bytes: properties.u64("size_in_bytes")?,
        flags: properties.u32("flags")?,
        width: properties.u32("width")?,
        memory_clock_max: properties.u32("mem_clk_max")?,
    })
}

fn gpu_cache(path: &Path) -> Result<Cache, TopologyError> {
    let text = read(path)?;
    let properties = Properties::new(path, &text);
    let mut sibling_map = properties.list("sibling_map", Cache::SIBLINGS)?;
    while sibling_map.last() == Some(&0) {
        sibling_map.pop();
    }
    Ok(Cache {
        processor_id_low: properties.u32("processor_id_low")?,
        level: properties.u32("level")?,
        size: properties.u32("size")?,
        line_size: properties.u32("cache_line_size")?,
        lines_per_tag: properties.u32("cache_lines_per_tag")?,
        associativity: properties.u32("association")?,
        latency: properties.u32("latency")?,
        cache_type: properties.u32("type")?,
        sibling_map,
    })
}
