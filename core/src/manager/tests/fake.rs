//! A device that remembers everything: what it was asked, what it has, and when to fail.
//!
//! In: the driver's verbs. Out: the answers a kernel would give, with a kernel's refusals (a mapped buffer is not freed,
//! addresses of two buffers do not overlap, a userptr must be readable). A failure can be ordered for the k-th step.

use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::vec::Vec;

use crate::address::Bounds;
use crate::driver::{
    Bo, BoRequest, DmabufFd, DmabufInfo, Driver, Errno, Handle, HostMap, HostRange, IpcImport, Partial,
    ProcessApertures, SvmAttribute, VaRequest,
};
use crate::flags::{IocFlags, MemFlags};
use crate::node::{GpuId, NodeId};

/// "Device or resource busy".
pub(crate) const BUSY: Errno = Errno(16);
/// "Bad address".
pub(crate) const FAULT: Errno = Errno(14);
/// "Operation not permitted".
pub(crate) const PERM: Errno = Errno(1);
/// "File exists".
const EXIST: Errno = Errno(17);

/// Host addresses below this are nobody's.
pub(crate) const UNREADABLE: u64 = 0x10_0000;

/// Where reserved addresses come from.
const ARENA: usize = 0x7000_0000_0000;

/// What the CPU sees of reserved addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Device { gpu: GpuId, offset: u64, access: bool },
    Mmio { offset: u64 },
    Pages { node: NodeId },
    Own,
}

/// A buffer object.
#[derive(Clone, Debug)]
pub(crate) struct FakeBo {
    pub(crate) request: BoRequest<'static>,
    /// The host address of a userptr, else 0.
    pub(crate) user: u64,
    pub(crate) mapped: BTreeSet<GpuId>,
    /// Only a buffer made from a dmabuf or a share handle has one.
    pub(crate) source: &'static str,
}

impl FakeBo {
    /// Without its name: what must be equal after an undo that had to make it again.
    pub(crate) fn describe(&self) -> String {
        let BoRequest { gpu, va, size, flags, .. } = self.request;
        std::format!("{gpu:?} {va:#x} {size:#x} {flags:?} {:#x} {:?} {}", self.user, self.mapped, self.source)
    }
}

/// What the kernel and the process's address space hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    pub(crate) bos: BTreeMap<Handle, FakeBo>,
    /// Reserved addresses: start -> size.
    pub(crate) reserved: BTreeMap<usize, usize>,
    /// What is shown: start -> (size, what).
    pub(crate) shown: BTreeMap<usize, (usize, Shown)>,
    pub(crate) scratch: BTreeMap<GpuId, u64>,
    pub(crate) policies: Vec<(GpuId, bool, Bounds)>,
}

/// When to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fail {
    Never,
    /// The k-th fallible step from now, counted from 1; a map or unmap then does the first `done` GPUs.
    At(usize, usize),
    /// That step and all after it.
    From(usize, usize),
}

pub(crate) struct Fake {
    pub(crate) kernel: Kernel,
    pub(crate) apertures: Vec<ProcessApertures>,
    pub(crate) log: Vec<String>,
    pub(crate) steps: usize,
    pub(crate) fail: Fail,
    /// `None`: the SVM ioctl works; else its error.
    pub(crate) svm_error: Option<Errno>,
    pub(crate) svm_calls: Vec<(u64, u64, Vec<SvmAttribute>)>,
    /// What a read of SVM attributes gives for each.
    pub(crate) svm_answer: Vec<u32>,
    /// Says what is in use when a fixed address was refused.
    pub(crate) knows_what_is_used: bool,
    /// How far its answers are off what it was asked for.
    pub(crate) off: usize,
    /// The kernel refuses userptr buffers (secondary contexts, device memory).
    pub(crate) no_userptr: bool,
    pub(crate) dmabuf: Option<(DmabufInfo, Vec<u8>)>,
    pub(crate) ipc_offset: u64,
    pub(crate) ipc_flags: MemFlags,
    next: u64,
}

impl Fake {
    pub(crate) fn new(apertures: Vec<ProcessApertures>) -> Fake {
        Fake {
            kernel: Kernel::default(),
            apertures,
            log: Vec::new(),
            steps: 0,
            fail: Fail::Never,
            svm_error: None,
            svm_calls: Vec::new(),
            svm_answer: Vec::new(),
            knows_what_is_used: true,
            off: 0,
            no_userptr: false,
            dmabuf: None,
            ipc_offset: 0,
            ipc_flags: MemFlags::empty(),
            next: 1,
        }
    }

