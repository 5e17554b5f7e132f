//! [`KfdDriver`] answers the memory manager's verbs with a KFD, the render nodes beside it, and an address space: the real
//! ones, or the simulated machine's.
//!
//! It decides nothing. Each verb is one call of [`Device`] or of [`AddressSpace`]; what it adds is the table from GPU to
//! render node, which both acquiring a GPU and mapping its buffers need.
//!
//! The SAFETY notes below rest on the contracts of [`Driver`]'s `unsafe` methods.

use std::os::fd::{AsFd, AsRawFd, IntoRawFd, RawFd};
use std::sync::Arc;

use hsakmt_core::address::Bounds;
use hsakmt_core::driver::{
    Bo, BoRequest, DmabufFd, DmabufInfo, Driver, Errno, Handle, HostMap, HostRange, IpcImport, Partial,
    ProcessApertures, SvmAttribute, VaRequest,
};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::GpuId;

use crate::device::{self, Device, Kfd, RenderNode, Transport};
use crate::host::{AddressSpace, Shown};
use crate::topology::Topology;

/// A GPU's render node that does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("/dev/dri/renderD{minor} of GPU {:#x}: {}", gpu.0, device::open_failure(*errno))]
pub struct RenderNodeError {
    /// Which GPU.
    pub gpu: GpuId,
    /// The render node's minor number.
    pub minor: u32,
    /// What opening it said.
    pub errno: Errno,
}

impl From<RenderNodeError> for Errno {
    fn from(error: RenderNodeError) -> Errno {
        error.errno
    }
}

/// An open KFD with all its GPUs.
#[derive(Debug)]
pub struct KfdDriver<T: Transport = Kfd> {
    device: Arc<Device<T>>,
    renders: Vec<(GpuId, RenderNode)>,
    space: T::Space,
}

impl<T: Transport> KfdDriver<T> {
    /// A driver for the GPUs of `topology`: opens their render nodes.
    pub fn new(device: Device<T>, topology: &Topology) -> Result<KfdDriver<T>, RenderNodeError> {
        let mut driver = KfdDriver::without_gpus(device);
        driver.add_gpus(topology)?;
        Ok(driver)
    }

    /// A driver that knows no GPU yet, for a process that has opened KFD but not read the topology.
    pub fn without_gpus(device: Device<T>) -> KfdDriver<T> {
        let space = device.transport().space();
        KfdDriver { device: Arc::new(device), renders: Vec::new(), space }
    }

    /// A driver whose render nodes are open already.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn with_renders(device: Device<T>, renders: Vec<(GpuId, RenderNode)>) -> KfdDriver<T> {
        KfdDriver { renders, ..KfdDriver::without_gpus(device) }
    }

    /// Opens the render nodes of GPUs that the driver does not know yet. If one fails none is added.
    pub fn add_gpus(&mut self, topology: &Topology) -> Result<(), RenderNodeError> {
        let mut new = Vec::new();
        for node in topology.nodes.iter().filter(|node| node.gpu_id != 0) {
            let (gpu, minor) = (node.gpu(), node.drm_render_minor);
            if self.render(gpu).is_err() {
                let render = self.device.transport().open_render(minor);
                new.push((gpu, render.map_err(|errno| RenderNodeError { gpu, minor, errno })?));
            }
        }
        self.renders.append(&mut new);
        Ok(())
    }

    /// Closes the render nodes of GPUs that `topology` does not show.
    pub fn keep_gpus(&mut self, topology: &Topology) {
        self.renders.retain(|(gpu, _)| topology.nodes.iter().any(|node| node.gpu() == *gpu));
    }

    /// The device, for the ioctls that are no verbs of the manager.
    pub fn device(&self) -> &Device<T> {
        &self.device
    }

    /// A counted reference to the device. A call that waits keeps the device open through it while another thread uses or ends
    /// the driver.
    pub fn shared_device(&self) -> Arc<Device<T>> {
        Arc::clone(&self.device)
    }

    /// Its addresses.
    pub fn space(&self) -> &T::Space {
        &self.space
    }

    /// The numbers of all descriptors it holds: what a forked child inherits and must close.
    pub fn raw_fds(&self) -> Vec<RawFd> {
        let renders = self.renders.iter().map(|(_, render)| render.as_fd().as_raw_fd());
        std::iter::once(self.device.as_fd().as_raw_fd()).chain(renders).collect()
    }

    /// The render node of a GPU; `EINVAL` for one the driver does not know.
    pub fn render(&self, gpu: GpuId) -> Result<&RenderNode, Errno> {
        render_of(&self.renders, gpu)
    }

    /// As [`KfdDriver::render`], to change it.
    pub fn render_mut(&mut self, gpu: GpuId) -> Result<&mut RenderNode, Errno> {
        let found = self.renders.iter_mut().find(|(id, _)| *id == gpu);
        found.map(|(_, render)| render).ok_or(Errno::INVAL)
    }
}

