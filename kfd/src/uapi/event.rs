//! Events, the exceptions they bring, and the management event stream.

structs! {
    /// Makes an event.
    "kfd_ioctl_create_event_args" => CreateEventArgs {
        /// In, out. Handle of the signal page the caller made; mmap offset of one the kernel made.
        event_page_offset: u64,
        /// Out. What a GPU writes to signal.
        event_trigger_data: u32,
        /// In. `KFD_IOC_EVENT_*`.
        event_type: u32,
        /// In.
        auto_reset: u32,
        /// In. For some types only.
        node_id: u32,
        /// Out.
        event_id: u32,
        /// Out.
        event_slot_index: u32,
    }

    /// Ends an event.
    "kfd_ioctl_destroy_event_args" => DestroyEventArgs {
        /// In.
        event_id: u32,
        /// Zero.
        pad: u32,
    }

    /// Signals an event.
    "kfd_ioctl_set_event_args" => SetEventArgs {
        /// In.
        event_id: u32,
        /// Zero.
        pad: u32,
    }

    /// Makes an event unsignalled.
    "kfd_ioctl_reset_event_args" => ResetEventArgs {
        /// In.
        event_id: u32,
        /// Zero.
        pad: u32,
    }

    /// Why a GPU access failed; 0 or 1 each.
    "kfd_memory_exception_failure" => MemoryExceptionFailure {
        /// No page there.
        not_present "NotPresent": u32,
        /// Written, but read only.
        read_only "ReadOnly": u32,
        /// Run, but not executable.
        no_execute "NoExecute": u32,
        /// The address is not exact.
        imprecise: u32,
    }

    /// A memory fault, or a memory error.
    "kfd_hsa_memory_exception_data" => HsaMemoryExceptionData {
        /// Why.
        failure: MemoryExceptionFailure,
        /// Where.
        va: u64,
        /// GPU id.
        gpu_id: u32,
        /// `KFD_MEM_ERR_*`.
        error_type "ErrorType": u32,
    }

    /// A GPU that was reset.
    "kfd_hsa_hw_exception_data" => HsaHwExceptionData {
        /// `KFD_HW_EXCEPTION_WHOLE_GPU_RESET` or `.._PER_ENGINE_RESET`.
        reset_type: u32,
        /// `KFD_HW_EXCEPTION_GPU_HANG` or `.._ECC`.
        reset_cause: u32,
        /// Whether VRAM lost its contents.
        memory_lost: u32,
        /// GPU id.
        gpu_id: u32,
    }

    /// How often a signal event was signalled.
    "kfd_hsa_signal_event_data" => HsaSignalEventData {
        /// In, out. 0 for a caller that does not ask.
        last_event_age: u64,
    }

    /// One event to wait for, and what it brought.
    "kfd_event_data" => EventData {
        /// Read as what the operation or the event type says.
        payload: [u64; 4] as {
            memory_exception_data: HsaMemoryExceptionData,
            hw_exception_data: HsaHwExceptionData,
            signal_event_data: HsaSignalEventData,
        },
        /// In. Address of more data; 0.
        kfd_event_data_ext: u64,
        /// In.
        event_id: u32,
        /// Zero.
        pad: u32,
    }

    /// Waits for one or all of several events.
    "kfd_ioctl_wait_events_args" => WaitEventsArgs {
        /// In. Address of an array of [`EventData`].
        events_ptr: u64,
        /// In.
        num_events: u32,
        /// In. 0: any.
        wait_for_all: u32,
        /// In. Milliseconds; `u32::MAX` for ever.
        timeout: u32,
        /// Out. `KFD_IOC_WAIT_RESULT_*`.
        wait_result: u32,
    }

    /// Opens the stream of management events of a GPU.
    "kfd_ioctl_smi_events_args" => SmiEventsArgs {
        /// In.
        gpuid: u32,
        /// Out.
        anon_fd: u32,
    }
}

constants! {
    u32, "Kinds of event." {
        KFD_IOC_EVENT_DEBUG_EVENT = 5,
        KFD_IOC_EVENT_DEVICESTATECHANGE = 2,
        KFD_IOC_EVENT_HW_EXCEPTION = 3,
        KFD_IOC_EVENT_MEMORY = 8,
        KFD_IOC_EVENT_NODECHANGE = 1,
        KFD_IOC_EVENT_PROFILE_EVENT = 6,
        KFD_IOC_EVENT_QUEUE_EVENT = 7,
        KFD_IOC_EVENT_SIGNAL = 0,
        KFD_IOC_EVENT_SYSTEM_EVENT = 4,
    }
    u32, "How a wait ended." {
        KFD_IOC_WAIT_RESULT_COMPLETE = 0,
        KFD_IOC_WAIT_RESULT_FAIL = 2,
        KFD_IOC_WAIT_RESULT_TIMEOUT = 1,
    }
    u32, "How many signal events a process may have." {
        KFD_SIGNAL_EVENT_LIMIT = 4096,
    }
    u32, "How and why a GPU was reset." {
        KFD_HW_EXCEPTION_ECC = 1,
        KFD_HW_EXCEPTION_GPU_HANG = 0,
        KFD_HW_EXCEPTION_PER_ENGINE_RESET = 1,
        KFD_HW_EXCEPTION_WHOLE_GPU_RESET = 0,
    }
    u32, "Kinds of memory error." {
        KFD_MEM_ERR_GPU_HANG = 3,
        KFD_MEM_ERR_NO_RAS = 0,
        KFD_MEM_ERR_POISON_CONSUMED = 2,
        KFD_MEM_ERR_SRAM_ECC = 1,
    }
    u32, "Management events." {
        KFD_SMI_EVENT_NONE = 0,
        KFD_SMI_EVENT_VMFAULT = 1,
        KFD_SMI_EVENT_THERMAL_THROTTLE = 2,
        KFD_SMI_EVENT_GPU_PRE_RESET = 3,
        KFD_SMI_EVENT_GPU_POST_RESET = 4,
    }
    u32, "Bytes of one management event." {
        KFD_SMI_EVENT_MSG_SIZE = 96,
    }
}
