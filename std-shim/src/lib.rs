//! placeholder

pub mod capi;
pub mod ctypes;
pub mod status;