fn render_of(renders: &[(GpuId, RenderNode)], gpu: GpuId) -> Result<&RenderNode, Errno> {
    let found = renders.iter().find(|(id, _)| *id == gpu);
    found.map(|(_, render)| render).ok_or(Errno::INVAL)
}

impl<T: Transport> Driver for KfdDriver<T> {
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno> {
        self.space.reserve(request)
    }

    fn last_used(&mut self, range: Bounds) -> Option<usize> {
        self.space.last_used(range)
    }

    unsafe fn release(&mut self, address: usize, size: usize) {
        // SAFETY: by contract `space` has answered it, and this is its end.
        unsafe { self.space.release(address, size) }
    }

    unsafe fn host_map(&mut self, address: usize, size: usize, what: HostMap) -> Result<(), Errno> {
        let what = match what {
            HostMap::Device { gpu, offset, access } => {
                Shown::File { file: render_of(&self.renders, gpu)?.as_fd(), offset, access }
            }
            HostMap::Mmio { offset } => Shown::File { file: self.device.as_fd(), offset, access: true },
            HostMap::Anonymous { node, flags } => Shown::Anonymous { node, flags },
            HostMap::Reserved => Shown::Reserved,
        };
        // SAFETY: by contract `space` has reserved it. A file's bytes are the caller's buffer, or the MMIO page.
        unsafe { self.space.show(address, size, what) }
    }

    fn host_alloc(&mut self, size: usize, align: usize, flags: MemFlags) -> Result<usize, Errno> {
        self.space.alloc(size, align, flags)
    }

    fn touch(&mut self, range: HostRange<'_>) {
        self.space.touch(range)
    }

    fn process_apertures(&mut self, out: &mut [ProcessApertures]) -> Result<usize, Errno> {
        self.device.process_apertures(out)
    }

    fn acquire_vm(&mut self, gpu: GpuId) -> Result<(), Errno> {
        self.device.acquire_vm(gpu, self.render(gpu)?.as_fd())
    }

    fn set_memory_policy(&mut self, gpu: GpuId, coherent: bool, alternate: Bounds) -> Result<(), Errno> {
        self.device.set_memory_policy(gpu, coherent, alternate)
    }

    fn set_scratch_backing(&mut self, gpu: GpuId, address: u64) -> Result<(), Errno> {
        self.device.set_scratch_backing(gpu, address)
    }

