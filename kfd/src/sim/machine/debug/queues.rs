//! A debugger stops queues, and lets them go on.

use hsakmt_core::driver::Errno;
use zerocopy::IntoBytes;

use super::super::Process;
use super::super::queue::{LIMIT, Queue};
use super::exception;
use crate::sim::caller::Caller;
use crate::uapi::{DbgTrapResumeQueuesArgs, DbgTrapSuspendQueuesArgs, EC_QUEUE_NEW, KFD_DBG_QUEUE_INVALID_MASK};

/// What an operation that stops or resumes queues says of each: no such queue, or none that can be stopped.
const INVALID: u32 = KFD_DBG_QUEUE_INVALID_MASK;

/// The caller's list of queues, each marked invalid.
fn list(address: u64, count: u32, caller: &mut dyn Caller) -> Result<Vec<u32>, Errno> {
    if count > LIMIT {
        return Err(Errno::INVAL);
    }
    let mut ids = vec![0u32; count as usize];
    caller.read(address, ids.as_mut_bytes())?;
    ids.iter_mut().for_each(|id| *id |= INVALID);
    Ok(ids)
}

/// Applies `change` to each queue of the list; the marks of those it accepts go. How many.
fn each(p: &mut Process, ids: &mut [u32], change: impl Fn(&mut Queue) -> bool) -> u32 {
    let mut count = 0;
    for (id, queue) in &mut p.queues.list {
        if let Some(place) = ids.iter_mut().find(|place| **place & !INVALID == *id)
            && change(queue)
        {
            *place &= !INVALID;
            count += 1;
        }
    }
    count
}

pub(super) fn suspend(p: &mut Process, args: &DbgTrapSuspendQueuesArgs, caller: &mut dyn Caller) -> Result<u32, Errno> {
    let mut ids = list(args.queue_array_ptr, args.num_queues, caller)?;
    let count = each(p, &mut ids, |queue| {
        // A debugger must have seen a queue first.
        if !queue.suspended && queue.exceptions & exception(EC_QUEUE_NEW) != 0 {
            return false;
        }
        queue.suspended = true;
        queue.exceptions &= !args.exception_mask;
        true
    });
    // A list that cannot be written is only logged.
    let _ = caller.write(args.queue_array_ptr, ids.as_bytes());
    Ok(count)
}

/// Without a list: all queues.
pub(super) fn resume(p: &mut Process, args: &DbgTrapResumeQueuesArgs, caller: &mut dyn Caller) -> Result<u32, Errno> {
    if args.queue_array_ptr == 0 {
        p.queues.list.values_mut().for_each(|queue| queue.suspended = false);
        return Ok(p.queues.list.len() as u32);
    }
    let mut ids = list(args.queue_array_ptr, args.num_queues, caller)?;
    let count = each(p, &mut ids, |queue| {
        queue.suspended = false;
        true
    });
    let _ = caller.write(args.queue_array_ptr, ids.as_bytes());
    Ok(count)
}
