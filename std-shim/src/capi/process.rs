//! Open, close, version, and contexts beside the primary one.

use hsakmt_core::error::Error;

use super::argument::{Channel, Out};
use super::{convert, entry};
use crate::context::Context;
use crate::ctypes::HsaVersionInfo;

entry! {
    /// Opens the channel, or counts one more opening.
    fn hsaKmtOpenKFD() {
        Context::primary().open()
    }

    /// Closes once; the last close ends every object.
    fn hsaKmtCloseKFD() {
        Context::primary().close()
    }

    /// The kernel driver's interface version.
    fn hsaKmtGetVersion(VersionInfo: Out<HsaVersionInfo>) {
        let version = Context::primary().manage(|manager| manager.driver().version().map_err(|_| Error::Failed))?;
        VersionInfo.required()?.set(convert::version(version));
        Ok(())
    }

    /// Opens the channel, or counts one more opening, and tells which context that is: the primary one.
    fn hsaKmtOpenKFDCtx(pCtx: Out<Channel>) {
        let mut place = pCtx.required()?;
        let opened = Context::primary().open();
        if matches!(opened, Ok(()) | Err(Error::AlreadyOpened)) {
            place.set(Channel(Context::primary().as_raw()));
        }
        opened
    }

    /// As `hsaKmtCloseKFD`.
    fn hsaKmtCloseKFDCtx() {
        Context::primary().close()
    }

    /// A context of its own: another channel, another kernel process, other objects.
    fn hsaKmtOpenSecondaryKFDCtx(pCtx: Out<Channel>) {
        let mut place = pCtx.required()?;
        place.set(Channel(Context::open_secondary()?.as_raw()));
        Ok(())
    }

    /// Ends a secondary context.
    fn hsaKmtCloseSecondaryKFDCtx(ctx: Channel) {
        Context::from_raw(ctx.0).ok_or(Error::InvalidParameter)?.close_secondary()
    }
}
