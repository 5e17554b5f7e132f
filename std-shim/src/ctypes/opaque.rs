//! C types that no call of ours looks into yet: structs are opaque, enums are the integers that C passes.

/// Structs only ever seen behind a pointer.
macro_rules! opaque {
    ($($name:ident)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, opaque.")]
            #[allow(non_camel_case_types, reason = "the C name")]
            #[derive(Debug)]
            #[repr(C)]
            pub struct $name {
                nothing: [u8; 0],
            }
        )*
    };
}

opaque! {
    HsaAMDGPUDevice
}

/// A libdrm device.
pub type HsaAMDGPUDeviceHandle = *mut HsaAMDGPUDevice;
/// `bool` of a caller that may pass any byte.
pub type CBool = u8;
/// An enum with values up to 0xffffffff.
pub type CEnum = u32;
/// `HSA_QUEUE_PRIORITY` has negative values and 0xffffffff: C makes it eight bytes long.
pub type CPriority = i64;
