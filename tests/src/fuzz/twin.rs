//! The dumb twin of a registry: a list of objects, searched from front to back, word for word as the rules are written.
//!
//! In: the same edits. Out: the same answers, as [`Facts`], which own what they say. Sums are made in 128 bits, so that
//! nothing here wraps where the original must not.

use hsakmt_core::address::Bounds;
use hsakmt_core::aperture::{Aperture, Layout, MAX_GPUVM};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::{PointerInfo, PointerType};
use hsakmt_core::node::NodeId;
use hsakmt_core::objects::Object;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    kind: PointerType,
    node: NodeId,
    flags: MemFlags,
    cpu: usize,
    gpu: u64,
    size: u64,
    registered: Vec<u32>,
    mapped: Vec<u32>,
    user_data: usize,
}

impl Facts {
    pub(super) fn of(info: &PointerInfo<'_>) -> Facts {
        Facts {
            kind: info.kind,
            node: info.node,
            flags: info.flags,
            cpu: info.cpu_address,
            gpu: info.gpu_address,
            size: info.size,
            registered: info.registered.ids().to_vec(),
            mapped: info.mapped.ids().to_vec(),
            user_data: info.user_data,
        }
    }
}

/// An object and its lists.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) aperture: Aperture,
    pub(super) start: usize,
    pub(super) size: usize,
    pub(super) cpu: usize,
    pub(super) user_data: usize,
    pub(super) registered: Vec<NodeId>,
    pub(super) mapped: Vec<NodeId>,
    kind: PointerType,
    node: NodeId,
    flags: MemFlags,
}

impl Known {
    pub(super) fn new(aperture: Aperture, object: &Object<'_>) -> Known {
        Known {
            aperture,
            start: object.start,
            size: object.size,
            cpu: object.cpu,
            user_data: object.user_data,
            registered: object.registered.to_vec(),
            mapped: object.mapped.to_vec(),
            kind: object.kind,
            node: object.node,
            flags: object.flags,
        }
    }

    pub(super) fn is_userptr(&self) -> bool {
        self.kind == PointerType::RegisteredUser
    }

    /// Whole pages that it occupies.
    pub(super) fn extent(&self, page: usize) -> u128 {
        let (page, size) = (page as u128, self.size as u128);
        if self.is_userptr() { (self.cpu as u128 % page + size).div_ceil(page) * page } else { size }
    }

    fn occupies(&self, address: usize, page: usize) -> bool {
        self.start <= address && ((address - self.start) as u128) < self.extent(page)
    }

    fn facts(&self, page: usize) -> Facts {
        let offset = if self.is_userptr() { self.cpu % page } else { 0 };
        let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
        Facts {
            kind: self.kind,
            node: self.node,
            flags: self.flags,
            cpu: self.cpu,
            gpu: (self.start + offset) as u64,
            size: self.size as u64,
            registered: ids(&self.registered),
            mapped: ids(&self.mapped),
            user_data: self.user_data,
        }
    }
}

/// The registry's twin.
pub(super) struct Twin {
    pub(super) layout: Layout,
    pub(super) objects: Vec<Known>,
}

/// Every aperture, in the order that all objects are told in.
pub(super) fn apertures() -> impl Iterator<Item = Aperture> {
    let fixed = [Aperture::Svm, Aperture::SvmAlt, Aperture::MemHandle, Aperture::Cpuvm];
    fixed.into_iter().chain((0..MAX_GPUVM as u8).map(Aperture::Gpuvm))
}

impl Twin {
    fn page(&self) -> usize {
        self.layout.page.bytes()
    }

    /// Whether the rules of `insert_object` refuse it.
    pub(super) fn refuses(&self, new: &Known) -> bool {
        let page = self.page();
        let (start, end) = (new.start as u128, new.start as u128 + new.extent(page));
        let bounds = match new.aperture {
            Aperture::Cpuvm => Bounds::new(0, usize::MAX),
            Aperture::Svm => self.layout.svm,
            Aperture::SvmAlt => self.layout.svm_alt,
            Aperture::MemHandle => self.layout.mem_handle,
            Aperture::Gpuvm(position) if position < self.layout.gpuvm_count => self.layout.gpuvm[usize::from(position)],
            Aperture::Gpuvm(_) => Bounds::EMPTY,
        };
        let inside = bounds.base as u128 <= start && end <= bounds.limit as u128 + 1;
        let whole = new.start.is_multiple_of(page) && new.extent(page).is_multiple_of(page as u128);
        let overlaps = |other: &Known| {
            other.aperture == new.aperture
                && (other.start as u128) < end
                && start < other.start as u128 + other.extent(page)
        };
        let same_userptr = |other: &Known| other.is_userptr() && (other.cpu, other.size) == (new.cpu, new.size);
        // The trees' largest keys are taken.
        let top = usize::MAX as u128 - 1;
        let too_high = end >= top || (new.is_userptr() && new.cpu as u128 + new.size as u128 >= top);
        let misplaced =
            new.is_userptr() && (new.aperture != Aperture::Svm || self.objects.iter().any(same_userptr) || too_high);
        new.size == 0
            || new.kind == PointerType::Unknown
            || !inside
            || !whole
            || too_high
            || misplaced
            || self.objects.iter().any(overlaps)
    }

