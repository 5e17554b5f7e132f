//! What the manager knows of the machine: its GPUs, who may reach whose memory, which address space serves whom.
//!
//! In: the topology's facts of each node ([`NodeFacts`]) and the environment ([`Options`], [`Opened`]). Out:
//! [`Machine`], fixed from set-up to close save for the areas owned in its address spaces and each GPU's scratch. What
//! never happens here: a driver call, or a published change.

use super::gpu_list::GpuList;
use super::refused::SetUpError;
use super::scratch::Scratch;
use crate::address::{Bounds, PageSize};
use crate::aperture::Aperture;
use crate::array::Array;
use crate::driver::ProcessApertures;
use crate::error::{Error, Result};
use crate::node::{GpuId, NodeId};
use crate::pool::Memory;
use crate::va::VaSpace;

/// The first address that is not canonical on a 47-bit machine; `None` where addresses are shorter.
pub(super) const CANONICAL_END: Option<usize> = 1usize.checked_shl(47);

/// The smallest page that Tonga and Carrizo map.
const TONGA_PAGE: usize = 0x8000;

/// A GPU's graphics engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gfx {
    /// 9 in gfx90a.
    pub major: u8,
    /// 0 in gfx90a.
    pub minor: u8,
    /// 10 in gfx90a.
    pub stepping: u8,
}

impl Gfx {
    /// The only engine that likes alignments beyond 2 MiB.
    const GFX950: Gfx = Gfx { major: 9, minor: 5, stepping: 0 };
}

/// What the topology says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFacts<'a> {
    /// [`GpuId::NONE`] for a CPU.
    pub gpu_id: GpuId,
    /// `NumCPUCores`.
    pub cpu_cores: u32,
    /// `NumFComputeCores`.
    pub simds: u32,
    /// `EngineId`.
    pub gfx: Gfx,
    /// `DeviceId`.
    pub device_id: u32,
    /// Whether it reports the SVM API.
    pub svm_api: bool,
    /// Where its io links lead, indirect ones included, in topology order.
    pub links_to: &'a [NodeId],
}

/// What is read when the channel opens.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// `HSA_USE_SVM` is not "0". A secondary context has no SVM API whatever it says.
    pub use_svm: bool,
    /// `HSA_ZFB`: no frame buffer, everything is host memory.
    pub zfb: bool,
    /// The KFD interface's minor version.
    pub kfd_minor: u32,
    /// A secondary context: the kernel refuses it the SVM ioctl and userptr buffers.
    pub secondary: bool,
    /// [`MemFlags::ONLY_ADDRESS`](crate::flags::MemFlags::ONLY_ADDRESS) counts in host memory, as it always does in device
    /// memory. C libraries before 2025 give memory there.
    pub reserves_host: bool,
}

impl Default for Opened {
    fn default() -> Opened {
        Opened { use_svm: true, zfb: false, kfd_minor: u32::MAX, secondary: false, reserves_host: true }
    }
}

/// What is read when the apertures are set up.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `HSA_DISABLE_CACHE`: all memory coherent and uncached.
    pub disable_cache: bool,
    /// `HSA_USERPTR_FOR_PAGED_MEM`: paged host memory is a userptr buffer, not GTT.
    pub userptr_for_paged_mem: bool,
    /// `HSA_CHECK_USERPTR`: read every page of a userptr when it is registered.
    pub check_userptr: bool,
    /// `HSA_RESERVE_SVM`: SVM is a range reserved up front.
    pub reserve_svm: bool,
    /// `HSA_SVM_GUARD_PAGES`.
    pub guard_pages: u32,
    /// `HSA_MAX_VA_ALIGN`, as an order of pages.
    pub max_va_align: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            disable_cache: false,
            userptr_for_paged_mem: true,
            check_userptr: false,
            reserve_svm: false,
            guard_pages: 1,
            max_va_align: None,
        }
    }
}

