//! A GPU's render node: what its buffers are mapped through, and the two questions that topology needs DRM for.
//!
//! Every GPU driver has render nodes, and each has other ioctls under the numbers of amdgpu's. So the driver is asked for its
//! name first, which all answer alike.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use hsakmt_core::driver::Errno;
use rustix::ioctl::{Opcode, Updater, opcode};
use zerocopy::FromZeros;

use super::{LibdrmDevice, open, restart};
use crate::host::errno;
use crate::topology::GpuFacts;

/// A GPU's render node, `/dev/dri/renderD<minor>`.
#[derive(Debug)]
pub struct RenderNode {
    /// libdrm's device on it, once a caller has asked for one. Dropped before the descriptor.
    device: Option<LibdrmDevice>,
    fd: OwnedFd,
    /// Of no other render node that this process has opened.
    number: u64,
}

/// A copy of a render node's descriptor, and which render node that is.
#[derive(Debug)]
pub struct RenderCopy {
    fd: OwnedFd,
    number: u64,
}

impl AsFd for RenderCopy {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What every DRM driver says of itself.
#[doc(alias = "drm_version")]
#[derive(zerocopy::FromZeros)]
#[repr(C)]
struct VersionRequest {
    version: [i32; 3],
    name_len: usize,
    name: usize,
    date_len: usize,
    date: usize,
    description_len: usize,
    description: usize,
}

/// `DRM_IOCTL_VERSION`
const VERSION: Opcode = opcode::read_write::<VersionRequest>(b'd', 0);

/// The driver that [`RenderNode::gpu_facts`] asks.
const AMDGPU: &[u8] = b"amdgpu";

/// The request that `AMDGPU_INFO` takes.
#[doc(alias = "drm_amdgpu_info")]
#[derive(zerocopy::FromZeros)]
#[repr(C)]
struct InfoRequest {
    return_pointer: u64,
    return_size: u32,
    query: u32,
    /// A union; this query has no parameters.
    parameters: [u32; 4],
}

/// The start of what `AMDGPU_INFO_DEV_INFO` returns; the kernel copies as much as is asked for.
#[doc(alias = "drm_amdgpu_info_device")]
#[derive(Clone, Copy, Default, zerocopy::FromBytes)]
#[repr(C)]
struct DeviceInfo {
    device_id: u32,
    chip_rev: u32,
    external_rev: u32,
    pci_rev: u32,
    family: u32,
    /// Engines, arrays, clocks and compute units.
    between: [u32; 29],
    ids_flags: u64,
}

/// `DRM_IOCTL_AMDGPU_INFO`: type 'd', driver command 5.
const INFO: Opcode = opcode::write::<InfoRequest>(b'd', 0x40 + 5);

/// `AMDGPU_INFO_DEV_INFO`
const DEV_INFO: u32 = 0x16;

/// `AMDGPU_IDS_FLAGS_FUSION`: the GPU of an APU.
const FUSION: u64 = 1;

impl RenderNode {
    /// The minors that the kernel gives to render nodes.
    pub const MINORS: std::ops::RangeInclusive<u32> = 128..=255;

    /// Opens the render node with this minor; `EINVAL` for a minor that can be none.
    pub fn open(minor: u32) -> Result<RenderNode, Errno> {
        if !RenderNode::MINORS.contains(&minor) {
            return Err(Errno::INVAL);
        }
        Ok(RenderNode::of(open(&format!("/dev/dri/renderD{minor}"))?))
    }

    /// Takes a descriptor for a render node.
    ///
    /// ```compile_fail,E0133
    /// # use hsakmt_kfd::device::RenderNode;
    /// fn of_any_file(file: std::fs::File) -> RenderNode {
    ///     RenderNode::from_fd(file.into())
    /// }
    /// ```
    ///
    /// # Safety
    /// It is open on a render node of some GPU driver, or on a file that answers each request of DRM and of amdgpu with an
    /// error and does nothing else.
    pub unsafe fn from_fd(fd: OwnedFd) -> RenderNode {
        RenderNode::of(fd)
    }

    fn of(fd: OwnedFd) -> RenderNode {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only that each number is another.
        RenderNode { device: None, fd, number: NUMBER.fetch_add(1, Ordering::Relaxed) }
    }

