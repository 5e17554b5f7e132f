//! The structs of the C interface, as Rust sees them.
//!
//! Fields have their C names, since the layout tables do. No field is aligned to more than four bytes. Each struct
//! states its size and each field its offset; the compiler refuses a struct that differs, and a test holds what is
//! stated against `tests/layout`. Bit fields are one word: their meaning is in `capi::convert` or in the core's flag
//! types. The features `abi-6-2-4` and `abi-5-2-3` give structs that have grown since their older layout: these state
//! their size and which layouts have a field, and the test compares the offsets of each layout.
//!
//! C callers own what these structs lie in and align it as they like: only ever write one whole, unaligned.

mod event;
mod memory;
mod opaque;
mod queues;
mod tools;
mod topology;

pub use event::*;
pub use memory::*;
pub use opaque::*;
pub use queues::*;
pub use tools::*;
pub use topology::*;

/// One field of a C struct: what a test compares with the layout tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CField {
    /// Its C name.
    pub name: &'static str,
    /// In bytes.
    pub offset: usize,
    /// In bytes.
    pub size: usize,
}

/// A struct with a stated C layout.
///
/// # Safety
/// Any bytes are a valid value: the struct has neither padding nor fields that restrict them.
pub unsafe trait CStruct: Copy + 'static {
    /// Its C name.
    const NAME: &'static str;
    /// In order of their offsets.
    const FIELDS: &'static [CField];

    /// All bytes 0.
    fn zeroed() -> Self {
        // SAFETY: the trait promises that any bytes, so also zeros, are a valid value.
        unsafe { core::mem::zeroed() }
    }
}

/// Declares a C struct: `Name = size { field: Type = offset, ... }`, or, where the layouts differ,
/// `Name = size, { #[cfg(...)] field: Type, ... }`.
macro_rules! c_struct {
    ($(#[$doc:meta])* $name:ident = $size:literal { $($field:ident: $type:ty = $offset:literal,)* }) => {
        c_struct! { $(#[$doc])* $name = $size, { $($field: $type,)* } }

        $(const _: () = assert!(core::mem::offset_of!($name, $field) == $offset);)*
    };
    ($(#[$doc:meta])* $name:ident = $size:expr, { $($(#[$layouts:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the C name")]
        #[derive(Clone, Copy, Debug)]
        #[repr(C, packed(4))]
        pub struct $name {
            $(
                #[doc = concat!("`", stringify!($field), "` of the C struct.")]
                $(#[$layouts])*
                pub $field: $type,
            )*
        }

        const _: () = {
            assert!(size_of::<$name>() == $size && align_of::<$name>() <= 4);
            // The sizes add up: no padding.
            let mut sum = 0;
            $($(#[$layouts])* { sum += size_of::<$type>(); })*
            assert!(sum == $size);
        };

        // SAFETY: every field type is an integer, a raw pointer, or an array or struct of these; the assertion above
        // says that there is no padding.
        unsafe impl $crate::ctypes::CStruct for $name {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [$crate::ctypes::CField] = &[$(
                $(#[$layouts])*
                $crate::ctypes::CField {
                    name: stringify!($field),
                    offset: core::mem::offset_of!($name, $field),
                    size: size_of::<$type>(),
                },
            )*];
        }
    };
}
use c_struct;

/// Name, size and fields of a struct.
pub type CLayout = (&'static str, usize, &'static [CField]);

const fn layout<T: CStruct>() -> CLayout {
    (T::NAME, size_of::<T>(), T::FIELDS)
}

/// Every struct of this module.
pub const LAYOUTS: &[CLayout] = &[
    layout::<HsaVersionInfo>(),
    layout::<HsaSystemProperties>(),
    layout::<HsaNodeProperties>(),
    layout::<HsaMemoryProperties>(),
    layout::<HsaCacheProperties>(),
    layout::<HsaIoLinkProperties>(),
    layout::<HsaClockCounters>(),
    layout::<HsaGpuTileConfig>(),
    layout::<HsaMemFlags>(),
    layout::<HsaMemMapFlags>(),
    layout::<HsaGraphicsResourceInfo>(),
    layout::<HsaPointerInfo>(),
    layout::<HsaMemoryRange>(),
    layout::<HSA_SVM_ATTRIBUTE>(),
    layout::<HsaQueueResource>(),
    layout::<HsaQueueInfo>(),
    layout::<HsaSyncVar>(),
    layout::<HsaEventDescriptor>(),
    layout::<HsaMemoryAccessFault>(),
    layout::<HsaHwException>(),
    layout::<HsaEventData>(),
    layout::<HsaEvent>(),
    layout::<HsaPcSamplingInfo>(),
    layout::<HsaDbgWaveMessage>(),
    layout::<HsaCounter>(),
    layout::<HsaPmcTraceRoot>(),
];
