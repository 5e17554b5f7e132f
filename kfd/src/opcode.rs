//! The number table: every ioctl of KFD, its direction and the struct it carries.
//!
//! What goes out: one [`Command`] per ioctl, its request number as a constant of the kernel's name without
//! `AMDKFD_IOC_`, and [`Command::from_number`] for whoever answers ioctls. A request number holds the size of the
//! struct; the kernel goes by the number alone (the low byte) and takes the size from the caller, which is how an
//! older caller's shorter struct and the attributes behind [`SvmArgs`] pass: see [`Command::request_with_size`].

use rustix::ioctl::{Direction, Opcode, opcode};

use crate::uapi::*;

/// The type byte of every KFD request.
pub const GROUP: u8 = b'K';

/// Declares the table. One line per ioctl: constant, variant, number, direction, struct.
macro_rules! commands {
    ($($constant:ident $variant:ident = $number:literal $direction:ident $args:ty;)*) => {
        /// One ioctl of KFD. As an integer it is the ioctl's number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Command {
            $(
                #[doc = concat!("`AMDKFD_IOC_", stringify!($constant), "`")]
                $variant = $number,
            )*
        }

        $(
            #[doc = concat!("`AMDKFD_IOC_", stringify!($constant), "`")]
            pub const $constant: Opcode = Command::$variant.request();
        )*

        impl Command {
            /// All of them, by number.
            pub const ALL: &[Command] = &[$(Command::$variant),*];

            /// The ioctl with this number.
            pub const fn from_number(number: u8) -> Option<Command> {
                match number {
                    $($number => Some(Command::$variant),)*
                    _ => None,
                }
            }

            /// The kernel's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Command::$variant => concat!("AMDKFD_IOC_", stringify!($constant)),)*
                }
            }

            /// Which way the struct travels, seen from the caller.
            pub const fn direction(self) -> Direction {
                match self {
                    $(Command::$variant => Direction::$direction,)*
                }
            }

            /// Bytes of the struct.
            pub const fn size(self) -> usize {
                match self {
                    $(Command::$variant => size_of::<$args>(),)*
                }
            }
        }
    };
}