    fn alloc(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno> {
        self.device.alloc_memory(request)
    }

    unsafe fn alloc_paged(&mut self, request: BoRequest<'_>) -> Result<Bo, Errno> {
        let bounds = (usize::try_from(request.va), usize::try_from(request.host_bytes()));
        let (Ok(address), Ok(size)) = bounds else { return Err(Errno::INVAL) };
        // SAFETY: by contract these are pages that `space` shows until the object is freed. They were made for devices, and
        // are no Rust object.
        let user = Some(unsafe { HostRange::new(address, size) });
        self.device.alloc_memory(BoRequest { user, ..request })
    }

    fn free(&mut self, handle: Handle) -> Result<(), Errno> {
        self.device.free_memory(handle)
    }

    fn map(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        self.device.map_memory(handle, gpus)
    }

    fn unmap(&mut self, handle: Handle, gpus: &[GpuId]) -> Result<(), Partial> {
        self.device.unmap_memory(handle, gpus)
    }

    fn svm_set(&mut self, range: HostRange<'_>, attributes: &[SvmAttribute]) -> Result<(), Errno> {
        self.device.svm_set(range, attributes)
    }

    fn svm_get(&mut self, start: u64, size: u64, attributes: &mut [SvmAttribute]) -> Result<(), Errno> {
        self.device.svm_get(start, size, attributes)
    }

    fn dmabuf_info(&mut self, fd: DmabufFd<'_>, metadata: &mut [u8]) -> Result<DmabufInfo, (Errno, u32)> {
        self.device.dmabuf_info(fd, metadata)
    }

    fn dmabuf_import(&mut self, fd: DmabufFd<'_>, gpu: GpuId, va: u64) -> Result<Handle, Errno> {
        self.device.import_dmabuf(fd, gpu, va)
    }

    fn dmabuf_export(&mut self, handle: Handle) -> Result<i32, Errno> {
        self.device.export_dmabuf(handle).map(IntoRawFd::into_raw_fd)
    }

    fn ipc_export(&mut self, handle: Handle, gpu: GpuId, flags: MemFlags) -> Result<[u32; 4], Errno> {
        self.device.ipc_export(handle, gpu, flags)
    }

    fn ipc_import(&mut self, share: [u32; 4], gpu: GpuId, va: u64) -> Result<IpcImport, Errno> {
        self.device.ipc_import(share, gpu, va)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::topology::Node;
    use hsakmt_core::flags::IocFlags;
    use hsakmt_core::node::NodeId;

    const GPU: GpuId = GpuId(7);
    const PAGE: usize = 4096;

    /// A driver whose KFD knows nothing, and whose only GPU is a file of eight pages.
    fn driver() -> KfdDriver {
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 * PAGE as u64).unwrap();
        // SAFETY: /dev/null answers each request with an error.
        let device = unsafe { Device::from_fd(OwnedFd::from(null)) };
        // SAFETY: so does a file on a disk.
        let render = unsafe { RenderNode::from_fd(OwnedFd::from(file)) };
        KfdDriver::with_renders(device, vec![(GPU, render)])
    }

    fn host_map(driver: &mut KfdDriver, address: usize, what: HostMap) -> Result<(), Errno> {
        // SAFETY: each test passes a page that it has reserved, and uses no pointer to what it has shown before.
        unsafe { driver.host_map(address, PAGE, what) }
    }

    fn release(driver: &mut KfdDriver, address: usize) {
        // SAFETY: each test passes a page that it has reserved or allocated, at its end.
        unsafe { driver.release(address, PAGE) }
    }

    /// Memory of the test's, or an address that claims to be.
    fn range(address: usize, size: usize) -> HostRange<'static> {
        // SAFETY: there is no device here.
        unsafe { HostRange::new(address, size) }
    }

    fn reserve(driver: &mut KfdDriver) -> usize {
        let bounds = Bounds::new(0, usize::MAX);
        driver.reserve(VaRequest { size: PAGE, align: PAGE, guard: PAGE, fixed: None, bounds }).unwrap()
    }

    fn byte(address: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(address)
    }

