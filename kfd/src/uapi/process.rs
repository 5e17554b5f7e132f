//! Version, address ranges, address space, cache policy, clocks: what is asked once per process or GPU.

/// Room in [`GetProcessAperturesArgs`].
pub const NUM_OF_SUPPORTED_GPUS: usize = 7;

structs! {
    /// Which version of the interface the kernel speaks.
    "kfd_ioctl_get_version_args" => GetVersionArgs {
        /// Out.
        major_version: u32,
        /// Out.
        minor_version: u32,
    }

    /// One GPU's address ranges, limits inclusive.
    "kfd_process_device_apertures" => ProcessDeviceApertures {
        /// Out.
        lds_base: u64,
        /// Out.
        lds_limit: u64,
        /// Out.
        scratch_base: u64,
        /// Out.
        scratch_limit: u64,
        /// Out.
        gpuvm_base: u64,
        /// Out.
        gpuvm_limit: u64,
        /// Out.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }

    /// The first seven GPUs' ranges. Superseded by [`GetProcessAperturesNewArgs`].
    "kfd_ioctl_get_process_apertures_args" => GetProcessAperturesArgs {
        /// Out.
        process_apertures: [ProcessDeviceApertures; NUM_OF_SUPPORTED_GPUS],
        /// Out. How many are filled.
        num_of_nodes: u32,
        /// Zero.
        pad: u32,
    }

    /// Every GPU's ranges, in an array of the caller's.
    "kfd_ioctl_get_process_apertures_new_args" => GetProcessAperturesNewArgs {
        /// In. Address of an array of [`ProcessDeviceApertures`].
        kfd_process_device_apertures_ptr: u64,
        /// In, out. Room in the array (0 only asks); how many there are.
        num_of_nodes: u32,
        /// Zero.
        pad: u32,
    }

    /// Takes the render node's address space for compute.
    "kfd_ioctl_acquire_vm_args" => AcquireVmArgs {
        /// In. The render node's fd.
        drm_fd: u32,
        /// In.
        gpu_id: u32,
    }

    /// Default cache policy of a GPU, and the range with the other one.
    "kfd_ioctl_set_memory_policy_args" => SetMemoryPolicyArgs {
        /// In. First address of the range.
        alternate_aperture_base: u64,
        /// In. Bytes in the range.
        alternate_aperture_size: u64,
        /// In.
        gpu_id: u32,
        /// In. `KFD_IOC_CACHE_POLICY_*`.
        default_policy: u32,
        /// In. The policy inside the range.
        alternate_policy: u32,
        /// In. Bit 0: high precision in matrix instructions.
        misc_process_flag: u32,
    }

    /// Where the scratch memory of a GPU is backed.
    "kfd_ioctl_set_scratch_backing_va_args" => SetScratchBackingVaArgs {
        /// In. The address shifted right by 16.
        va_addr: u64,
        /// In.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }

    /// The trap handler of a GPU.
    "kfd_ioctl_set_trap_handler_args" => SetTrapHandlerArgs {
        /// In. Address of its code.
        tba_addr: u64,
        /// In. Address of its data.
        tma_addr: u64,
        /// In.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }

    /// GPU and host clocks, read together.
    "kfd_ioctl_get_clock_counters_args" => GetClockCountersArgs {
        /// Out.
        gpu_clock_counter: u64,
        /// Out.
        cpu_clock_counter: u64,
        /// Out.
        system_clock_counter: u64,
        /// Out. Ticks per second.
        system_clock_freq: u64,
        /// In.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }

    /// How textures are tiled.
    "kfd_ioctl_get_tile_config_args" => GetTileConfigArgs {
        /// In. Address of an array of u32.
        tile_config_ptr: u64,
        /// In. Address of an array of u32.
        macro_tile_config_ptr: u64,
        /// In, out. Room in the array; how many were filled.
        num_tile_configs: u32,
        /// In, out. Room in the array; how many were filled.
        num_macro_tile_configs: u32,
        /// In.
        gpu_id: u32,
        /// Out.
        gb_addr_config: u32,
        /// Out.
        num_banks: u32,
        /// Out.
        num_ranks: u32,
    }

    /// Whether GPU page faults are retried.
    "kfd_ioctl_set_xnack_mode_args" => SetXnackModeArgs {
        /// In: 0 off, positive on, negative only asks. Out: the mode now.
        xnack_enabled: i32,
    }
}

constants! {
    u32, "The version this table describes; the kernel may speak another." {
        KFD_IOCTL_MAJOR_VERSION = 1,
        KFD_IOCTL_MINOR_VERSION = 17,
    }
    u32, "Cache policies." {
        KFD_IOC_CACHE_POLICY_COHERENT = 0,
        KFD_IOC_CACHE_POLICY_NONCOHERENT = 1,
    }
    u32, "A GPU id, queue id or fd that does not exist." {
        KFD_INVALID_FD = 0xffffffff,
        KFD_INVALID_GPUID = 0xffffffff,
        KFD_INVALID_QUEUEID = 0xffffffff,
    }
}
