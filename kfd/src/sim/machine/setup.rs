//! What is asked once per process or GPU: version, address ranges, the GPU's address space, policies, clocks.

use hsakmt_core::driver::Errno;
use zerocopy::IntoBytes;

use super::event::{EVENT_PAGE_AT, EVENT_PAGE_BYTES};
use super::memory::{MMIO_AT, doorbells_at};
use super::{BUSY, LARGEST_ARRAY, NODEV, PAGE, PERM, Process, World};
use crate::sim::caller::Caller;
use crate::sim::memfd::DeviceFile;
use crate::uapi::{
    AcquireVmArgs, CriuArgs, GetClockCountersArgs, GetProcessAperturesArgs, GetProcessAperturesNewArgs,
    GetTileConfigArgs, GetVersionArgs, KFD_CRIU_OP_CHECKPOINT, KFD_CRIU_OP_PROCESS_INFO, KFD_CRIU_OP_RESTORE,
    KFD_CRIU_OP_RESUME, ProcessDeviceApertures, SetMemoryPolicyArgs, SetScratchBackingVaArgs, SetTrapHandlerArgs,
    SetXnackModeArgs,
};

/// A process that no bound GPU knows: what binding late answers.
const SRCH: Errno = Errno(libc::ESRCH);

/// `KFD_IOC_CACHE_POLICY_NONCOHERENT`, the larger of the two.
const POLICY_LAST: u32 = 1;

impl World {
    pub(crate) fn get_version(&self, args: &mut GetVersionArgs) -> Result<(), Errno> {
        (args.major_version, args.minor_version) = self.machine.kfd_version;
        Ok(())
    }

    fn apertures(&self) -> impl Iterator<Item = ProcessDeviceApertures> {
        self.machine.shown().map(|(_, gpu)| ProcessDeviceApertures {
            lds_base: gpu.lds.base,
            lds_limit: gpu.lds.limit,
            scratch_base: gpu.scratch.base,
            scratch_limit: gpu.scratch.limit,
            gpuvm_base: gpu.gpuvm.base,
            gpuvm_limit: gpu.gpuvm.limit,
            gpu_id: gpu.gpu_id.0,
            pad: 0,
        })
    }

    pub(crate) fn get_apertures(&self, args: &mut GetProcessAperturesArgs) -> Result<(), Errno> {
        args.num_of_nodes = 0;
        for (to, from) in args.process_apertures.iter_mut().zip(self.apertures()) {
            *to = from;
            args.num_of_nodes += 1;
        }
        Ok(())
    }

    pub(crate) fn get_apertures_new(
        &self,
        args: &mut GetProcessAperturesNewArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        let room = args.num_of_nodes as usize;
        if room == 0 {
            args.num_of_nodes = self.machine.shown().count() as u32;
            return Ok(());
        }
        // Newer kernels refuse a caller with more room than there are nodes, older ones run out of memory.
        if self.machine.kfd_version >= (1, 17) {
            if room > self.machine.nodes() {
                return Err(Errno::INVAL);
            }
        } else if room > LARGEST_ARRAY / size_of::<ProcessDeviceApertures>() {
            return Err(Errno::NOMEM);
        }
        let list: Vec<ProcessDeviceApertures> = self.apertures().take(room).collect();
        args.num_of_nodes = list.len() as u32;
        caller.write(args.kfd_process_device_apertures_ptr, list.as_slice().as_bytes())
    }

    pub(crate) fn acquire_vm(
        &self,
        p: &mut Process,
        args: &mut AcquireVmArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        let gpu = self.gpu(args.gpu_id)?;
        let on = p.gpus.get_mut(gpu).ok_or(Errno::INVAL)?;
        match caller.file(args.drm_fd as i32) {
            Some(DeviceFile::Render(node) | DeviceFile::Card(node)) if node == gpu => {
                on.acquired = true;
                Ok(())
            }
            Some(_) if on.acquired => Err(BUSY),
            _ => Err(Errno::INVAL),
        }
    }

    pub(crate) fn set_memory_policy(&self, p: &mut Process, args: &mut SetMemoryPolicyArgs) -> Result<(), Errno> {
        if args.default_policy > POLICY_LAST || args.alternate_policy > POLICY_LAST {
            return Err(Errno::INVAL);
        }
        let gpu = self.gpu(args.gpu_id)?;
        let on = p.bound(gpu).map_err(|_| SRCH)?;
        on.policy = Some((args.default_policy, args.alternate_aperture_base, args.alternate_aperture_size));
        Ok(())
    }