/// Where SVM addresses come from.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per context, and it never moves")]
pub(super) enum SvmSpace {
    /// There is no SVM aperture.
    None,
    /// The process's own address space, piece by piece.
    Mmap {
        /// What the GPUs can address.
        bounds: Bounds,
        /// Where growing the alignment stops.
        cap: usize,
    },
    /// A range reserved at set-up, the first quarter of it coherent.
    Reserved {
        /// The larger, not coherent part.
        main: VaSpace,
        /// The coherent part.
        alt: VaSpace,
        /// All of the reservation.
        whole: Bounds,
    },
}

/// Bytes of what is known of `gpus`, in whole `grains`.
#[cfg(not(loom))]
pub(crate) const fn bytes_for(gpus: usize, grain: usize) -> usize {
    crate::array::bytes_for::<Gpu>(gpus, grain) + crate::array::bytes_for::<GpuId>(gpus, grain)
}

impl SvmSpace {
    pub(super) fn free(self, memory: &mut impl Memory) {
        if let SvmSpace::Reserved { main, alt, .. } = self {
            main.free(memory);
            alt.free(memory);
        }
    }
}

/// One GPU.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) id: GpuId,
    pub(super) node: NodeId,
    /// Its memory lies in SVM, not in a GPUVM aperture of its own.
    pub(super) svm_needed: bool,
    /// The least alignment it can map.
    pub(super) align: usize,
    /// Itself, then who has a link to it: who may map its memory.
    pub(super) peers: GpuList,
    pub(super) lds: Bounds,
    pub(super) scratch_aperture: Bounds,
    /// Its position among the GPUVM apertures, and what is owned in it.
    pub(super) gpuvm: Option<(u8, VaSpace)>,
    /// The MMIO-remap page.
    pub(super) mmio: Option<usize>,
    /// The scratch backing memory's address range.
    pub(super) scratch: Option<Scratch>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Machine {
    /// Set-up has succeeded.
    pub(super) ready: bool,
    pub(super) page: PageSize,
    pub(super) dgpu: bool,
    pub(super) svm_api: bool,
    pub(super) options: Options,
    /// In topology order.
    pub(super) gpus: Array<Gpu>,
    /// In the kernel's aperture order.
    pub(super) all: Array<GpuId>,
    pub(super) svm: SvmSpace,
    pub(super) mem_handle: VaSpace,
}

impl Machine {
    /// Before set-up: no GPU, no aperture.
    pub(super) fn blank(page: PageSize, opened: &Opened) -> Machine {
        Machine {
            ready: false,
            page,
            dgpu: false,
            svm_api: opened.use_svm && !opened.secondary,
            options: Options::default(),
            gpus: Array::new(),
            all: Array::new(),
            svm: SvmSpace::None,
            mem_handle: VaSpace::empty(),
        }
    }

