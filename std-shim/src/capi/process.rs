//! Open, close, version.

use hsakmt_core::error::Error;

use super::argument::Out;
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
}
