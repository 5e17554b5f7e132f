//! The debugger's side: runtime enable and trap operations.

structs! {
    /// Deprecated; the kernel answers EPERM.
    "kfd_ioctl_dbg_register_args" => DbgRegisterArgs {
        /// In.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }

    /// Deprecated; the kernel answers EPERM.
    "kfd_ioctl_dbg_unregister_args" => DbgUnregisterArgs {
        /// In.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }

    /// Deprecated; the kernel answers EPERM.
    "kfd_ioctl_dbg_address_watch_args" => DbgAddressWatchArgs {
        /// In. Address of the content.
        content_ptr: u64,
        /// In.
        gpu_id: u32,
        /// In. Bytes of content, this header included.
        buf_size_in_bytes: u32,
    }

    /// Deprecated; the kernel answers EPERM.
    "kfd_ioctl_dbg_wave_control_args" => DbgWaveControlArgs {
        /// In. Address of the content.
        content_ptr: u64,
        /// In.
        gpu_id: u32,
        /// In. Bytes of content, this header included.
        buf_size_in_bytes: u32,
    }

    /// One GPU, as the debugger sees it.
    "kfd_dbg_device_info_entry" => DbgDeviceInfoEntry {
        /// Exceptions raised, one bit each.
        exception_status: u64,
        /// First address of LDS.
        lds_base: u64,
        /// Last address of LDS.
        lds_limit: u64,
        /// First address of scratch.
        scratch_base: u64,
        /// Last address of scratch.
        scratch_limit: u64,
        /// First address of GPUVM.
        gpuvm_base: u64,
        /// Last address of GPUVM.
        gpuvm_limit: u64,
        /// GPU id.
        gpu_id: u32,
        /// Bus, device and function.
        location_id: u32,
        /// PCI vendor.
        vendor_id: u32,
        /// PCI device.
        device_id: u32,
        /// PCI revision.
        revision_id: u32,
        /// PCI subsystem vendor.
        subsystem_vendor_id: u32,
        /// PCI subsystem device.
        subsystem_device_id: u32,
        /// Firmware version.
        fw_version: u32,
        /// major x 10000 + minor x 100 + stepping.
        gfx_target_version: u32,
        /// SIMDs.
        simd_count: u32,
        /// Waves per SIMD.
        max_waves_per_simd: u32,
        /// Shader arrays.
        array_count: u32,
        /// Shader arrays per engine.
        simd_arrays_per_engine: u32,
        /// Compute dies.
        num_xcc: u32,
        /// As in the topology.
        capability: u32,
        /// As in the topology.
        debug_prop: u32,
    }

    /// What the runtime told when it enabled debugging.
    "kfd_runtime_info" => RuntimeInfo {
        /// Address of its debug structure.
        r_debug: u64,
        /// `DEBUG_RUNTIME_STATE_*`.
        runtime_state: u32,
        /// Whether trap temporaries are set up.
        ttmp_setup: u32,
    }

    /// Tells the kernel that a runtime is ready to be debugged.
    "kfd_ioctl_runtime_enable_args" => RuntimeEnableArgs {
        /// In. Address of its debug structure.
        r_debug: u64,
        /// In. `KFD_RUNTIME_ENABLE_MODE_*`.
        mode_mask: u32,
        /// Out. `KFD_RUNTIME_ENABLE_CAPS_*`.
        capabilities_mask: u32,
    }

    /// `KFD_IOC_DBG_TRAP_ENABLE`
    "kfd_ioctl_dbg_trap_enable_args" => DbgTrapEnableArgs {
        /// Exceptions, one bit each (`KFD_EC_MASK_*`).
        exception_mask: u64,
        /// In. Address of a [`RuntimeInfo`].
        rinfo_ptr: u64,
        /// In, out. Bytes of it.
        rinfo_size: u32,
        /// In. Where exceptions are announced.
        dbg_fd: u32,
    }

    /// `KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT`
    "kfd_ioctl_dbg_trap_send_runtime_event_args" => DbgTrapSendRuntimeEventArgs {
        /// Exceptions, one bit each (`KFD_EC_MASK_*`).
        exception_mask: u64,
        /// GPU id.
        gpu_id: u32,
        /// Queue id.
        queue_id: u32,
    }

    /// `KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED`
    "kfd_ioctl_dbg_trap_set_exceptions_enabled_args" => DbgTrapSetExceptionsEnabledArgs {
        /// Exceptions, one bit each (`KFD_EC_MASK_*`).
        exception_mask: u64,
    }

    /// `KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE`
    "kfd_ioctl_dbg_trap_set_wave_launch_override_args" => DbgTrapSetWaveLaunchOverrideArgs {
        /// In. `KFD_DBG_TRAP_OVERRIDE_*`.
        override_mode: u32,
        /// In, out. `KFD_DBG_TRAP_MASK_*`: to enable; enabled before.
        enable_mask: u32,
        /// In, out. `KFD_DBG_TRAP_MASK_*`: asked about; supported.
        support_request_mask: u32,
        /// Zero.
        pad: u32,
    }

    /// `KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE`
    "kfd_ioctl_dbg_trap_set_wave_launch_mode_args" => DbgTrapSetWaveLaunchModeArgs {
        /// In. `KFD_DBG_TRAP_WAVE_LAUNCH_MODE_*`.
        launch_mode: u32,
        /// Zero.
        pad: u32,
    }

    /// `KFD_IOC_DBG_TRAP_SUSPEND_QUEUES`
    "kfd_ioctl_dbg_trap_suspend_queues_args" => DbgTrapSuspendQueuesArgs {
        /// Exceptions, one bit each (`KFD_EC_MASK_*`).
        exception_mask: u64,
        /// Address of an array of u32 queue ids.
        queue_array_ptr: u64,
        /// How many queue ids.
        num_queues: u32,
        /// In. Time for waves to end, in units of 1,000 GPU cycles.
        grace_period: u32,
    }

    /// `KFD_IOC_DBG_TRAP_RESUME_QUEUES`
    "kfd_ioctl_dbg_trap_resume_queues_args" => DbgTrapResumeQueuesArgs {
        /// Address of an array of u32 queue ids.
        queue_array_ptr: u64,
        /// How many queue ids.
        num_queues: u32,
        /// Zero.
        pad: u32,
    }

    /// `KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH`
    "kfd_ioctl_dbg_trap_set_node_address_watch_args" => DbgTrapSetNodeAddressWatchArgs {
        /// In. What to watch.
        address: u64,
        /// In. `KFD_DBG_TRAP_ADDRESS_WATCH_MODE_*`.
        mode: u32,
        /// In. Which address bits count.
        mask: u32,
        /// GPU id.
        gpu_id: u32,
        /// Out. The watch.
        id: u32,
    }

    /// `KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH`
    "kfd_ioctl_dbg_trap_clear_node_address_watch_args" => DbgTrapClearNodeAddressWatchArgs {
        /// GPU id.
        gpu_id: u32,
        /// In. The watch.
        id: u32,
    }

    /// `KFD_IOC_DBG_TRAP_SET_FLAGS`
    "kfd_ioctl_dbg_trap_set_flags_args" => DbgTrapSetFlagsArgs {
        /// In, out. `KFD_DBG_TRAP_FLAG_*`: to set; set before.
        flags: u32,
        /// Zero.
        pad: u32,
    }

    /// `KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT`
    "kfd_ioctl_dbg_trap_query_debug_event_args" => DbgTrapQueryDebugEventArgs {
        /// In, out. To clear; raised.
        exception_mask: u64,
        /// Out.
        gpu_id: u32,
        /// Out.
        queue_id: u32,
    }

    /// `KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO`
    "kfd_ioctl_dbg_trap_query_exception_info_args" => DbgTrapQueryExceptionInfoArgs {
        /// In. Address of room for the information.
        info_ptr: u64,
        /// In, out. Bytes of room; bytes there are.
        info_size: u32,
        /// In. GPU id or queue id.
        source_id: u32,
        /// In. `EC_*`.
        exception_code: u32,
        /// In. Whether to clear it.
        clear_exception: u32,
    }

    /// `KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT`
    "kfd_ioctl_dbg_trap_queue_snapshot_args" => DbgTrapQueueSnapshotArgs {
        /// Exceptions, one bit each (`KFD_EC_MASK_*`).
        exception_mask: u64,
        /// Address of the array to fill.
        snapshot_buf_ptr: u64,
        /// In, out. Room in the array; how many there are.
        num_queues: u32,
        /// In, out. Bytes per entry: as the caller has, as the kernel filled.
        entry_size: u32,
    }

    /// `KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT`
    "kfd_ioctl_dbg_trap_device_snapshot_args" => DbgTrapDeviceSnapshotArgs {
        /// Exceptions, one bit each (`KFD_EC_MASK_*`).
        exception_mask: u64,
        /// Address of the array to fill.
        snapshot_buf_ptr: u64,
        /// In, out. Room in the array; how many there are.
        num_devices: u32,
        /// In, out. Bytes per entry: as the caller has, as the kernel filled.
        entry_size: u32,
    }

    /// One debugger operation on another process.
    "kfd_ioctl_dbg_trap_args" => DbgTrapArgs {
        /// In. That process.
        pid: u32,
        /// In. `KFD_IOC_DBG_TRAP_*`.
        op: u32,
        /// Read as what the operation or the event type says.
        payload: [u64; 3] as {
            enable: DbgTrapEnableArgs,
            send_runtime_event: DbgTrapSendRuntimeEventArgs,
            set_exceptions_enabled: DbgTrapSetExceptionsEnabledArgs,
            launch_override: DbgTrapSetWaveLaunchOverrideArgs,
            launch_mode: DbgTrapSetWaveLaunchModeArgs,
            suspend_queues: DbgTrapSuspendQueuesArgs,
            resume_queues: DbgTrapResumeQueuesArgs,
            set_node_address_watch: DbgTrapSetNodeAddressWatchArgs,
            clear_node_address_watch: DbgTrapClearNodeAddressWatchArgs,
            set_flags: DbgTrapSetFlagsArgs,
            query_debug_event: DbgTrapQueryDebugEventArgs,
            query_exception_info: DbgTrapQueryExceptionInfoArgs,
            queue_snapshot: DbgTrapQueueSnapshotArgs,
            device_snapshot: DbgTrapDeviceSnapshotArgs,
        },
    }
}

constants! {
    u32, "Debugger operations." {
        KFD_IOC_DBG_TRAP_ENABLE = 0,
        KFD_IOC_DBG_TRAP_DISABLE = 1,
        KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT = 2,
        KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED = 3,
        KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE = 4,
        KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE = 5,
        KFD_IOC_DBG_TRAP_SUSPEND_QUEUES = 6,
        KFD_IOC_DBG_TRAP_RESUME_QUEUES = 7,
        KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH = 8,
        KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH = 9,
        KFD_IOC_DBG_TRAP_SET_FLAGS = 10,
        KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT = 11,
        KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO = 12,
        KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT = 13,
        KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT = 14,
    }
    u32, "How a trap mask is applied." {
        KFD_DBG_TRAP_OVERRIDE_OR = 0,
        KFD_DBG_TRAP_OVERRIDE_REPLACE = 1,
    }
    u32, "What may trap." {
        KFD_DBG_TRAP_MASK_FP_INVALID = 1 << 0,
        KFD_DBG_TRAP_MASK_FP_INPUT_DENORMAL = 1 << 1,
        KFD_DBG_TRAP_MASK_FP_DIVIDE_BY_ZERO = 1 << 2,
        KFD_DBG_TRAP_MASK_FP_OVERFLOW = 1 << 3,
        KFD_DBG_TRAP_MASK_FP_UNDERFLOW = 1 << 4,
        KFD_DBG_TRAP_MASK_FP_INEXACT = 1 << 5,
        KFD_DBG_TRAP_MASK_INT_DIVIDE_BY_ZERO = 1 << 6,
        KFD_DBG_TRAP_MASK_DBG_ADDRESS_WATCH = 1 << 7,
        KFD_DBG_TRAP_MASK_DBG_MEMORY_VIOLATION = 1 << 8,
        KFD_DBG_TRAP_MASK_TRAP_ON_WAVE_START = 1 << 30,
        KFD_DBG_TRAP_MASK_TRAP_ON_WAVE_END = 1 << 31,
    }
    u32, "How waves start." {
        KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL = 0,
        KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT = 1,
        KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG = 3,
    }
    u32, "Which accesses a watch sees." {
        KFD_DBG_TRAP_ADDRESS_WATCH_MODE_READ = 0,
        KFD_DBG_TRAP_ADDRESS_WATCH_MODE_NONREAD = 1,
        KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ATOMIC = 2,
        KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ALL = 3,
    }
    u32, "More settings." {
        KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP = 1 << 0,
    }
    u32, "Exception codes." {
        EC_NONE = 0,
        EC_QUEUE_WAVE_ABORT = 1,
        EC_QUEUE_WAVE_TRAP = 2,
        EC_QUEUE_WAVE_MATH_ERROR = 3,
        EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION = 4,
        EC_QUEUE_WAVE_MEMORY_VIOLATION = 5,
        EC_QUEUE_WAVE_APERTURE_VIOLATION = 6,
        EC_QUEUE_PACKET_DISPATCH_DIM_INVALID = 16,
        EC_QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID = 17,
        EC_QUEUE_PACKET_DISPATCH_CODE_INVALID = 18,
        EC_QUEUE_PACKET_RESERVED = 19,
        EC_QUEUE_PACKET_UNSUPPORTED = 20,
        EC_QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID = 21,
        EC_QUEUE_PACKET_DISPATCH_REGISTER_INVALID = 22,
        EC_QUEUE_PACKET_VENDOR_UNSUPPORTED = 23,
        EC_QUEUE_PREEMPTION_ERROR = 30,
        EC_QUEUE_NEW = 31,
        EC_DEVICE_QUEUE_DELETE = 32,
        EC_DEVICE_MEMORY_VIOLATION = 33,
        EC_DEVICE_RAS_ERROR = 34,
        EC_DEVICE_FATAL_HALT = 35,
        EC_DEVICE_NEW = 36,
        EC_PROCESS_RUNTIME = 48,
        EC_PROCESS_DEVICE_REMOVE = 49,
        EC_MAX = 50,
    }
    u64, "Which exceptions a queue, a GPU or a process raises: bit `code - 1`." {
        KFD_EC_MASK_DEVICE = 0xf80000000,
        KFD_EC_MASK_PROCESS = 0x1800000000000,
        KFD_EC_MASK_QUEUE = 0x607b803f,
    }
    u32, "State of a runtime." {
        DEBUG_RUNTIME_STATE_DISABLED = 0,
        DEBUG_RUNTIME_STATE_ENABLED = 1,
        DEBUG_RUNTIME_STATE_ENABLED_BUSY = 2,
        DEBUG_RUNTIME_STATE_ENABLED_ERROR = 3,
    }
    u32, "Runtime enable bits." {
        KFD_RUNTIME_ENABLE_CAPS_SUPPORTS_CORE_DUMP_MASK = 1 << 31,
        KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK = 1 << 0,
        KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK = 1 << 1,
    }
    u32, "Event flag of the deprecated debugger." {
        KFD_DBG_EV_FLAG_CLEAR_STATUS = 1 << 0,
    }
}