    /// The GPUs among `nodes`; no aperture yet. The caller ends it with [`Machine::free`].
    pub(super) fn new(
        nodes: &[NodeFacts<'_>],
        options: &Options,
        opened: &Opened,
        page: PageSize,
        memory: &mut impl Memory,
    ) -> Result<Machine> {
        let mut machine = Machine::blank(page, opened);
        let gpus = nodes.iter().filter(|facts| facts.gpu_id != GpuId::NONE).count();
        let room = machine.gpus.reserve(gpus, memory).and_then(|()| machine.all.reserve(gpus, memory));
        if let Err(error) = room {
            machine.free(memory);
            return Err(error);
        }
        machine.options = *options;
        machine.options.userptr_for_paged_mem &= !opened.secondary;
        machine.dgpu = nodes.iter().any(|node| node.cpu_cores == 0 && node.simds > 0);
        for (facts, node) in nodes.iter().zip(0u32..) {
            if facts.gpu_id == GpuId::NONE {
                continue;
            }
            machine.svm_api &= facts.svm_api;
            // Cannot fail: there was room for all of them, and a list has room for one.
            let _ = machine.gpus.push(Gpu {
                id: facts.gpu_id,
                node: NodeId(node),
                svm_needed: machine.dgpu || facts.gfx.major >= 9,
                align: least_alignment(facts.device_id, page),
                peers: GpuList::collect([facts.gpu_id]).unwrap_or_default(),
                lds: Bounds::EMPTY,
                scratch_aperture: Bounds::EMPTY,
                gpuvm: None,
                mmio: None,
                scratch: None,
            });
        }
        Ok(machine)
    }

    /// Ends what it knows.
    pub(super) fn free(mut self, memory: &mut impl Memory) {
        while let Some(gpu) = self.gpus.pop() {
            gpu.gpuvm.into_iter().for_each(|(_, space)| space.free(memory));
            gpu.scratch.into_iter().for_each(|scratch| scratch.pieces.free(memory));
        }
        self.gpus.free(memory);
        self.all.free(memory);
        self.mem_handle.free(memory);
        self.svm.free(memory);
    }

    /// The area allocator of an aperture that has one.
    pub(super) fn space(&mut self, aperture: Aperture) -> Option<&mut VaSpace> {
        match (aperture, &mut self.svm) {
            (Aperture::Svm, SvmSpace::Reserved { main, .. }) => Some(main),
            (Aperture::SvmAlt, SvmSpace::Reserved { alt, .. }) => Some(alt),
            (Aperture::MemHandle, _) => Some(&mut self.mem_handle),
            (Aperture::Gpuvm(position), _) => self.gpus.iter_mut().find_map(|gpu| match &mut gpu.gpuvm {
                Some((known, space)) if *known == position => Some(space),
                _ => None,
            }),
            _ => None,
        }
    }

    /// Takes one GPU's apertures over, in the kernel's order: it joins the list of all GPUs and the peers of those its
    /// links lead to. `false` for a GPU that the topology does not show.
    pub(super) fn adopt(&mut self, apertures: &ProcessApertures, nodes: &[NodeFacts<'_>]) -> Result<bool, SetUpError> {
        let Some(gpu) = self.gpus.iter_mut().find(|gpu| gpu.id == apertures.gpu) else { return Ok(false) };
        if self.all.contains(&gpu.id) {
            return Err(SetUpError::ListedTwice(gpu.id));
        }
        gpu.lds = apertures.lds;
        gpu.scratch_aperture = apertures.scratch;
        let (id, node) = (gpu.id, gpu.node);
        self.all.push(id).map_err(|_| Error::NoMemory)?;
        let facts = usize::try_from(node.0).ok().and_then(|index| nodes.get(index));
        for to in facts.map_or(&[][..], |facts| facts.links_to) {
            if let Some(peer) = self.gpus.iter_mut().find(|gpu| gpu.node == *to)
                && !peer.peers.as_slice().contains(&id)
            {
                peer.peers.push(id)?;
            }
        }
        Ok(true)
    }

    /// Default GPU for CPU nodes.
    pub(super) fn first(&self) -> Option<&Gpu> {
        self.gpus.first()
    }

    pub(super) fn gpu(&self, id: GpuId) -> Option<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.id == id)
    }

    pub(super) fn gpu_mut(&mut self, id: GpuId) -> Option<&mut Gpu> {
        self.gpus.iter_mut().find(|gpu| gpu.id == id)
    }

    /// Who an object on `node` is mapped to when nobody says: its GPU's peers, or all.
    pub(super) fn reach(&self, node: NodeId) -> &[GpuId] {
        self.gpus.iter().find(|gpu| gpu.node == node).map_or(&*self.all, |gpu| gpu.peers.as_slice())
    }

    /// Bytes kept free around an area.
    pub(super) fn guard(&self) -> usize {
        let pages = usize::try_from(self.options.guard_pages).unwrap_or(usize::MAX);
        pages.saturating_mul(self.page.bytes())
    }