    pub(crate) fn set_scratch(&self, p: &mut Process, args: &mut SetScratchBackingVaArgs) -> Result<(), Errno> {
        let gpu = self.gpu(args.gpu_id)?;
        p.bound(gpu)?.scratch = args.va_addr;
        Ok(())
    }

    pub(crate) fn set_trap_handler(&self, p: &mut Process, args: &mut SetTrapHandlerArgs) -> Result<(), Errno> {
        let gpu = self.gpu(args.gpu_id)?;
        p.bound(gpu).map_err(|_| SRCH)?;
        Ok(())
    }

    pub(crate) fn get_tile_config(&self, args: &mut GetTileConfigArgs, caller: &mut dyn Caller) -> Result<(), Errno> {
        // The sizes of amdgpu's two tables.
        const TILES: u32 = 32;
        const MACRO_TILES: u32 = 16;
        self.gpu(args.gpu_id)?;
        (args.gb_addr_config, args.num_banks, args.num_ranks) = (0x2a11_4042, 4, 0);
        for (count, most, address) in [
            (&mut args.num_tile_configs, TILES, args.tile_config_ptr),
            (&mut args.num_macro_tile_configs, MACRO_TILES, args.macro_tile_config_ptr),
        ] {
            *count = (*count).min(most);
            let zeros = vec![0u8; *count as usize * size_of::<u32>()];
            if let Err(error) = caller.write(address, &zeros) {
                *count = 0;
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn get_clocks(&self, args: &mut GetClockCountersArgs) -> Result<(), Errno> {
        let now = self.uptime().as_nanos() as u64;
        // The GPU counts at 100 MHz; a node without one counts nothing.
        args.gpu_clock_counter = if self.gpu(args.gpu_id).is_ok() { now / 10 } else { 0 };
        args.cpu_clock_counter = now;
        args.system_clock_counter = now;
        args.system_clock_freq = 1_000_000_000;
        Ok(())
    }

    /// Whether the kfd file shows something at an offset below the doorbells: each GPU's MMIO page, and the event page.
    pub(crate) fn shows(&self, offset: u64, length: u64) -> Result<(), Errno> {
        let mmio = (0..self.machine.gpus.len() as u64).any(|gpu| offset == MMIO_AT + gpu * PAGE);
        match offset {
            EVENT_PAGE_AT if length > EVENT_PAGE_BYTES => Err(Errno::INVAL),
            EVENT_PAGE_AT => Ok(()),
            _ if mmio || offset >= doorbells_at(0) => Ok(()),
            _ => Err(NODEV),
        }
    }

    /// Checkpoint and restore: only what a process without GPUs is answered, and what no process may ask.
    pub(crate) fn criu(&self, args: &CriuArgs) -> Result<(), Errno> {
        let lists = args.devices != 0 && args.bos != 0 && args.priv_data != 0;
        let alone = self.machine.gpus.is_empty();
        match args.op {
            KFD_CRIU_OP_PROCESS_INFO if alone => Err(NODEV),
            KFD_CRIU_OP_CHECKPOINT if lists && alone => Err(NODEV),
            KFD_CRIU_OP_PROCESS_INFO => Err(Errno::NOTTY),
            KFD_CRIU_OP_CHECKPOINT | KFD_CRIU_OP_RESTORE if lists && !alone => Err(Errno::NOTTY),
            KFD_CRIU_OP_RESUME if self.processes.values().all(|process| process.pid != args.pid) => Err(SRCH),
            // Lists that are missing, a restore without GPUs, a process that was not checkpointed, no such operation.
            _ => Err(Errno::INVAL),
        }
    }

    /// Negative asks, 0 and 1 set. Without retry faults in the hardware only "off" can be set. A machine without GPUs answers
    /// as a kernel that was built without shared virtual memory.
    pub(crate) fn set_xnack(&self, p: &mut Process, args: &mut SetXnackModeArgs) -> Result<(), Errno> {
        let wanted = args.xnack_enabled;
        if self.machine.gpus.is_empty() {
            return Err(PERM);
        }
        if wanted < 0 {
            args.xnack_enabled = i32::from(p.xnack);
            return Ok(());
        }
        if wanted > 0 && !self.machine.gpus.iter().all(|gpu| matches!(gpu.gfx_target_version, 90010 | 90402)) {
            return Err(PERM);
        }
        if p.queues.any() {
            return Err(BUSY);
        }
        p.xnack = wanted > 0;
        Ok(())
    }
}
