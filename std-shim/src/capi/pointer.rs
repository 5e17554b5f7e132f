//! The two calls the library exists for: what an address belongs to, and a word beside it.

use core::ffi::c_void;

use hsakmt_core::error::Error;
use hsakmt_core::info::PointerInfo;

use super::argument::{Address, Out};
use super::{convert, opened, twins};
use crate::ctypes::HsaPointerInfo;

twins! {
    /// What `Pointer` belongs to. No lock, no system call, no allocation; an address of no object is the general
    /// failure, and the struct is then all zeros, which means UNKNOWN.
    fn hsaKmtQueryPointerInfo, hsaKmtQueryPointerInfoCtx(context, Pointer: Address, PointerInfo: Out<HsaPointerInfo>) {
        let Some(mut place) = PointerInfo.optional() else {
            return opened(context).and(Err(Error::InvalidParameter));
        };
        context.find(Pointer.0, move |found| {
            place.set(convert::pointer_info(&found.unwrap_or(PointerInfo::UNKNOWN)));
            found.map(drop).ok_or(Error::Failed)
        })?
    }

    /// Attaches a value to the object at `Pointer`.
    fn hsaKmtSetMemoryUserData, hsaKmtSetMemoryUserDataCtx(context, Pointer: Address, UserData: *mut c_void) {
        context.set_user_data(Pointer.0, UserData.expose_provenance())
    }
}
