//! Buffer objects, dmabufs, buffers shared between processes, and shared virtual memory.

structs! {
    /// Makes a buffer object.
    "kfd_ioctl_alloc_memory_of_gpu_args" => AllocMemoryOfGpuArgs {
        /// In. GPU address.
        va_addr: u64,
        /// In.
        size: u64,
        /// Out.
        handle: u64,
        /// In: the host address of a userptr. Out: where its bytes are in the render node.
        mmap_offset: u64,
        /// In.
        gpu_id: u32,
        /// In. `KFD_IOC_ALLOC_MEM_FLAGS_*`.
        flags: u32,
    }

    /// Ends a buffer object.
    "kfd_ioctl_free_memory_of_gpu_args" => FreeMemoryOfGpuArgs {
        /// In.
        handle: u64,
    }

    /// How much VRAM could be allocated.
    "kfd_ioctl_get_available_memory_args" => GetAvailableMemoryArgs {
        /// Out.
        available: u64,
        /// In.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }

    /// Maps a buffer object on GPUs.
    "kfd_ioctl_map_memory_to_gpu_args" => MapMemoryToGpuArgs {
        /// In.
        handle: u64,
        /// In. Address of an array of u32 GPU ids.
        device_ids_array_ptr: u64,
        /// In.
        n_devices: u32,
        /// In, out. How many from the front are done; 0 at first.
        n_success: u32,
    }

    /// Unmaps a buffer object from GPUs.
    "kfd_ioctl_unmap_memory_from_gpu_args" => UnmapMemoryFromGpuArgs {
        /// In.
        handle: u64,
        /// In. Address of an array of u32 GPU ids.
        device_ids_array_ptr: u64,
        /// In.
        n_devices: u32,
        /// In, out. How many from the front are done; 0 at first.
        n_success: u32,
    }

    /// Asks a dmabuf for size, GPU, flags and metadata.
    "kfd_ioctl_get_dmabuf_info_args" => GetDmabufInfoArgs {
        /// Out.
        size: u64,
        /// In. Address of room for metadata.
        metadata_ptr: u64,
        /// In, out. Bytes of room; bytes of metadata there are.
        metadata_size: u32,
        /// Out.
        gpu_id: u32,
        /// Out. `KFD_IOC_ALLOC_MEM_FLAGS_*`.
        flags: u32,
        /// In.
        dmabuf_fd: u32,
    }

    /// Makes a buffer object of a dmabuf.
    "kfd_ioctl_import_dmabuf_args" => ImportDmabufArgs {
        /// In.
        va_addr: u64,
        /// Out.
        handle: u64,
        /// In.
        gpu_id: u32,
        /// In.
        dmabuf_fd: u32,
    }

    /// Makes a dmabuf of a buffer object.
    "kfd_ioctl_export_dmabuf_args" => ExportDmabufArgs {
        /// In.
        handle: u64,
        /// In. `O_CLOEXEC` and access mode.
        flags: u32,
        /// Out.
        dmabuf_fd: u32,
    }

    /// Names a buffer object for other processes.
    "kfd_ioctl_ipc_export_handle_args" => IpcExportHandleArgs {
        /// In.
        handle: u64,
        /// Out. The name.
        share_handle: [u32; 4],
        /// In.
        gpu_id: u32,
        /// In. The HSA memory flags, for the importer.
        flags: u32,
    }

    /// Takes over a buffer object by name.
    "kfd_ioctl_ipc_import_handle_args" => IpcImportHandleArgs {
        /// Out.
        handle: u64,
        /// In.
        va_addr: u64,
        /// Out.
        mmap_offset: u64,
        /// In. The name.
        share_handle: [u32; 4],
        /// In.
        gpu_id: u32,
        /// Out. The exporter's HSA memory flags.
        flags: u32,
    }

    /// A piece of GPU address space.
    "kfd_memory_range" => MemoryRange {
        /// First address.
        va_addr: u64,
        /// Bytes.
        size: u64,
    }

    /// Copies between two processes.
    "kfd_ioctl_cross_memory_copy_args" => CrossMemoryCopyArgs {
        /// In. The other process.
        pid: u32,
        /// In. `KFD_CROSS_MEMORY_RW_BIT`: write to it.
        flags: u32,
        /// In. Address of an array of [`MemoryRange`].
        src_mem_range_array: u64,
        /// In. How many.
        src_mem_array_size: u64,
        /// In. Address of an array of [`MemoryRange`].
        dst_mem_range_array: u64,
        /// In. How many.
        dst_mem_array_size: u64,
        /// Out.
        bytes_copied: u64,
    }

    /// One attribute of a range of shared virtual memory.
    "kfd_ioctl_svm_attribute" => SvmAttribute {
        /// `KFD_IOCTL_SVM_ATTR_*`.
        kind "type": u32,
        /// A GPU id, a location, flags or an order.
        value: u32,
    }

    /// Sets or reads attributes; `nattr` of them follow the struct.
    "kfd_ioctl_svm_args" => SvmArgs {
        /// In. First address.
        start_addr: u64,
        /// In. Bytes.
        size: u64,
        /// In. `KFD_IOCTL_SVM_OP_*`.
        op: u32,
        /// In. How many attributes follow.
        nattr: u32,
        /// Where they start.
        attrs: [SvmAttribute; 0],
    }
}

constants! {
    u32, "What a buffer object is to be." {
        KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM = 1 << 27,
        KFD_IOC_ALLOC_MEM_FLAGS_COHERENT = 1 << 26,
        KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS_BEST_EFFORT = 1 << 23,
        KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL = 1 << 3,
        KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE = 1 << 30,
        KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT = 1 << 24,
        KFD_IOC_ALLOC_MEM_FLAGS_GTT = 1 << 1,
        KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP = 1 << 4,
        KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE = 1 << 28,
        KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC = 1 << 29,
        KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED = 1 << 25,
        KFD_IOC_ALLOC_MEM_FLAGS_USERPTR = 1 << 2,
        KFD_IOC_ALLOC_MEM_FLAGS_VRAM = 1 << 0,
        KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE = 1 << 31,
    }
    u32, "Registers in the MMIO page, as byte offsets." {
        KFD_MMIO_REMAP_HDP_MEM_FLUSH_CNTL = 0,
        KFD_MMIO_REMAP_HDP_REG_FLUSH_CNTL = 4,
    }
    u32, "Direction of a copy between processes." {
        KFD_CROSS_MEMORY_RW_BIT = 1,
    }
    u32, "SVM operations." {
        KFD_IOCTL_SVM_OP_SET_ATTR = 0,
        KFD_IOCTL_SVM_OP_GET_ATTR = 1,
    }
    u32, "SVM locations that are no GPU." {
        KFD_IOCTL_SVM_LOCATION_SYSMEM = 0,
        KFD_IOCTL_SVM_LOCATION_UNDEFINED = 0xffffffff,
    }
    u32, "SVM attributes." {
        KFD_IOCTL_SVM_ATTR_PREFERRED_LOC = 0,
        KFD_IOCTL_SVM_ATTR_PREFETCH_LOC = 1,
        KFD_IOCTL_SVM_ATTR_ACCESS = 2,
        KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE = 3,
        KFD_IOCTL_SVM_ATTR_NO_ACCESS = 4,
        KFD_IOCTL_SVM_ATTR_SET_FLAGS = 5,
        KFD_IOCTL_SVM_ATTR_CLR_FLAGS = 6,
        KFD_IOCTL_SVM_ATTR_GRANULARITY = 7,
    }
    u32, "SVM flags." {
        KFD_IOCTL_SVM_FLAG_COHERENT = 1 << 1,
        KFD_IOCTL_SVM_FLAG_EXT_COHERENT = 1 << 7,
        KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED = 1 << 6,
        KFD_IOCTL_SVM_FLAG_GPU_EXEC = 1 << 4,
        KFD_IOCTL_SVM_FLAG_GPU_READ_MOSTLY = 1 << 5,
        KFD_IOCTL_SVM_FLAG_GPU_RO = 1 << 3,
        KFD_IOCTL_SVM_FLAG_HIVE_LOCAL = 1 << 2,
        KFD_IOCTL_SVM_FLAG_HOST_ACCESS = 1 << 0,
    }
}