    /// Arms a failure; counts from the next step.
    pub(crate) fn arm(&mut self, fail: Fail) {
        self.steps = 0;
        self.fail = fail;
    }

    /// Calls of one verb in the log.
    pub(crate) fn count(&self, verb: &str) -> usize {
        self.log.iter().filter(|line| line.split(' ').next() == Some(verb)).count()
    }

    /// Notes a fallible step. `Err(done)`: it is to fail.
    fn step(&mut self, line: String) -> Result<(), usize> {
        self.log.push(line);
        self.steps += 1;
        match self.fail {
            Fail::At(k, done) if k == self.steps => Err(done),
            Fail::From(k, done) if self.steps >= k => Err(done),
            _ => Ok(()),
        }
    }

    fn simple(&mut self, line: String) -> Result<(), Errno> {
        self.step(line).map_err(|_| Errno::NOMEM)
    }

    fn is_free(&self, start: usize, end: usize) -> bool {
        let below = self.kernel.reserved.range(..end).next_back();
        below.is_none_or(|(at, size)| at + size <= start)
    }

    fn reserved(&mut self, start: usize, size: usize) -> usize {
        let answer = start + self.off;
        self.kernel.reserved.insert(answer, size);
        answer
    }

    fn new_bo(&mut self, request: BoRequest<'_>, user: u64, source: &'static str) -> Result<Bo, Errno> {
        let overlaps = |bo: &FakeBo| {
            let known = &bo.request;
            request.va < known.va + known.size && known.va < request.va + request.size
        };
        if request.va != 0 && self.kernel.bos.values().any(|bo| bo.request.va != 0 && overlaps(bo)) {
            return Err(Errno::INVAL);
        }
        let request = BoRequest { user: None, ..request };
        let handle = Handle(self.next);
        self.next += 1;
        self.kernel.bos.insert(handle, FakeBo { request, user, mapped: BTreeSet::new(), source });
        Ok(Bo { handle, mmap_offset: handle.0 << 12 })
    }

    fn alloc_of(&mut self, request: BoRequest<'_>, user: u64) -> Result<Bo, Errno> {
        self.simple(std::format!("alloc {:#x} {:?}", request.size, request.flags))?;
        assert!(request.flags.contains(IocFlags::NO_SUBSTITUTE));
        if request.size == 0 || request.va & 4095 != 0 || !self.apertures.iter().any(|known| known.gpu == request.gpu) {
            return Err(Errno::INVAL);
        }
        if request.flags.contains(IocFlags::USERPTR) {
            if self.no_userptr || user & 4095 != 0 {
                return Err(Errno::INVAL);
            }
            if user < UNREADABLE || user >> 47 != 0 {
                return Err(FAULT);
            }
        }
        self.new_bo(request, user, "alloc")
    }

    fn switch(&mut self, verb: &str, handle: Handle, gpus: &[GpuId], on: bool) -> Result<(), Partial> {
        let ordered = self.step(std::format!("{verb} {} {gpus:?}", handle.0));
        let known: BTreeSet<GpuId> = self.apertures.iter().map(|known| known.gpu).collect();
        let fail = |done| Err(Partial { errno: Errno::INVAL, done });
        let Some(bo) = self.kernel.bos.get_mut(&handle) else { return fail(0) };
        for (done, gpu) in gpus.iter().enumerate() {
            if !known.contains(gpu) || ordered.is_err_and(|wanted| wanted <= done) {
                return fail(done);
            }
            if on {
                bo.mapped.insert(*gpu);
            } else if !bo.mapped.remove(gpu) {
                return fail(done);
            }
        }
        if ordered.is_err() { fail(gpus.len()) } else { Ok(()) }
    }
}

