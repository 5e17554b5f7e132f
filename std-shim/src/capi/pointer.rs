//! The two calls the library exists for: what an address belongs to, and a word beside it.

use core::ffi::c_void;

use hsakmt_core::error::Error;
use hsakmt_core::info::PointerInfo;

use super::argument::{Address, Channel, Out};
use super::{convert, entry, opened, twins};
use crate::context::Context;
use crate::ctypes::HsaPointerInfo;
use crate::status::Status;

entry! {
    in prompt_boundary

    /// What `Pointer` belongs to. No lock, no system call, no allocation; an address of no object is the general
    /// failure, and the struct is then all zeros, which means UNKNOWN.
    fn hsaKmtQueryPointerInfo(Pointer: Address, PointerInfo: Out<HsaPointerInfo>) {
        query(Context::primary(), Pointer, PointerInfo)
    }

    /// As `hsaKmtQueryPointerInfo`, in a context.
    fn hsaKmtQueryPointerInfoCtx(ctx: Channel, Pointer: Address, PointerInfo: Out<HsaPointerInfo>) {
        ctx.context().map_or_else(Status::from, |context| query(context, Pointer, PointerInfo))
    }
}

/// An answer is a status at once: no `Result` on the way that the fastest call would have to take apart.
#[inline(always)]
fn query(context: Context, address: Address, out: Out<HsaPointerInfo>) -> Status {
    let Some(mut place) = out.optional() else {
        return opened(context).err().unwrap_or(Error::InvalidParameter).into();
    };
    let answer = move |found: Option<PointerInfo<'_>>| {
        place.set(convert::pointer_info(&found.unwrap_or(PointerInfo::UNKNOWN)));
        if found.is_some() { Status::Success } else { Status::Error }
    };
    context.find(address.0, answer, Status::from)
}

twins! {
    in prompt_boundary

    /// Attaches a value to the object at `Pointer`.
    fn hsaKmtSetMemoryUserData, hsaKmtSetMemoryUserDataCtx(context, Pointer: Address, UserData: *mut c_void) {
        context.set_user_data(Pointer.0, UserData.expose_provenance())
    }
}