    /// libdrm's device on it, if there is one.
    pub fn libdrm_device(&self) -> Option<&LibdrmDevice> {
        self.device.as_ref()
    }

    /// A copy of the descriptor, to make a libdrm device on while other threads use and close this one.
    pub fn copy(&self) -> Result<RenderCopy, Errno> {
        let fd = rustix::io::fcntl_dupfd_cloexec(&self.fd, 0).map_err(errno)?;
        Ok(RenderCopy { fd, number: self.number })
    }

    /// Keeps `device`, which was made on `copy`. It comes back if there is one already, or `copy` is of another node.
    pub fn keep_libdrm_device(&mut self, copy: &RenderCopy, device: LibdrmDevice) -> Result<(), LibdrmDevice> {
        if self.device.is_some() || copy.number != self.number {
            return Err(device);
        }
        self.device = Some(device);
        Ok(())
    }

    /// Whether its driver is amdgpu.
    fn is_amdgpu(&self) -> Result<bool, Errno> {
        let mut name = [0u8; AMDGPU.len()];
        let mut request = VersionRequest::new_zeroed();
        (request.name_len, request.name) = (name.len(), name.as_mut_ptr().expose_provenance());
        restart(|| {
            // SAFETY: VERSION's struct is a `VersionRequest`.
            let call = unsafe { Updater::<VERSION, VersionRequest>::new(&mut request) };
            // SAFETY: the kernel writes at most `name_len` bytes at `name`, and nothing for the two texts of length 0.
            unsafe { rustix::ioctl::ioctl(&self.fd, call) }.map_err(errno)
        })?;
        Ok(request.name_len == AMDGPU.len() && name == AMDGPU)
    }

    /// What amdgpu says about the GPU; `EINVAL` for a GPU of another driver.
    #[doc(alias = "AMDGPU_INFO_DEV_INFO")]
    pub fn gpu_facts(&self) -> Result<GpuFacts, Errno> {
        if !self.is_amdgpu()? {
            return Err(Errno::INVAL);
        }
        let mut info = DeviceInfo::new_zeroed();
        let mut request = InfoRequest {
            return_pointer: std::ptr::from_mut(&mut info).expose_provenance() as u64,
            return_size: size_of::<DeviceInfo>() as u32,
            query: DEV_INFO,
            parameters: [0; 4],
        };
        restart(|| {
            // SAFETY: INFO's struct is an `InfoRequest`.
            let call = unsafe { Updater::<INFO, InfoRequest>::new(&mut request) };
            // SAFETY: amdgpu writes at most `return_size` bytes at `return_pointer`, where `info` has them.
            unsafe { rustix::ioctl::ioctl(&self.fd, call) }.map_err(errno)
        })?;
        Ok(GpuFacts { pci_revision: info.pci_rev, family_id: info.family, integrated: info.ids_flags & FUSION != 0 })
    }
}

impl AsFd for RenderNode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structs_are_where_the_kernel_writes() {
        #[cfg(target_pointer_width = "64")]
        assert_eq!(
            (size_of::<VersionRequest>(), std::mem::offset_of!(VersionRequest, name), VERSION),
            (64, 24, 0xc040_6400)
        );
        assert_eq!(size_of::<InfoRequest>(), 32);
        assert_eq!(INFO, 0x4020_6445);
        assert_eq!(std::mem::offset_of!(DeviceInfo, family), 16);
        assert_eq!(std::mem::offset_of!(DeviceInfo, ids_flags), 136);
        assert_eq!(size_of::<DeviceInfo>(), 144);
    }

    #[test]
    fn minors_that_are_no_render_nodes_are_refused() {
        for minor in [0, 127, 256, u32::MAX] {
            assert_eq!(RenderNode::open(minor).err(), Some(Errno::INVAL));
        }
    }

    #[test]
    fn a_file_that_is_no_gpu_has_no_facts() {
        // SAFETY: /dev/null answers each request with an error.
        let null = unsafe { RenderNode::from_fd(open("/dev/null").unwrap()) };
        assert_eq!(null.gpu_facts(), Err(Errno::NOTTY));
    }
}
