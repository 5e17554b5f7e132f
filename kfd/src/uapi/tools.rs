//! Performance counters, program counter sampling, and checkpoint/restore.

structs! {
    /// Streams performance counters.
    "kfd_ioctl_spm_args" => SpmArgs {
        /// In. Address of the buffer; 0 stops.
        dest_buf: u64,
        /// In. Bytes.
        buf_size: u32,
        /// In. `KFD_IOCTL_SPM_OP_*`.
        op: u32,
        /// In, out. Milliseconds to wait; left.
        timeout: u32,
        /// In.
        gpu_id: u32,
        /// Out. Into the buffer before.
        bytes_copied: u32,
        /// Out.
        has_data_loss: u32,
    }

    /// What stands at the start of a counter buffer.
    "kfd_ioctl_spm_buffer_header" => SpmBufferHeader {
        /// Bits 0-23 minor, 24-31 major.
        version: u32,
        /// Bytes of data that follow.
        bytes_copied: u32,
        /// Whether some were lost.
        has_data_loss: u32,
        /// Zero.
        reserved: [u32; 5],
    }

    /// One way of sampling program counters.
    "kfd_pc_sample_info" => PcSampleInfo {
        /// In. In the unit `kind` names.
        interval: u64,
        /// Out.
        interval_min: u64,
        /// Out.
        interval_max: u64,
        /// Out. `KFD_IOCTL_PCS_FLAG_*`.
        flags: u64,
        /// In, out. `KFD_IOCTL_PCS_METHOD_*`.
        method: u32,
        /// In, out. `KFD_IOCTL_PCS_TYPE_*`.
        kind "type": u32,
    }

    /// Samples program counters.
    "kfd_ioctl_pc_sample_args" => PcSampleArgs {
        /// In. Address of an array of [`PcSampleInfo`].
        sample_info_ptr: u64,
        /// In, out. Room in the array; how many there are.
        num_sample_info: u32,
        /// In. `KFD_IOCTL_PCS_OP_*`.
        op: u32,
        /// In.
        gpu_id: u32,
        /// In, out. The session.
        trace_id: u32,
        /// In. `KFD_IOCTL_PCS_QUERY_TYPE_FULL`.
        flags: u32,
        /// Zero.
        reserved: u32,
    }

    /// Checkpoints or restores a process.
    "kfd_ioctl_criu_args" => CriuArgs {
        /// In. Address of an array of [`CriuDeviceBucket`].
        devices: u64,
        /// In. Address of an array of [`CriuBoBucket`].
        bos: u64,
        /// In. Address of opaque data.
        priv_data: u64,
        /// In, out. Bytes of it.
        priv_data_size: u64,
        /// In, out.
        num_devices: u32,
        /// In, out.
        num_bos: u32,
        /// In, out.
        num_objects: u32,
        /// In, out. The process.
        pid: u32,
        /// In. `KFD_CRIU_OP_*`.
        op: u32,
        /// Zero. C leaves these four bytes without a name.
        tail: u32,
    }

    /// One GPU of a checkpoint.
    "kfd_criu_device_bucket" => CriuDeviceBucket {
        /// GPU id the process knows.
        user_gpu_id: u32,
        /// GPU id it has now.
        actual_gpu_id: u32,
        /// Its render node's fd.
        drm_fd: u32,
        /// Zero.
        pad: u32,
    }

    /// One buffer object of a checkpoint.
    "kfd_criu_bo_bucket" => CriuBoBucket {
        /// GPU address.
        addr: u64,
        /// Bytes.
        size: u64,
        /// mmap offset.
        offset: u64,
        /// mmap offset after the restore.
        restored_offset: u64,
        /// GPU id the process knows.
        gpu_id: u32,
        /// `KFD_IOC_ALLOC_MEM_FLAGS_*`.
        alloc_flags: u32,
        /// A dmabuf of its bytes.
        dmabuf_fd: u32,
        /// Zero.
        pad: u32,
    }
}

constants! {
    u32, "Counter streaming operations." {
        KFD_IOCTL_SPM_OP_ACQUIRE = 0,
        KFD_IOCTL_SPM_OP_RELEASE = 1,
        KFD_IOCTL_SPM_OP_SET_DEST_BUF = 2,
    }
    u32, "Checkpoint operations." {
        KFD_CRIU_OP_PROCESS_INFO = 0,
        KFD_CRIU_OP_CHECKPOINT = 1,
        KFD_CRIU_OP_UNPAUSE = 2,
        KFD_CRIU_OP_RESTORE = 3,
        KFD_CRIU_OP_RESUME = 4,
    }
    u32, "Sampling operations." {
        KFD_IOCTL_PCS_OP_QUERY_CAPABILITIES = 0,
        KFD_IOCTL_PCS_OP_CREATE = 1,
        KFD_IOCTL_PCS_OP_DESTROY = 2,
        KFD_IOCTL_PCS_OP_START = 3,
        KFD_IOCTL_PCS_OP_STOP = 4,
    }
    u32, "Sampling methods." {
        KFD_IOCTL_PCS_METHOD_HOSTTRAP = 1,
        KFD_IOCTL_PCS_METHOD_STOCHASTIC = 2,
    }
    u32, "Sampling units." {
        KFD_IOCTL_PCS_TYPE_TIME_US = 0,
        KFD_IOCTL_PCS_TYPE_CLOCK_CYCLES = 1,
        KFD_IOCTL_PCS_TYPE_INSTRUCTIONS = 2,
    }
    u32, "Sampling flags." {
        KFD_IOCTL_PCS_FLAG_POWER_OF_2 = 1 << 0,
        KFD_IOCTL_PCS_QUERY_TYPE_FULL = 1,
    }
}
