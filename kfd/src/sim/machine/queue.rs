//! Queues, as far as their bookkeeping goes: ids, checks and doorbells. No simulated GPU reads them.

use std::collections::BTreeMap;

use hsakmt_core::driver::Errno;

use super::memory::{DOORBELL_BYTES, DOORBELLS_AT};
use super::{NODEV, Process, World};
use crate::uapi::{
    AllocQueueGwsArgs, CreateQueueArgs, DestroyQueueArgs, KFD_IOC_QUEUE_TYPE_SDMA_XGMI, KFD_MAX_QUEUE_PERCENTAGE,
    KFD_MAX_QUEUE_PRIORITY, SetCuMaskArgs, UpdateQueueArgs,
};

/// Queues of one process.
const LIMIT: u32 = 1024;

/// A process's queues: id -> GPU.
#[derive(Debug, Default)]
pub(crate) struct Queues(BTreeMap<u32, usize>);

impl Queues {
    /// Whether there is one.
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }
}

fn check(percentage: u32, priority: u32, ring: u32) -> Result<(), Errno> {
    // The upper byte of the percentage names a pipe partition.
    let sound = percentage & 0xff <= KFD_MAX_QUEUE_PERCENTAGE
        && priority <= KFD_MAX_QUEUE_PRIORITY
        && (ring == 0 || ring.is_power_of_two());
    if sound { Ok(()) } else { Err(Errno::INVAL) }
}

impl World {
    pub(crate) fn create_queue(&mut self, p: &mut Process, args: &mut CreateQueueArgs) -> Result<(), Errno> {
        check(args.queue_percentage, args.queue_priority, args.ring_size)?;
        if args.queue_type > KFD_IOC_QUEUE_TYPE_SDMA_XGMI {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let gpu = self.gpu(args.gpu_id)?;
        p.bound(gpu).map_err(|_| Errno(libc::ESRCH))?;
        let id = (0..LIMIT).find(|id| !p.queues.0.contains_key(id)).ok_or(Errno::NOMEM)?;
        p.queues.0.insert(id, gpu);
        args.queue_id = id;
        args.doorbell_offset = DOORBELLS_AT + gpu as u64 * DOORBELL_BYTES + u64::from(id) * 8;
        Ok(())
    }

    pub(crate) fn update_queue(&self, p: &mut Process, args: &mut UpdateQueueArgs) -> Result<(), Errno> {
        check(args.queue_percentage, args.queue_priority, args.ring_size)?;
        p.queues.0.get(&args.queue_id).map(drop).ok_or(Errno::INVAL)
    }

    pub(crate) fn destroy_queue(&self, p: &mut Process, args: &mut DestroyQueueArgs) -> Result<(), Errno> {
        p.queues.0.remove(&args.queue_id).map(drop).ok_or(Errno::INVAL)
    }

    pub(crate) fn set_cu_mask(&self, p: &mut Process, args: &mut SetCuMaskArgs) -> Result<(), Errno> {
        if args.num_cu_mask == 0 || !args.num_cu_mask.is_multiple_of(32) {
            return Err(Errno::INVAL);
        }
        p.queues.0.get(&args.queue_id).map(drop).ok_or(Errno::INVAL)
    }

    /// No simulated GPU has global wave sync.
    pub(crate) fn alloc_gws(&self, p: &mut Process, args: &mut AllocQueueGwsArgs) -> Result<(), Errno> {
        p.queues.0.get(&args.queue_id).ok_or(Errno::INVAL)?;
        Err(NODEV)
    }
}