    /// The object of an aperture that starts at an address.
    pub(super) fn starting(&self, aperture: Aperture, start: usize) -> Option<usize> {
        self.objects.iter().position(|known| known.aperture == aperture && known.start == start)
    }

    /// Which aperture an address is in, and whether userptrs are asked first.
    fn route(&self, address: usize) -> (Option<Aperture>, bool) {
        let layout = &self.layout;
        for position in 0..layout.gpuvm_count {
            if layout.gpuvm[usize::from(position)].contains(address) {
                return (Some(Aperture::Gpuvm(position)), false);
            }
        }
        if layout.mem_handle.contains(address) {
            (Some(Aperture::MemHandle), false)
        } else if layout.svm.contains(address) {
            (Some(Aperture::Svm), layout.mmap)
        } else if layout.svm_alt.contains(address) {
            (Some(Aperture::SvmAlt), false)
        } else {
            (None, !layout.svm.is_empty())
        }
    }

    /// The userptr that holds an address: the smallest that starts there, else the greatest start, then size.
    fn stab(&self, address: usize) -> Option<&Known> {
        let holds = |known: &&Known| known.is_userptr() && known.cpu <= address && address - known.cpu < known.size;
        let holding = || self.objects.iter().filter(holds);
        let starting = holding().filter(|known| known.cpu == address).min_by_key(|known| known.size);
        starting.or_else(|| holding().max_by_key(|known| (known.cpu, known.size)))
    }

    /// What an address belongs to.
    pub(super) fn query(&self, address: usize) -> Option<Facts> {
        let (aperture, userptrs) = self.route(address);
        let page = self.page();
        let inside = |aperture: Option<Aperture>| {
            self.objects.iter().find(|known| Some(known.aperture) == aperture && known.occupies(address, page))
        };
        let userptr = if userptrs { self.stab(address) } else { None };
        let found = userptr.or_else(|| inside(aperture));
        let found = found.or_else(|| if self.layout.dgpu { None } else { inside(Some(Aperture::Cpuvm)) });
        found.map(|known| known.facts(page))
    }

    /// The exact find with any size.
    pub(super) fn exact(&self, address: usize) -> Option<usize> {
        let (aperture, userptrs) = self.route(address);
        let page = self.page();
        if userptrs {
            let at = |known: &Known| known.is_userptr() && known.cpu == address;
            let mut all = self.objects.iter().enumerate().filter(|(_, known)| at(known));
            if let (Some((only, _)), None) = (all.next(), all.next()) {
                return Some(only);
            }
        }
        let in_page = aperture.and_then(|aperture| self.starting(aperture, address - address % page));
        let fits = |known: &Known| !known.is_userptr() || known.cpu % page == address % page;
        let found = in_page.filter(|position| fits(&self.objects[*position]));
        found.or_else(|| if self.layout.dgpu { None } else { self.starting(Aperture::Cpuvm, address) })
    }

    /// Every object, aperture by aperture, by address.
    pub(super) fn all(&self) -> Vec<Facts> {
        let mut all = Vec::new();
        for aperture in apertures() {
            let mut these: Vec<&Known> = self.objects.iter().filter(|known| known.aperture == aperture).collect();
            these.sort_by_key(|known| known.start);
            all.extend(these.iter().map(|known| known.facts(self.page())));
        }
        all
    }

    /// Every address at which an answer may change.
    pub(super) fn edges(&self) -> Vec<usize> {
        let mut edges = vec![0, 1, usize::MAX - 1, usize::MAX];
        let layout = &self.layout;
        for bounds in [layout.svm, layout.svm_alt, layout.mem_handle].iter().chain(&layout.gpuvm) {
            edges.extend([bounds.base, bounds.base.wrapping_sub(1), bounds.limit, bounds.limit.wrapping_add(1)]);
        }
        for known in &self.objects {
            edges.extend(edges_of(known, self.page()));
        }
        edges
    }
}

/// The edges of one object.
pub(super) fn edges_of(known: &Known, page: usize) -> [usize; 9] {
    let end = known.start.wrapping_add(known.extent(page) as usize);
    let user_end = known.cpu.wrapping_add(known.size);
    let gpu = [known.start, known.start.wrapping_sub(1), end.wrapping_sub(1), end];
    let [a, b, c, d] = gpu;
    [a, b, c, d, known.cpu, known.cpu.wrapping_sub(1), known.cpu + 1, user_end.wrapping_sub(1), user_end]
}
