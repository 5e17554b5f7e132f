//! What machine is simulated: [`Machine`], from a preset or from a JSON file.
//!
//! In: a preset's name, or a file. Out: a [`Machine`] in which every number is settled: GPU ids, address ranges,
//! memory sizes. Nothing here simulates anything; [`super::machine`] and [`super::sysfs`] read it. A file that cannot
//! be understood gives an error that names file, line and field; a machine that contradicts itself (two GPUs with one
//! id) never comes out of here.

use hsakmt_core::node::{GpuId, NodeId};

mod file;

pub use file::Error;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// An inclusive range of GPU addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub base: u64,
    /// Last address.
    pub limit: u64,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The preset it started from.
    pub name: String,
    /// The kernel's name for it.
    pub gpu_id: GpuId,
    /// `major * 10000 + minor * 100 + stepping`.
    pub gfx_target_version: u32,
    /// PCI device.
    pub device_id: u32,
    /// PCI revision.
    pub revision: u32,
    /// `family_id` of amdgpu.
    pub family: u32,
    /// SIMDs.
    pub simds: u32,
    /// SIMDs per compute unit.
    pub simd_per_cu: u32,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// Compute dies.
    pub dies: u32,
    /// Bytes of VRAM.
    pub vram: u64,
    /// Whether the host can see all of VRAM.
    pub large_bar: bool,
    /// Whether the topology promises the SVM ioctl.
    pub svm: bool,
    /// Whether its links to other GPUs are XGMI (direct) rather than PCIe.
    pub xgmi: bool,
    /// Shares a node with the CPU cores.
    pub apu: bool,
    /// LDS addresses.
    pub lds: Range,
    /// Scratch addresses.
    pub scratch: Range,
    /// GPUVM addresses; `limit >= 2^47` on old APUs only.
    pub gpuvm: Range,
}

/// A whole machine: CPU nodes first, then one node per GPU (an APU is one node).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What to call it.
    pub name: String,
    /// What GET_VERSION answers.
    pub kfd_version: (u32, u32),
    /// Cores of the CPU node.
    pub cpu_cores: u32,
    /// Bytes of host memory of the CPU node.
    pub memory: u64,
    /// The GPUs, in the order of their render nodes.
    pub gpus: Vec<Gpu>,
    /// Positions in `gpus` of those that the kernel shows, in node order; `None` for all. See [`Machine::show`].
    pub shown: Option<Vec<usize>>,
}

/// The first render node's minor number.
pub const FIRST_RENDER_MINOR: u32 = 128;