    #[test]
    fn a_buffer_shows_the_bytes_of_its_gpus_render_node() {
        let mut driver = driver();
        let (first, second) = (reserve(&mut driver), reserve(&mut driver));
        let device = |offset| HostMap::Device { gpu: GPU, offset, access: true };
        host_map(&mut driver, first, device(3 * PAGE as u64)).unwrap();
        host_map(&mut driver, second, device(3 * PAGE as u64)).unwrap();
        // SAFETY: mapped above, readable and writable.
        unsafe { byte(first).write_volatile(9) };
        // SAFETY: as above.
        assert_eq!(unsafe { byte(second).read_volatile() }, 9);
        host_map(&mut driver, second, device(0)).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { byte(second).read_volatile() }, 0);
        release(&mut driver, first);
        release(&mut driver, second);
    }

    #[test]
    fn each_thing_to_show_goes_where_it_belongs() {
        let mut driver = driver();
        let address = reserve(&mut driver);
        host_map(&mut driver, address, HostMap::Anonymous { node: NodeId(0), flags: MemFlags::empty() }).unwrap();
        driver.touch(range(address, PAGE));
        host_map(&mut driver, address, HostMap::Reserved).unwrap();
        // /dev/null cannot be mapped, and GPU 8 does not exist.
        assert_eq!(host_map(&mut driver, address, HostMap::Mmio { offset: 0 }), Err(Errno(libc::ENODEV)));
        let unknown = HostMap::Device { gpu: GpuId(8), offset: 0, access: true };
        assert_eq!(host_map(&mut driver, address, unknown), Err(Errno::INVAL));
        // After all these the address is still reserved.
        let bounds = Bounds::new(0, usize::MAX);
        let there = VaRequest { size: PAGE, align: PAGE, guard: 0, fixed: Some(address), bounds };
        assert_eq!(driver.reserve(there), Err(Errno(libc::EEXIST)));
        release(&mut driver, address);

        let memory = driver.host_alloc(PAGE, PAGE, MemFlags::empty()).unwrap();
        release(&mut driver, memory);
    }

    #[test]
    fn every_verb_reaches_the_device() {
        let mut driver = driver();
        let request = BoRequest { gpu: GPU, va: 0, size: 4096, flags: IocFlags::GTT, user: None };
        let handle = Handle(1);
        let file = std::fs::File::open("/dev/null").unwrap();
        let fd = device::dmabuf(file.as_fd());
        let none = Some(Errno::NOTTY);
        assert_eq!(driver.acquire_vm(GPU).err(), none);
        assert_eq!(driver.acquire_vm(GpuId(8)).err(), Some(Errno::INVAL));
        assert_eq!(driver.set_memory_policy(GPU, false, Bounds::EMPTY).err(), none);
        assert_eq!(driver.set_scratch_backing(GPU, 0).err(), none);
        assert_eq!(driver.alloc(request).err(), none);
        assert_eq!(driver.free(handle).err(), none);
        assert_eq!(driver.map(handle, &[GPU]), Err(Partial { errno: Errno::NOTTY, done: 0 }));
        assert_eq!(driver.unmap(handle, &[GPU]), Err(Partial { errno: Errno::NOTTY, done: 0 }));
        assert_eq!(driver.process_apertures(&mut []).err(), none);
        assert_eq!(driver.svm_set(range(0, 4096), &[]).err(), none);
        assert_eq!(driver.svm_get(0, 4096, &mut []).err(), none);
        assert_eq!(driver.dmabuf_info(fd, &mut []).err(), Some((Errno::NOTTY, 0)));
        assert_eq!(driver.dmabuf_import(fd, GPU, 0).err(), none);
        assert_eq!(driver.dmabuf_export(handle).err(), none);
        assert_eq!(driver.ipc_export(handle, GPU, MemFlags::empty()).err(), none);
        assert_eq!(driver.ipc_import([0; 4], GPU, 0).err(), none);
        assert_eq!(driver.raw_fds().len(), 2);
    }

    #[test]
    fn a_gpu_that_does_not_open_adds_none() {
        let mut driver = driver();
        let node = |gpu_id, drm_render_minor| Node { gpu_id, drm_render_minor, ..Node::default() };
        let cpu_and_known = Topology { nodes: vec![node(0, 0), node(GPU.0, 0)], ..Topology::default() };
        assert_eq!(driver.add_gpus(&cpu_and_known), Ok(()));
        let bad = Topology { nodes: vec![node(9, 127)], ..Topology::default() };
        let error = driver.add_gpus(&bad).unwrap_err();
        assert_eq!(error, RenderNodeError { gpu: GpuId(9), minor: 127, errno: Errno::INVAL });
        assert!(error.to_string().starts_with("/dev/dri/renderD127 of GPU 0x9: Invalid argument"), "{error}");
        assert_eq!(driver.raw_fds().len(), 2);
        driver.keep_gpus(&cpu_and_known);
        assert_eq!(driver.raw_fds().len(), 2);
        driver.keep_gpus(&bad);
        assert_eq!(driver.raw_fds().len(), 1, "what is not shown is closed");
        let device = Arc::into_inner(driver.device).expect("no other count");
        assert!(KfdDriver::new(device, &bad).is_err());
    }
}
