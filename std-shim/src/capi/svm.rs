//! Shared virtual memory, XNACK, and how much memory is left.

use hsakmt_core::driver::SvmAttribute;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::node::NodeId;

use super::argument::{Address, In, InOut, Out};
use super::{opened, twins};
use crate::ctypes::HSA_SVM_ATTRIBUTE;

/// As many attributes as the ioctl's size field (14 bits, 24 bytes of which are not attributes) can tell. More are
/// refused before any is read.
const MOST_ATTRIBUTES: u32 = (0x3fff - 24) / 8;

twins! {
    /// Sets attributes of a range.
    fn hsaKmtSVMSetAttr, hsaKmtSVMSetAttrCtx(
        context,
        start_addr: Address,
        size: u64,
        nattr: u32,
        attrs: In<HSA_SVM_ATTRIBUTE>,
    ) {
        let context = opened(context)?;
        context.check_svm_range(start_addr.0, size as usize)?;
        context.set_svm_attributes(start_addr.range(size), &attributes(attrs, nattr)?)
    }

    /// Reads attributes of a range.
    fn hsaKmtSVMGetAttr, hsaKmtSVMGetAttrCtx(
        context,
        start_addr: Address,
        size: u64,
        nattr: u32,
        attrs: InOut<HSA_SVM_ATTRIBUTE>,
    ) {
        let context = opened(context)?;
        context.check_svm_range(start_addr.0, size as usize)?;
        let mut named = attributes(attrs.input(), nattr)?;
        context.svm_attributes(start_addr.0, size as usize, &mut named)?;
        let answers = named.iter().map(|named| HSA_SVM_ATTRIBUTE { r#type: named.kind, value: named.value });
        attrs.out().optional().iter_mut().for_each(|place| place.fill(answers.clone()));
        Ok(())
    }

    /// Turns XNACK on or off.
    fn hsaKmtSetXNACKMode, hsaKmtSetXNACKModeCtx(context, enable: i32) {
        context.xnack_mode(Some(enable)).map(|_| ())
    }

    /// Whether XNACK is on.
    fn hsaKmtGetXNACKMode, hsaKmtGetXNACKModeCtx(context, enable: Out<i32>) {
        let mut place = enable.required()?;
        // What a refused call leaves.
        place.set(-1);
        place.set(opened(context)?.xnack_mode(None)?);
        Ok(())
    }

    /// Bytes of device memory that can still be had.
    fn hsaKmtAvailableMemory, hsaKmtAvailableMemoryCtx(context, Node: u32, AvailableBytes: Out<u64>) {
        let context = opened(context)?;
        let mut place = AvailableBytes.required()?;
        place.set(context.available_memory(NodeId(Node))?);
        Ok(())
    }

    /// Only a build for GPU address sanitizers does this.
    fn hsaKmtReplaceAsanHeaderPage, hsaKmtReplaceAsanHeaderPageCtx(_context, _addr: Address) {
        Err::<(), _>(Error::NotSupported)
    }

    /// Only a build for GPU address sanitizers does this.
    fn hsaKmtReturnAsanHeaderPage, hsaKmtReturnAsanHeaderPageCtx(_context, _addr: Address) {
        Err::<(), _>(Error::NotSupported)
    }
}

fn attributes(list: In<HSA_SVM_ATTRIBUTE>, count: u32) -> Result<Vec<SvmAttribute>> {
    if count > MOST_ATTRIBUTES || (list.is_missing() && count != 0) {
        return Err(Error::InvalidParameter);
    }
    let list = list.copy(count as usize)?;
    Ok(list.iter().map(|one| SvmAttribute { kind: one.r#type, value: one.value }).collect())
}
