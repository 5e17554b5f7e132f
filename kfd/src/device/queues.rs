//! The ioctls of queues: [`Device`] has one method for each.
//!
//! A queue gives a GPU addresses to read and write at any later time. So the methods that pass addresses on are `unsafe`: the
//! caller answers for the memory. The others hold numbers only.

use hsakmt_core::driver::Errno;

use super::{Arrays, Device, Transport};
use crate::opcode;
use crate::uapi::*;

/// Bytes of the header that a context save area starts with.
const SAVE_AREA_HEADER: usize = 40;

impl<T: Transport> Device<T> {
    /// Makes a queue: fills the queue's id and where its doorbell is.
    ///
    /// # Safety
    /// Ring, pointers, EOP buffer and context save area are memory that the GPU may read and write until the queue is
    /// destroyed: nothing else is put there, and no byte is part of a Rust object that this would break. So is what the
    /// packets in the ring name, for as long as they run.
    #[doc(alias = "AMDKFD_IOC_CREATE_QUEUE")]
    pub unsafe fn create_queue(&self, args: &mut CreateQueueArgs) -> Result<(), Errno> {
        // SAFETY: the kernel writes to the struct alone; the GPU stays within the caller's promise.
        unsafe { self.update::<{ opcode::CREATE_QUEUE }, _>(args) }
    }

    /// Changes a queue's ring, share and priority. A ring of address 0 and size 0 stops the queue.
    ///
    /// # Safety
    /// As for [`Device::create_queue`], for the ring.
    #[doc(alias = "AMDKFD_IOC_UPDATE_QUEUE")]
    pub unsafe fn update_queue(&self, args: UpdateQueueArgs) -> Result<(), Errno> {
        // SAFETY: the kernel only reads the struct; the GPU stays within the caller's promise.
        unsafe { self.set::<{ opcode::UPDATE_QUEUE }, _>(args) }
    }

    /// Ends a queue. Afterwards the GPU uses none of its memory.
    #[doc(alias = "AMDKFD_IOC_DESTROY_QUEUE")]
    pub fn destroy_queue(&self, queue: u32) -> Result<(), Errno> {
        let mut args = DestroyQueueArgs { queue_id: queue, pad: 0 };
        // SAFETY: the struct holds a number only.
        unsafe { self.update::<{ opcode::DESTROY_QUEUE }, _>(&mut args) }
    }

    /// Says which compute units a queue may use, one bit each. `EINVAL` for no bits.
    #[doc(alias = "AMDKFD_IOC_SET_CU_MASK")]
    pub fn set_cu_mask(&self, queue: u32, mask: &[u32]) -> Result<(), Errno> {
        let bits = mask.len().checked_mul(32).and_then(|bits| u32::try_from(bits).ok()).ok_or(Errno::INVAL)?;
        let mask = Arrays::read(mask);
        let mut args = SetCuMaskArgs { queue_id: queue, num_cu_mask: bits, cu_mask_ptr: mask.first() };
        // SAFETY: the kernel reads `num_cu_mask` bits, which the array has.
        unsafe { self.update_with::<{ opcode::SET_CU_MASK }, _>(&mut args, &mask) }
    }

    /// Copies the control stack of a stopped queue to its context save area: `(bytes of control stack, bytes of save area)`.
    ///
    /// # Safety
    /// `area` is the context save area that the queue was made with, and that memory is still there.
    #[doc(alias = "AMDKFD_IOC_GET_QUEUE_WAVE_STATE")]
    pub unsafe fn queue_wave_state(&self, queue: u32, area: u64) -> Result<(u32, u32), Errno> {
        let mut args = GetQueueWaveStateArgs { ctl_stack_address: area, queue_id: queue, ..Default::default() };
        let start = usize::try_from(area).map_err(|_| Errno::INVAL)?;
        // SAFETY: the area starts with a header, and is there by the caller's promise.
        let header = unsafe { Arrays::memory(start, SAVE_AREA_HEADER) };
        // SAFETY: the kernel writes to the struct, and to the save area, which is the queue's by the caller's promise.
        unsafe { self.update_with::<{ opcode::GET_QUEUE_WAVE_STATE }, _>(&mut args, &header) }?;
        Ok((args.ctl_stack_used_size, args.save_area_used_size))
    }

    /// Gives a queue `count` entries of global wave sync, or takes them with 0; the first of them.
    #[doc(alias = "AMDKFD_IOC_ALLOC_QUEUE_GWS")]
    pub fn alloc_queue_gws(&self, queue: u32, count: u32) -> Result<u32, Errno> {
        let mut args = AllocQueueGwsArgs { queue_id: queue, num_gws: count, ..Default::default() };
        // SAFETY: the struct holds numbers only.
        unsafe { self.update::<{ opcode::ALLOC_QUEUE_GWS }, _>(&mut args) }?;
        Ok(args.first_gws)
    }
}