commands! {
    GET_VERSION GetVersion = 0x01 Read GetVersionArgs;
    CREATE_QUEUE CreateQueue = 0x02 ReadWrite CreateQueueArgs;
    DESTROY_QUEUE DestroyQueue = 0x03 ReadWrite DestroyQueueArgs;
    SET_MEMORY_POLICY SetMemoryPolicy = 0x04 Write SetMemoryPolicyArgs;
    GET_CLOCK_COUNTERS GetClockCounters = 0x05 ReadWrite GetClockCountersArgs;
    GET_PROCESS_APERTURES GetProcessApertures = 0x06 Read GetProcessAperturesArgs;
    UPDATE_QUEUE UpdateQueue = 0x07 Write UpdateQueueArgs;
    CREATE_EVENT CreateEvent = 0x08 ReadWrite CreateEventArgs;
    DESTROY_EVENT DestroyEvent = 0x09 Write DestroyEventArgs;
    SET_EVENT SetEvent = 0x0a Write SetEventArgs;
    RESET_EVENT ResetEvent = 0x0b Write ResetEventArgs;
    WAIT_EVENTS WaitEvents = 0x0c ReadWrite WaitEventsArgs;
    DBG_REGISTER_DEPRECATED DbgRegisterDeprecated = 0x0d Write DbgRegisterArgs;
    DBG_UNREGISTER_DEPRECATED DbgUnregisterDeprecated = 0x0e Write DbgUnregisterArgs;
    DBG_ADDRESS_WATCH_DEPRECATED DbgAddressWatchDeprecated = 0x0f Write DbgAddressWatchArgs;
    DBG_WAVE_CONTROL_DEPRECATED DbgWaveControlDeprecated = 0x10 Write DbgWaveControlArgs;
    SET_SCRATCH_BACKING_VA SetScratchBackingVa = 0x11 ReadWrite SetScratchBackingVaArgs;
    GET_TILE_CONFIG GetTileConfig = 0x12 ReadWrite GetTileConfigArgs;
    SET_TRAP_HANDLER SetTrapHandler = 0x13 Write SetTrapHandlerArgs;
    GET_PROCESS_APERTURES_NEW GetProcessAperturesNew = 0x14 ReadWrite GetProcessAperturesNewArgs;
    ACQUIRE_VM AcquireVm = 0x15 Write AcquireVmArgs;
    ALLOC_MEMORY_OF_GPU AllocMemoryOfGpu = 0x16 ReadWrite AllocMemoryOfGpuArgs;
    FREE_MEMORY_OF_GPU FreeMemoryOfGpu = 0x17 Write FreeMemoryOfGpuArgs;
    MAP_MEMORY_TO_GPU MapMemoryToGpu = 0x18 ReadWrite MapMemoryToGpuArgs;
    UNMAP_MEMORY_FROM_GPU UnmapMemoryFromGpu = 0x19 ReadWrite UnmapMemoryFromGpuArgs;
    SET_CU_MASK SetCuMask = 0x1a Write SetCuMaskArgs;
    GET_QUEUE_WAVE_STATE GetQueueWaveState = 0x1b ReadWrite GetQueueWaveStateArgs;
    GET_DMABUF_INFO GetDmabufInfo = 0x1c ReadWrite GetDmabufInfoArgs;
    IMPORT_DMABUF ImportDmabuf = 0x1d ReadWrite ImportDmabufArgs;
    ALLOC_QUEUE_GWS AllocQueueGws = 0x1e ReadWrite AllocQueueGwsArgs;
    SMI_EVENTS SmiEvents = 0x1f ReadWrite SmiEventsArgs;
    SVM Svm = 0x20 ReadWrite SvmArgs;
    SET_XNACK_MODE SetXnackMode = 0x21 ReadWrite SetXnackModeArgs;
    CRIU_OP CriuOp = 0x22 ReadWrite CriuArgs;
    AVAILABLE_MEMORY AvailableMemory = 0x23 ReadWrite GetAvailableMemoryArgs;
    EXPORT_DMABUF ExportDmabuf = 0x24 ReadWrite ExportDmabufArgs;
    RUNTIME_ENABLE RuntimeEnable = 0x25 ReadWrite RuntimeEnableArgs;
    DBG_TRAP DbgTrap = 0x26 ReadWrite DbgTrapArgs;
    CREATE_PROCESS CreateProcess = 0x27 None ();
    IPC_IMPORT_HANDLE IpcImportHandle = 0x80 ReadWrite IpcImportHandleArgs;
    IPC_EXPORT_HANDLE IpcExportHandle = 0x81 ReadWrite IpcExportHandleArgs;
    CROSS_MEMORY_COPY CrossMemoryCopy = 0x83 ReadWrite CrossMemoryCopyArgs;
    RLC_SPM RlcSpm = 0x84 ReadWrite SpmArgs;
    PC_SAMPLE PcSample = 0x85 ReadWrite PcSampleArgs;
}

/// The largest size a request number can hold: 14 bits.
pub const MAX_SIZE: usize = (1 << 14) - 1;

/// How many attributes the SVM ioctl can carry.
pub const MAX_SVM_ATTRIBUTES: usize = (MAX_SIZE - size_of::<SvmArgs>()) / size_of::<SvmAttribute>();

impl Command {
    /// The request number.
    pub const fn request(self) -> Opcode {
        opcode::from_components(self.direction(), GROUP, self as u8, self.size())
    }

    /// The request number of a caller whose struct has another size, `size <= MAX_SIZE`.
    pub const fn request_with_size(self, size: usize) -> Option<Opcode> {
        if size <= MAX_SIZE { Some(opcode::from_components(self.direction(), GROUP, self as u8, size)) } else { None }
    }
}

/// A request number taken apart: type byte, number, bytes.
pub const fn parts(request: Opcode) -> (u8, u8, usize) {
    ((request >> 8) as u8, request as u8, (request >> 16) as usize & MAX_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_their_commands() {
        for &command in Command::ALL {
            assert_eq!(Command::from_number(command as u8), Some(command));
            assert_eq!(parts(command.request()), (GROUP, command as u8, command.size()));
        }
        assert_eq!(Command::from_number(0x82), None);
        assert_eq!(Command::from_number(0), None);
    }

    #[test]
    fn svm_requests_grow_with_their_attributes() {
        let size = size_of::<SvmArgs>() + 2 * size_of::<SvmAttribute>();
        assert_eq!(Command::Svm.request_with_size(size).map(parts), Some((GROUP, 0x20, 40)));
        assert_eq!(MAX_SVM_ATTRIBUTES, 2044);
        assert_eq!(Command::Svm.request_with_size(MAX_SIZE + 1), None);
        assert_eq!(CREATE_PROCESS, 0x4b27);
    }
}
