//! The two flag words: [`MemFlags`], as callers give them (`HsaMemFlags`), and [`IocFlags`], as the kernel takes them
//! (`KFD_IOC_ALLOC_MEM_FLAGS_*`). Bits that neither knows are kept.

use bitflags::bitflags;

bitflags! {
    /// `HsaMemFlags`: how memory is wanted. Unknown bits are kept and read back as given.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct MemFlags: u32 {
        /// Not pageable: VRAM on a GPU node, GTT on a CPU node.
        const NON_PAGED = 1 << 0;
        /// Bits 1-2: cache policy, ignored by the library.
        const CACHE_POLICY = 3 << 1;
        /// Read only for the GPU.
        const READ_ONLY = 1 << 3;
        /// Bits 4-5: page size, see [`MemFlags::page_size`].
        const PAGE_SIZE = 3 << 4;
        /// The host may read and write it.
        const HOST_ACCESS = 1 << 6;
        /// Fail rather than fall back to another NUMA node.
        const NO_SUBSTITUTE = 1 << 7;
        /// Group memory (LDS).
        const GDS_MEMORY = 1 << 8;
        /// Scratch backing memory.
        const SCRATCH = 1 << 9;
        /// Access is atomic on every GPU.
        const ATOMIC_ACCESS_FULL = 1 << 10;
        /// Access is atomic on some GPUs.
        const ATOMIC_ACCESS_PARTIAL = 1 << 11;
        /// Code may run from it.
        const EXECUTE_ACCESS = 1 << 12;
        /// Coherent only at kernel boundaries.
        const COARSE_GRAIN = 1 << 13;
        /// An AQL ring: mapped twice, one copy behind the other.
        const AQL_QUEUE_MEMORY = 1 << 14;
        /// At exactly the address given.
        const FIXED_ADDRESS = 1 << 15;
        /// Do not bind to the NUMA node.
        const NO_NUMA_BIND = 1 << 16;
        /// Not cached.
        const UNCACHED = 1 << 17;
        /// VRAM without an address.
        const NO_ADDRESS = 1 << 18;
        /// An address without memory.
        const ONLY_ADDRESS = 1 << 19;
        /// Coherent across devices.
        const EXTENDED_COHERENT = 1 << 20;
        /// Host memory through GTT even for a GPU node.
        const GTT_ACCESS = 1 << 21;
        /// Physically contiguous, best effort. Needs KFD 1.16.
        const CONTIGUOUS = 1 << 22;
        /// Used by blit kernels.
        const EXECUTE_BLIT = 1 << 23;
        const _ = !0;
    }

    /// `KFD_IOC_ALLOC_MEM_FLAGS_*`: what the kernel is asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct IocFlags: u32 {
        /// On the GPU.
        const VRAM = 1 << 0;
        /// In host memory, made by the kernel.
        const GTT = 1 << 1;
        /// In host memory that already exists.
        const USERPTR = 1 << 2;
        /// A doorbell page.
        const DOORBELL = 1 << 3;
        /// The remapped MMIO page.
        const MMIO_REMAP = 1 << 4;
        /// Physically contiguous, best effort.
        const CONTIGUOUS_BEST_EFFORT = 1 << 23;
        /// Coherent across devices.
        const EXT_COHERENT = 1 << 24;
        /// Not cached.
        const UNCACHED = 1 << 25;
        /// Fine grained.
        const COHERENT = 1 << 26;
        /// An AQL ring.
        const AQL_QUEUE_MEM = 1 << 27;
        /// Fail rather than place it elsewhere.
        const NO_SUBSTITUTE = 1 << 28;
        /// VRAM the host can see.
        const PUBLIC = 1 << 29;
        /// Code may run from it.
        const EXECUTABLE = 1 << 30;
        /// The GPU may write.
        const WRITABLE = 1 << 31;
        const _ = !0;
    }
}

impl MemFlags {
    /// The page size the flags ask for: 4 KiB, 64 KiB, 2 MiB or 1 GiB.
    pub const fn page_size(self) -> usize {
        match (self.bits() >> 4) & 3 {
            0 => 4 << 10,
            1 => 64 << 10,
            2 => 2 << 20,
            _ => 1 << 30,
        }
    }

    /// What the ioctl bits of a userptr or an imported buffer read back as.
    pub fn from_ioc(ioc: IocFlags) -> MemFlags {
        let mut flags = MemFlags::empty();
        flags.set(MemFlags::READ_ONLY, !ioc.contains(IocFlags::WRITABLE));
        flags.set(MemFlags::COARSE_GRAIN, !ioc.contains(IocFlags::COHERENT));
        flags.set(MemFlags::EXTENDED_COHERENT, ioc.contains(IocFlags::EXT_COHERENT));
        flags.set(MemFlags::HOST_ACCESS, ioc.contains(IocFlags::PUBLIC));
        flags
    }

    /// The ioctl bits that AQL, read-only and execute access ask for.
    pub fn to_ioc(self) -> IocFlags {
        let mut ioc = IocFlags::empty();
        if self.contains(MemFlags::AQL_QUEUE_MEMORY) {
            ioc |= IocFlags::AQL_QUEUE_MEM | IocFlags::UNCACHED;
        }
        ioc.set(IocFlags::WRITABLE, !self.contains(MemFlags::READ_ONLY));
        ioc.set(IocFlags::EXECUTABLE, self.contains(MemFlags::EXECUTE_ACCESS));
        ioc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_34_userptr_flags_read_back_from_the_ioctl_bits() {
        let userptr = IocFlags::USERPTR | IocFlags::WRITABLE | IocFlags::EXECUTABLE;
        assert_eq!(MemFlags::from_ioc(userptr), MemFlags::COARSE_GRAIN);
        assert_eq!(MemFlags::from_ioc(userptr | IocFlags::COHERENT), MemFlags::empty());
        assert_eq!(
            MemFlags::from_ioc(IocFlags::COHERENT | IocFlags::EXT_COHERENT | IocFlags::PUBLIC),
            MemFlags::READ_ONLY | MemFlags::EXTENDED_COHERENT | MemFlags::HOST_ACCESS
        );
    }

    #[test]
    fn case_18_unknown_bits_are_kept() {
        assert_eq!(MemFlags::from_bits_retain(0xff00_0041).bits(), 0xff00_0041);
    }

    #[test]
    fn page_sizes() {
        let sizes = [0u32, 1, 2, 3].map(|order| MemFlags::from_bits_retain(order << 4).page_size());
        assert_eq!(sizes, [4096, 65536, 2 << 20, 1 << 30]);
    }
}