impl Machine {
    /// The presets' names.
    pub const PRESETS: &'static [(&'static str, &'static str)] = &[
        ("gfx90a", "1 CPU node, 2 GPUs with 64 GiB each (Aldebaran), XGMI, KFD 1.14"),
        ("gfx942", "1 CPU node, 8 GPUs with 192 GiB each, XGMI, KFD 1.16, SVM"),
        ("gfx1100", "1 CPU node, 1 GPU with 24 GiB, KFD 1.14"),
        ("apu", "1 node with CPU cores and an old GPU (gfx801) with its own GPUVM addresses, KFD 1.14"),
        ("none", "1 CPU node and no GPU; /dev/kfd exists"),
    ];

    /// A machine by name; `gpus` replaces the preset's number of GPUs.
    pub fn preset(name: &str, gpus: Option<usize>) -> Option<Machine> {
        let (count, version) = match name {
            "gfx90a" => (2, (1, 14)),
            "gfx942" => (8, (1, 16)),
            "gfx1100" => (1, (1, 14)),
            "apu" => (1, (1, 14)),
            "none" => (0, (1, 14)),
            _ => return None,
        };
        let model = if name == "apu" { "gfx801" } else { name };
        let list = (0..gpus.unwrap_or(count)).filter_map(|index| gpu(model, index)).collect();
        let (name, memory) = (name.into(), 8 * GIB);
        Some(Machine { name, kfd_version: version, cpu_cores: 2, memory, gpus: list, shown: None })
    }

    /// What must hold for any machine.
    fn check(&self) -> Result<(), String> {
        if self.cpu_cores == 0 {
            return Err("cpu_cores: must be at least 1".into());
        }
        if self.gpus.len() > 64 {
            return Err(format!("gpus: {} of them, 64 is the most", self.gpus.len()));
        }
        for (position, gpu) in self.gpus.iter().enumerate() {
            if gpu.gpu_id == GpuId::NONE {
                return Err(format!("gpus[{position}].gpu_id: 0 means \"not a GPU\""));
            }
            if self.gpus.iter().take(position).any(|other| other.gpu_id == gpu.gpu_id) {
                return Err(format!("gpus[{position}].gpu_id: {} is taken", gpu.gpu_id.0));
            }
            for (name, range) in [("lds", gpu.lds), ("scratch", gpu.scratch), ("gpuvm", gpu.gpuvm)] {
                if range.base > range.limit {
                    return Err(format!("gpus[{position}].{name}: begins behind its end"));
                }
            }
        }
        if self.gpus.iter().filter(|gpu| gpu.apu).count() > 1 {
            return Err("gpus: at most one APU".into());
        }
        Ok(())
    }

    /// From now on the kernel shows these GPUs and no others, in this node order: a GPU was pulled, plugged in, or found
    /// in another order. A GPU keeps its id and its render node.
    ///
    /// # Errors
    /// Says which id is not a GPU of this machine, or is there twice.
    pub fn show(&mut self, gpus: &[GpuId]) -> Result<(), String> {
        let mut shown = Vec::new();
        for gpu in gpus {
            let index = self.gpus.iter().position(|candidate| candidate.gpu_id == *gpu);
            let index = index.ok_or_else(|| format!("this machine has no GPU {:#x}", gpu.0))?;
            if shown.contains(&index) {
                return Err(format!("GPU {:#x} is there twice", gpu.0));
            }
            shown.push(index);
        }
        self.shown = Some(shown);
        Ok(())
    }

    /// The GPUs that the kernel shows, with their positions in [`Machine::gpus`], in node order.
    pub fn shown(&self) -> impl Iterator<Item = (usize, &Gpu)> {
        let count = self.shown.as_ref().map_or(self.gpus.len(), Vec::len);
        let position = |at: usize| self.shown.as_ref().map_or(Some(at), |shown| shown.get(at).copied());
        (0..count).filter_map(position).filter_map(|index| Some((index, self.gpus.get(index)?)))
    }

    /// Where in [`Machine::gpus`] a GPU is that the kernel shows.
    pub fn gpu_index(&self, gpu: GpuId) -> Option<usize> {
        self.shown().find(|(_, candidate)| candidate.gpu_id == gpu).map(|(index, _)| index)
    }

    /// The topology node of the GPU at `index`; 0 for an APU.
    pub fn node_of_gpu(&self, index: usize) -> NodeId {
        let position = self.discrete().position(|(candidate, _)| candidate == index);
        NodeId(position.map_or(0, |position| 1 + position as u32))
    }

    /// How many topology nodes the kernel shows.
    pub fn nodes(&self) -> usize {
        1 + self.discrete().count()
    }

    /// The GPUs that have their own node, in node order from 1.
    pub fn discrete(&self) -> impl Iterator<Item = (usize, &Gpu)> {
        self.shown().filter(|(_, gpu)| !gpu.apu)
    }

    /// The render node's minor number of the GPU at `index`.
    pub fn render_minor(index: usize) -> u32 {
        FIRST_RENDER_MINOR + index as u32
    }

    /// PCI bus of the GPU at `index`: the simulated root has a domain of buses of its own.
    pub fn pci_bus(index: usize) -> u32 {
        0xc1 + index as u32
    }
}

impl Gpu {
    /// SDMA engines, and those for XGMI links.
    pub(crate) fn sdma_engines(&self) -> (u32, u32) {
        (2, if self.xgmi { 3 } else { 0 })
    }

    /// Queues of one SDMA engine.
    pub(crate) fn sdma_queues(&self) -> u32 {
        8
    }

    /// Slots for global wave sync.
    pub(crate) fn gws(&self) -> u32 {
        if self.gfx_target_version >= 90000 { 64 } else { 0 }
    }

    /// The GPU uses the process's own addresses and page tables, as an APU before gfx9 does.
    pub(crate) fn shares_addresses(&self) -> bool {
        self.apu && self.gfx_target_version < 90000
    }

    /// Its internal memories are checked for errors.
    pub(crate) fn sram_ecc(&self) -> bool {
        matches!(self.gfx_target_version, 90008 | 90010 | 90402)
    }
}

