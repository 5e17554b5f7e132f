//! Queues.

structs! {
    /// Makes a user-mode queue.
    "kfd_ioctl_create_queue_args" => CreateQueueArgs {
        /// In.
        ring_base_address: u64,
        /// Out.
        write_pointer_address: u64,
        /// Out.
        read_pointer_address: u64,
        /// Out. For mmap of the doorbell page.
        doorbell_offset: u64,
        /// In.
        ring_size: u32,
        /// In.
        gpu_id: u32,
        /// In. `KFD_IOC_QUEUE_TYPE_*`.
        queue_type: u32,
        /// In.
        queue_percentage: u32,
        /// In.
        queue_priority: u32,
        /// Out.
        queue_id: u32,
        /// In.
        eop_buffer_address: u64,
        /// In.
        eop_buffer_size: u64,
        /// In.
        ctx_save_restore_address: u64,
        /// In.
        ctx_save_restore_size: u32,
        /// In.
        ctl_stack_size: u32,
        /// In.
        sdma_engine_id: u32,
        /// Zero.
        pad: u32,
    }

    /// Ends a queue.
    "kfd_ioctl_destroy_queue_args" => DestroyQueueArgs {
        /// In.
        queue_id: u32,
        /// Zero.
        pad: u32,
    }

    /// Changes the ring, share or priority of a queue.
    "kfd_ioctl_update_queue_args" => UpdateQueueArgs {
        /// In.
        ring_base_address: u64,
        /// In.
        queue_id: u32,
        /// In.
        ring_size: u32,
        /// In.
        queue_percentage: u32,
        /// In.
        queue_priority: u32,
    }

    /// Which compute units a queue may use.
    "kfd_ioctl_set_cu_mask_args" => SetCuMaskArgs {
        /// In.
        queue_id: u32,
        /// In. Bits in the mask.
        num_cu_mask: u32,
        /// In. Address of an array of u32.
        cu_mask_ptr: u64,
    }

    /// The control stack of a stopped queue.
    "kfd_ioctl_get_queue_wave_state_args" => GetQueueWaveStateArgs {
        /// In.
        ctl_stack_address: u64,
        /// Out.
        ctl_stack_used_size: u32,
        /// Out.
        save_area_used_size: u32,
        /// In.
        queue_id: u32,
        /// Zero.
        pad: u32,
    }

    /// Global wave sync entries for a queue.
    "kfd_ioctl_alloc_queue_gws_args" => AllocQueueGwsArgs {
        /// In.
        queue_id: u32,
        /// In.
        num_gws: u32,
        /// Out.
        first_gws: u32,
        /// Zero.
        pad: u32,
    }

    /// One queue, as the debugger sees it.
    "kfd_queue_snapshot_entry" => QueueSnapshotEntry {
        /// Exceptions raised, one bit each.
        exception_status: u64,
        /// Address of the ring.
        ring_base_address: u64,
        /// Address of the write pointer.
        write_pointer_address: u64,
        /// Address of the read pointer.
        read_pointer_address: u64,
        /// Address of the context save area.
        ctx_save_restore_address: u64,
        /// Queue id.
        queue_id: u32,
        /// GPU id.
        gpu_id: u32,
        /// Bytes in the ring.
        ring_size: u32,
        /// `KFD_IOC_QUEUE_TYPE_*`.
        queue_type: u32,
        /// Bytes in the context save area.
        ctx_save_restore_area_size: u32,
        /// Zero.
        reserved: u32,
    }

    /// Where control stack and waves are in a context save area.
    "kfd_context_save_area_header.wave_state" => ContextSaveAreaWaveState {
        /// Bytes from the start of the area to the control stack.
        control_stack_offset: u32,
        /// Bytes of it.
        control_stack_size: u32,
        /// Bytes from the start of the area to the waves.
        wave_state_offset: u32,
        /// Bytes of them.
        wave_state_size: u32,
    }

    /// What stands at the start of a context save area.
    "kfd_context_save_area_header" => ContextSaveAreaHeader {
        /// Where stack and waves are.
        wave_state: ContextSaveAreaWaveState,
        /// Where debugger memory is.
        debug_offset: u32,
        /// Bytes of debugger memory.
        debug_size: u32,
        /// Address of the error code.
        err_payload_addr: u64,
        /// The event to signal on an error.
        err_event_id: u32,
        /// Zero.
        reserved1: u32,
    }
}

constants! {
    u32, "Kinds of queue." {
        KFD_IOC_QUEUE_TYPE_COMPUTE = 0,
        KFD_IOC_QUEUE_TYPE_COMPUTE_AQL = 2,
        KFD_IOC_QUEUE_TYPE_SDMA = 1,
        KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID = 4,
        KFD_IOC_QUEUE_TYPE_SDMA_XGMI = 3,
    }
    u32, "Upper bounds." {
        KFD_MAX_QUEUE_PERCENTAGE = 100,
        KFD_MAX_QUEUE_PRIORITY = 15,
    }
    u32, "Marks in a list of queue ids." {
        KFD_DBG_QUEUE_ERROR_BIT = 30,
        KFD_DBG_QUEUE_ERROR_MASK = 1 << 30,
        KFD_DBG_QUEUE_INVALID_BIT = 31,
        KFD_DBG_QUEUE_INVALID_MASK = 1 << 31,
    }
}