impl Driver for Fake {
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno> {
        self.simple(std::format!("reserve {:#x} {:#x} {:#x}", request.size, request.align, request.guard))?;
        assert!(request.size > 0 && request.align.is_power_of_two() && request.size.is_multiple_of(4096));
        if let Some(start) = request.fixed {
            let end = start.checked_add(request.size).ok_or(Errno::NOMEM)?;
            if !self.is_free(start, end) {
                return Err(EXIST);
            }
            return Ok(self.reserved(start, request.size));
        }
        let mut from = ARENA;
        loop {
            let start = (from + request.guard).checked_next_multiple_of(request.align).ok_or(Errno::NOMEM)?;
            let end = start.checked_add(request.size).ok_or(Errno::NOMEM)?;
            if !request.bounds.contains_range(start, request.size) {
                return Err(Errno::NOMEM);
            }
            let padded = (start - request.guard, end.checked_add(request.guard).ok_or(Errno::NOMEM)?);
            if self.is_free(padded.0, padded.1) {
                return Ok(self.reserved(start, request.size));
            }
            let next = self.kernel.reserved.range(from.saturating_sub(1 << 40)..).find(|(at, size)| *at + *size > from);
            let (at, size) = next.ok_or(Errno::NOMEM)?;
            from = at + size;
        }
    }

    fn last_used(&mut self, range: Bounds) -> Option<usize> {
        let (start, size) = self.kernel.reserved.range(..=range.limit).next_back()?;
        let mut end = start + size;
        while let Some(size) = self.kernel.reserved.get(&end) {
            end += size;
        }
        Some(end - 1).filter(|last| self.knows_what_is_used && *last >= range.base)
    }

    unsafe fn release(&mut self, address: usize, size: usize) {
        self.log.push(std::format!("release {size:#x}"));
        assert_eq!(self.kernel.reserved.remove(&address), Some(size), "released what was not reserved so");
        self.kernel.shown.retain(|start, _| *start < address || *start >= address + size);
    }

    unsafe fn host_map(&mut self, address: usize, size: usize, what: HostMap) -> Result<(), Errno> {
        // Showing nothing cannot fail here; where it does, pages stay behind until the addresses are used again.
        if !matches!(what, HostMap::Reserved) {
            self.simple(std::format!("host_map {size:#x}"))?;
        }
        assert!(size > 0 && size.is_multiple_of(4096));
        let inside = self.kernel.reserved.range(..=address).next_back();
        assert!(inside.is_some_and(|(at, len)| address + size <= at + len), "mapped what is not reserved");
        self.kernel.shown.retain(|start, (len, _)| *start + *len <= address || *start >= address + size);
        let shown = match what {
            HostMap::Device { gpu, offset, access } => Shown::Device { gpu, offset, access },
            HostMap::Mmio { offset } => Shown::Mmio { offset },
            HostMap::Anonymous { node, .. } => Shown::Pages { node },
            HostMap::Reserved => return Ok(()),
        };
        self.kernel.shown.insert(address, (size, shown));
        Ok(())
    }

    fn host_alloc(&mut self, size: usize, align: usize, _flags: MemFlags) -> Result<usize, Errno> {
        let bounds = Bounds::new(0x1000, usize::MAX >> 17);
        let start = self.reserve(VaRequest { size, align, guard: 0, fixed: None, bounds })?;
        self.kernel.shown.insert(start, (size, Shown::Own));
        Ok(start)
    }

    fn touch(&mut self, range: HostRange<'_>) {
        self.log.push(std::format!("touch {:#x}", range.size()));
    }

    fn process_apertures(&mut self, out: &mut [ProcessApertures]) -> Result<usize, Errno> {
        self.simple("process_apertures".into())?;
        for (slot, known) in out.iter_mut().zip(&self.apertures) {
            *slot = *known;
        }
        Ok(self.apertures.len())
    }

    fn acquire_vm(&mut self, gpu: GpuId) -> Result<(), Errno> {
        self.simple(std::format!("acquire_vm {gpu:?}"))
    }

    fn set_memory_policy(&mut self, gpu: GpuId, coherent: bool, alternate: Bounds) -> Result<(), Errno> {
        self.simple(std::format!("set_memory_policy {gpu:?}"))?;
        self.kernel.policies.push((gpu, coherent, alternate));
        Ok(())
    }

    fn set_scratch_backing(&mut self, gpu: GpuId, address: u64) -> Result<(), Errno> {
        self.simple(std::format!("set_scratch_backing {gpu:?}"))?;
        assert_eq!(address & 0xffff, 0);
        self.kernel.scratch.insert(gpu, address);
        Ok(())
    }