/// A GPU as its preset describes it; `index` settles its id.
fn gpu(model: &str, index: usize) -> Option<Gpu> {
    let base = Gpu {
        name: model.into(),
        gpu_id: GpuId(0xa001 + 0x101 * index as u32),
        gfx_target_version: 90010,
        device_id: 0x740f,
        revision: 2,
        family: 141,
        simds: 416,
        simd_per_cu: 4,
        wave_size: 64,
        dies: 1,
        vram: 64 * GIB - 16 * MIB,
        large_bar: true,
        svm: false,
        xgmi: true,
        apu: false,
        lds: Range { base: 1 << 48, limit: (1 << 48) | 0xffff_ffff },
        scratch: Range { base: 2 << 48, limit: (2 << 48) | 0xffff_ffff },
        gpuvm: Range { base: 0x100_0000, limit: (1 << 47) - 1 },
    };
    Some(match model {
        "gfx90a" => base,
        "gfx942" => Gpu {
            gfx_target_version: 90402,
            device_id: 0x74a1,
            revision: 0,
            simds: 1216,
            dies: 8,
            vram: 192 * GIB - 16 * MIB,
            svm: true,
            ..base
        },
        "gfx1100" => Gpu {
            gfx_target_version: 110000,
            device_id: 0x744c,
            revision: 0xc8,
            family: 145,
            simds: 192,
            simd_per_cu: 2,
            wave_size: 32,
            vram: 24 * GIB - 16 * MIB,
            xgmi: false,
            ..base
        },
        "gfx801" => Gpu {
            gfx_target_version: 80001,
            device_id: 0x9874,
            revision: 0xc4,
            family: 135,
            simds: 32,
            // What the firmware sets aside; the host does not see it.
            vram: GIB,
            large_bar: false,
            xgmi: false,
            apu: true,
            lds: Range { base: 1 << 61, limit: (1 << 61) | 0xffff_ffff },
            scratch: Range { base: (1 << 61) + (1 << 32), limit: (1 << 61) + (2 << 32) - 1 },
            gpuvm: Range { base: (1 << 61) + (1 << 48), limit: (1 << 61) + (1 << 48) + (1 << 40) - 1 },
            ..base
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_sound_machine() {
        for (name, _) in Machine::PRESETS {
            let machine = Machine::preset(name, None).unwrap();
            assert_eq!(machine.check(), Ok(()), "{name}");
        }
        assert_eq!(Machine::preset("gfx90a", Some(5)).unwrap().gpus.len(), 5);
        assert!(Machine::preset("gfx9", None).is_none());
    }

    #[test]
    fn nodes_count_cpu_first_and_an_apu_is_one_node() {
        let machine = Machine::preset("gfx90a", None).unwrap();
        assert_eq!((machine.node_of_gpu(0), machine.node_of_gpu(1)), (NodeId(1), NodeId(2)));
        assert_eq!(Machine::preset("apu", None).unwrap().node_of_gpu(0), NodeId(0));
    }

    #[test]
    fn the_kernel_may_show_other_gpus_or_another_order() {
        let mut machine = Machine::preset("gfx90a", Some(3)).unwrap();
        let [first, second, third] = [0, 1, 2].map(|index| machine.gpus[index].gpu_id);
        machine.show(&[third, first]).unwrap();
        assert_eq!(machine.shown().map(|(index, _)| index).collect::<Vec<_>>(), [2, 0]);
        assert_eq!((machine.node_of_gpu(2), machine.node_of_gpu(0)), (NodeId(1), NodeId(2)));
        assert_eq!((machine.gpu_index(third), machine.gpu_index(second)), (Some(2), None));
        assert_eq!(machine.show(&[GpuId(7)]), Err("this machine has no GPU 0x7".into()));
        assert_eq!(machine.show(&[first, first]), Err("GPU 0xa001 is there twice".into()));
        assert_eq!(machine.shown().count(), 2, "what is refused changes nothing");
    }

    #[test]
    fn a_file_overrides_its_presets() {
        let text =
            r#"{"gpus":[{"preset":"gfx90a","count":2},{"preset":"gfx1100","vram_mib":"0x10","gpu_id":7,"svm":true}]}"#;
        let machine = Machine::from_json(text).unwrap();
        assert_eq!(machine.gpus.len(), 3);
        assert_eq!((machine.gpus[2].vram, machine.gpus[2].gpu_id, machine.gpus[2].svm), (16 * MIB, GpuId(7), true));
        assert_eq!(machine.kfd_version, (1, 14));
    }

    #[test]
    fn errors_name_line_and_field() {
        let unknown = Machine::from_json("{\n \"gpus\": [],\n \"vrm\": 1}").unwrap_err();
        assert!(unknown.contains("vrm") && unknown.contains("line 3"), "{unknown}");
        let preset = Machine::from_json(r#"{"gpus":[{"preset":"gfx1"}]}"#).unwrap_err();
        assert!(preset.starts_with("gpus[0].preset"), "{preset}");
        let twice = Machine::from_json(r#"{"gpus":[{"preset":"gfx90a","gpu_id":7},{"preset":"gfx90a","gpu_id":7}]}"#);
        assert_eq!(twice, Err("gpus[1].gpu_id: 7 is taken".into()));
    }
}
