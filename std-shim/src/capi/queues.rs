//! User-mode queues. What each does is `crate::queues`; here are only its arguments.

use core::ptr::with_exposed_provenance_mut;

use hsakmt_core::error::{Error, Result};
use hsakmt_core::node;

use super::argument::{Address, In, InOut, Out};
use super::{opened, twins};
use crate::context::Context;
use crate::ctypes::*;
use crate::queues::{self, MadeQueue, QueueRequest, QueueType};

/// `HSA_QUEUE_SDMA_BY_ENG_ID`: only the call that names an engine takes it.
const BY_ENGINE: CEnum = 6;

twins! {
    /// Makes a queue.
    fn hsaKmtCreateQueue, hsaKmtCreateQueueCtx(
        context,
        NodeId: u32,
        Type: CEnum,
        QueuePercentage: u32,
        Priority: CPriority,
        QueueAddress: Address,
        QueueSizeInBytes: u64,
        Event: In<u32>,
        QueueResource: InOut<HsaQueueResource>,
    ) {
        if Type == BY_ENGINE {
            return Err(Error::Failed);
        }
        let kind = Kind { number: Type, engine: 0, percentage: QueuePercentage, priority: Priority };
        create(context, NodeId, kind, QueueAddress, QueueSizeInBytes, Event, QueueResource)
    }

    /// Makes a queue, perhaps on a copy engine of the caller's choice.
    fn hsaKmtCreateQueueExt, hsaKmtCreateQueueExtCtx(
        context,
        NodeId: u32,
        Type: CEnum,
        QueuePercentage: u32,
        Priority: CPriority,
        SdmaEngineId: u32,
        QueueAddress: Address,
        QueueSizeInBytes: u64,
        Event: In<u32>,
        QueueResource: InOut<HsaQueueResource>,
    ) {
        let kind = Kind { number: Type, engine: SdmaEngineId, percentage: QueuePercentage, priority: Priority };
        create(context, NodeId, kind, QueueAddress, QueueSizeInBytes, Event, QueueResource)
    }

    /// Changes a queue's ring, share and priority.
    fn hsaKmtUpdateQueue, hsaKmtUpdateQueueCtx(
        context,
        QueueId: u64,
        QueuePercentage: u32,
        Priority: CPriority,
        QueueAddress: Address,
        QueueSize: u64,
        _Event: In<u32>,
    ) {
        let context = opened(context)?;
        let priority = queues::Priority::new(Priority).ok_or(Error::InvalidParameter)?;
        // SAFETY: the caller's promise by calling (`argument`): the ring is memory that the GPU may use.
        unsafe { context.update_queue(QueueId, QueuePercentage, priority, QueueAddress.0 as u64, QueueSize as u32) }
    }

    /// Ends a queue.
    fn hsaKmtDestroyQueue, hsaKmtDestroyQueueCtx(context, QueueId: u64) {
        context.destroy_queue(QueueId)
    }

    /// Says which compute units a queue may use.
    fn hsaKmtSetQueueCUMask, hsaKmtSetQueueCUMaskCtx(
        context,
        QueueId: u64,
        CUMaskCount: u32,
        QueueCUMask: In<u32>,
    ) {
        let context = opened(context)?;
        if CUMaskCount == 0 || QueueCUMask.is_missing() || !CUMaskCount.is_multiple_of(32) {
            return Err(Error::InvalidParameter);
        }
        // More than the kernel looks at are not read.
        context.set_queue_cu_mask(QueueId, &QueueCUMask.copy((CUMaskCount / 32).min(32) as usize)?)
    }

    /// Gives a queue entries of global wave sync.
    fn hsaKmtAllocQueueGWS, hsaKmtAllocQueueGWSCtx(context, QueueId: u64, nGWS: u32, firstGWS: Out<u32>) {
        let first = context.alloc_queue_gws(QueueId, nGWS)?;
        firstGWS.optional().iter_mut().for_each(|place| place.set(first));
        Ok(())
    }

    /// Where the saved waves of a stopped queue are.
    fn hsaKmtGetQueueInfo, hsaKmtGetQueueInfoCtx(context, QueueId: u64, QueueInfo: InOut<HsaQueueInfo>) {
        let context = opened(context)?;
        let asked = QueueInfo.get().ok_or(Error::InvalidParameter)?;
        // SAFETY: the caller's promise by calling: a queue's memory is freed by ending the queue.
        let info = unsafe { context.queue_info(QueueId) }?;
        let stack_end = info.area + u64::from(info.stack_size);
        QueueInfo.out().required()?.set(HsaQueueInfo {
            QueueDetailError: 0,
            QueueTypeExtended: 0,
            NumCUAssigned: info.mask_bits,
            CUMaskInfo: with_exposed_provenance_mut(info.mask),
            UserContextSaveArea: stack_end,
            SaveAreaSizeInBytes: u64::from(info.save_used),
            ControlStackTop: stack_end - u64::from(info.stack_used),
            ControlStackUsedInBytes: u64::from(info.stack_used),
            SaveAreaHeader: info.area,
            Reserved2: asked.Reserved2,
        });
        Ok(())
    }
}

/// What kind of queue a C caller names, unchecked.
struct Kind {
    number: CEnum,
    engine: u32,
    percentage: u32,
    priority: CPriority,
}

impl Kind {
    fn kind(&self) -> Result<QueueType> {
        match self.number {
            1 => Ok(QueueType::Compute),
            2 => Ok(QueueType::Sdma),
            5 => Ok(QueueType::SdmaXgmi),
            BY_ENGINE => Ok(QueueType::SdmaByEngine(self.engine)),
            21 => Ok(QueueType::ComputeAql),
            _ => Err(Error::InvalidParameter),
        }
    }
}

/// The checks in the C interface's order. The resource is written when all has been done.
fn create(
    context: Context,
    node_id: u32,
    kind: Kind,
    ring: Address,
    size: u64,
    event: In<u32>,
    resource: InOut<HsaQueueResource>,
) -> Result<()> {
    let context = opened(context)?;
    let priority = queues::Priority::new(kind.priority).ok_or(Error::InvalidParameter)?;
    context.check_queue_node(node::NodeId(node_id))?;
    let asked = resource.get().ok_or(Error::InvalidParameter)?;
    let request = QueueRequest {
        node: node::NodeId(node_id),
        kind: kind.kind()?,
        percentage: kind.percentage,
        priority,
        ring: ring.0 as u64,
        ring_size: size as u32,
        pointers: (asked.Queue_write_ptr, asked.Queue_read_ptr),
        // An event starts with its id.
        event: if event.is_missing() { 0 } else { event.required()? },
        error_reason: asked.ErrorReason,
    };
    // SAFETY: the caller's promise by calling (`argument`): ring and pointers are memory that the GPU may use.
    let MadeQueue { id, doorbell, pointers } = unsafe { context.create_queue(&request) }?;
    resource.out().required()?.set(HsaQueueResource {
        QueueId: id,
        Queue_DoorBell: doorbell,
        Queue_write_ptr: pointers.0,
        Queue_read_ptr: pointers.1,
        ErrorReason: asked.ErrorReason,
    });
    Ok(())
}