    fn alloc(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno> {
        let user = request.user.map_or(0, |range| range.address() as u64);
        let held = request.user.map_or(0, |range| range.size() as u64);
        assert!(!request.flags.contains(IocFlags::USERPTR) || held == request.host_bytes(), "not the memory asked for");
        self.alloc_of(request, user)
    }

    unsafe fn alloc_paged(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno> {
        let shown = self.kernel.shown.get(&(request.va as usize));
        let pages = shown
            .is_some_and(|(size, what)| matches!(what, Shown::Pages { .. }) && *size as u64 >= request.host_bytes());
        assert!(request.flags.contains(IocFlags::USERPTR) && pages, "there are no pages at {:#x}", request.va);
        self.alloc_of(request, request.va)
    }

    fn free(&mut self, handle: Handle) -> Result<(), Errno> {
        self.simple(std::format!("free {}", handle.0))?;
        match self.kernel.bos.get(&handle) {
            None => Err(Errno::INVAL),
            // What was mapped on a GPU that is gone is not mapped any more.
            Some(bo) if self.apertures.iter().any(|known| bo.mapped.contains(&known.gpu)) => Err(BUSY),
            Some(_) => {
                self.kernel.bos.remove(&handle);
                Ok(())
            }
        }
    }

    fn map(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        self.switch("map", handle, gpus, true)
    }

    fn unmap(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        self.switch("unmap", handle, gpus, false)
    }

    fn svm_set(&mut self, range: HostRange<'_>, attributes: &[SvmAttribute]) -> Result<(), Errno> {
        let (start, size) = (range.address() as u64, range.size() as u64);
        self.simple(std::format!("svm_set {size:#x}"))?;
        self.svm_error.map_or(Ok(()), Err)?;
        self.svm_calls.push((start, size, attributes.to_vec()));
        Ok(())
    }

    fn svm_get(&mut self, start: u64, size: u64, attributes: &mut [SvmAttribute]) -> Result<(), Errno> {
        self.simple(std::format!("svm_get {size:#x}"))?;
        self.svm_error.map_or(Ok(()), Err)?;
        self.svm_calls.push((start, size, attributes.to_vec()));
        for (attribute, value) in attributes.iter_mut().zip(&self.svm_answer) {
            attribute.value = *value;
        }
        Ok(())
    }

    fn dmabuf_info(&mut self, fd: DmabufFd<'_>, metadata: &mut [u8]) -> Result<DmabufInfo, (Errno, u32)> {
        self.simple(std::format!("dmabuf_info {}", fd.raw())).map_err(|errno| (errno, 0))?;
        let (info, bytes) = self.dmabuf.as_ref().ok_or((Errno::INVAL, 0))?;
        let wanted = bytes.len();
        if wanted > metadata.len() {
            return Err((Errno::INVAL, wanted as u32));
        }
        metadata[..wanted].copy_from_slice(bytes);
        Ok(DmabufInfo { metadata_size: wanted as u32, ..*info })
    }

    fn dmabuf_import(&mut self, fd: DmabufFd<'_>, gpu: GpuId, va: u64) -> Result<Handle, Errno> {
        self.simple(std::format!("dmabuf_import {} {va:#x}", fd.raw()))?;
        let size = self.dmabuf.as_ref().map_or(0, |(info, _)| info.size);
        let request = BoRequest { gpu, va, size, flags: IocFlags::empty(), user: None };
        self.new_bo(request, 0, "dmabuf").map(|bo| bo.handle)
    }

    fn dmabuf_export(&mut self, handle: Handle) -> Result<i32, Errno> {
        self.simple(std::format!("dmabuf_export {}", handle.0))?;
        if self.kernel.bos.contains_key(&handle) { Ok(1000 + handle.0 as i32) } else { Err(Errno::INVAL) }
    }

    fn ipc_export(&mut self, handle: Handle, gpu: GpuId, flags: MemFlags) -> Result<[u32; 4], Errno> {
        self.simple(std::format!("ipc_export {} {gpu:?} {:#x}", handle.0, flags.bits()))?;
        if self.kernel.bos.contains_key(&handle) { Ok([7, 7, 7, handle.0 as u32]) } else { Err(Errno::INVAL) }
    }

    fn ipc_import(&mut self, share: [u32; 4], gpu: GpuId, va: u64) -> Result<IpcImport, Errno> {
        self.simple(std::format!("ipc_import {} {va:#x}", share[3]))?;
        if share[..3] != [7, 7, 7] {
            return Err(Errno::INVAL);
        }
        let request = BoRequest { gpu, va, size: 4096, flags: IocFlags::empty(), user: None };
        let Bo { handle, .. } = self.new_bo(request, 0, "ipc")?;
        Ok(IpcImport { handle, mmap_offset: self.ipc_offset, flags: self.ipc_flags })
    }
}
