//! Queues of the simulated machine in this process: each method is one ioctl, as `device::Device` has it.

use hsakmt_core::driver::Errno;

use super::EmbeddedDriver;
use super::here::Here;
use crate::opcode::Command;
use crate::uapi::{
    AllocQueueGwsArgs, CreateQueueArgs, DestroyQueueArgs, GetQueueWaveStateArgs, SetCuMaskArgs, UpdateQueueArgs,
};

impl EmbeddedDriver {
    /// Makes a queue: fills the queue's id and where its doorbell is.
    ///
    /// # Safety
    /// As for [`Device::create_queue`](crate::device::Device::create_queue).
    pub unsafe fn create_queue(&self, args: &mut CreateQueueArgs) -> Result<(), Errno> {
        self.ioctl(Command::CreateQueue, args, &mut Here::new(self))
    }

    /// Changes a queue's ring, share and priority.
    ///
    /// # Safety
    /// As for [`Device::update_queue`](crate::device::Device::update_queue).
    pub unsafe fn update_queue(&self, mut args: UpdateQueueArgs) -> Result<(), Errno> {
        self.ioctl(Command::UpdateQueue, &mut args, &mut Here::new(self))
    }

    /// Ends a queue.
    pub fn destroy_queue(&self, queue: u32) -> Result<(), Errno> {
        let mut args = DestroyQueueArgs { queue_id: queue, pad: 0 };
        self.ioctl(Command::DestroyQueue, &mut args, &mut Here::new(self))
    }

    /// Says which compute units a queue may use, one bit each.
    pub fn set_cu_mask(&self, queue: u32, mask: &[u32]) -> Result<(), Errno> {
        let bits = mask.len().checked_mul(32).and_then(|bits| u32::try_from(bits).ok()).ok_or(Errno::INVAL)?;
        let bytes = mask.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut here = Here::with(self, bytes);
        let mut args = SetCuMaskArgs { queue_id: queue, num_cu_mask: bits, cu_mask_ptr: here.address() };
        self.ioctl(Command::SetCuMask, &mut args, &mut here)
    }

    /// Copies the control stack of a stopped queue to its context save area.
    ///
    /// # Safety
    /// As for [`Device::queue_wave_state`](crate::device::Device::queue_wave_state).
    pub unsafe fn queue_wave_state(&self, queue: u32, area: u64) -> Result<(u32, u32), Errno> {
        let mut args = GetQueueWaveStateArgs { ctl_stack_address: area, queue_id: queue, ..Default::default() };
        self.ioctl(Command::GetQueueWaveState, &mut args, &mut Here::new(self))?;
        Ok((args.ctl_stack_used_size, args.save_area_used_size))
    }

    /// Gives a queue `count` entries of global wave sync; the first of them.
    pub fn alloc_queue_gws(&self, queue: u32, count: u32) -> Result<u32, Errno> {
        let mut args = AllocQueueGwsArgs { queue_id: queue, num_gws: count, ..Default::default() };
        self.ioctl(Command::AllocQueueGws, &mut args, &mut Here::new(self))?;
        Ok(args.first_gws)
    }

    /// Whether its addresses have memory behind them ([`Space`](super::Space)).
    pub fn has_memory(&self) -> bool {
        matches!(self.space, super::space::AddressSpace::Host(_))
    }
}