    /// Where growing the alignment stops in an mmap aperture: `HSA_MAX_VA_ALIGN`, or 2 MiB, or 1 GiB where every node
    /// is a gfx950.
    pub(super) fn alignment_cap(&self, nodes: &[NodeFacts<'_>]) -> usize {
        let by_machine = if nodes.iter().all(|node| node.gfx == Gfx::GFX950) { 18 } else { 9 };
        let order = self.options.max_va_align.unwrap_or(by_machine);
        let pages = 1usize.checked_shl(order);
        pages.and_then(|pages| pages.checked_mul(self.page.bytes())).unwrap_or(1 << (usize::BITS - 1))
    }
}

fn least_alignment(device_id: u32, page: PageSize) -> usize {
    match device_id {
        0x6920..=0x6939 | 0x9870..=0x9877 => page.bytes().max(TONGA_PAGE),
        _ => page.bytes(),
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;
    use crate::pool::Heap;

    fn facts(gpu: u32, gfx: Gfx) -> NodeFacts<'static> {
        NodeFacts {
            gpu_id: GpuId(gpu),
            cpu_cores: u32::from(gpu == 0),
            simds: u32::from(gpu != 0),
            gfx,
            device_id: 0,
            svm_api: gpu != 3,
            links_to: &[NodeId(1), NodeId(2), NodeId(2)],
        }
    }

    #[test]
    fn peers_follow_the_links_in_aperture_order() {
        let nodes = [facts(0, Gfx::default()), facts(1, Gfx::GFX950), facts(2, Gfx::GFX950)];
        let (options, opened) = (Options::default(), Opened::default());
        let mut machine = Machine::new(&nodes, &options, &opened, PageSize::FOUR_KIB, &mut Heap).unwrap();
        for gpu in [2, 9, 1] {
            let apertures =
                ProcessApertures { gpu: GpuId(gpu), lds: Bounds::EMPTY, scratch: Bounds::EMPTY, gpuvm: Bounds::EMPTY };
            assert_eq!(machine.adopt(&apertures, &nodes), Ok(gpu != 9));
        }
        assert_eq!(*machine.all, [GpuId(2), GpuId(1)]);
        assert_eq!(machine.reach(NodeId(1)), [GpuId(1), GpuId(2)]);
        assert_eq!(machine.reach(NodeId(2)), [GpuId(2), GpuId(1)]);
        assert_eq!(machine.reach(NodeId(0)), [GpuId(2), GpuId(1)], "a CPU node: all GPUs");
        machine.free(&mut Heap);
    }

    #[test]
    fn case_62_alignment_cap() {
        let cpu = [facts(0, Gfx::default()), facts(1, Gfx::GFX950)];
        let mut options = Options::default();
        let cap = |options: &Options, nodes: &[NodeFacts<'_>]| {
            let opened = Opened::default();
            let machine = Machine::new(nodes, options, &opened, PageSize::FOUR_KIB, &mut Heap).unwrap();
            let cap = machine.alignment_cap(nodes);
            machine.free(&mut Heap);
            cap
        };
        assert_eq!(cap(&options, &cpu), 2 << 20);
        assert_eq!(cap(&options, &[facts(1, Gfx::GFX950)]), 1 << 30);
        for (order, bytes) in [(0, 4096), (9, 2 << 20), (18, 1 << 30), (4000, 1 << 63)] {
            options.max_va_align = Some(order);
            assert_eq!(cap(&options, &cpu), bytes);
        }
    }

    #[test]
    fn svm_api_needs_every_gpu_and_a_primary_context() {
        let page = PageSize::FOUR_KIB;
        let both = [facts(1, Gfx::default()), facts(3, Gfx::default())];
        let known = |nodes: &[NodeFacts<'_>], secondary| {
            let opened = Opened { secondary, ..Opened::default() };
            let machine = Machine::new(nodes, &Options::default(), &opened, page, &mut Heap).unwrap();
            let known = (machine.svm_api, machine.options.userptr_for_paged_mem);
            machine.free(&mut Heap);
            known
        };
        assert_eq!(known(&both[..1], false), (true, true));
        assert_eq!(known(&both, false), (false, true));
        assert_eq!(known(&both[..1], true), (false, false));
    }
}
