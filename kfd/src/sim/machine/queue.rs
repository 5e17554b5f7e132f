//! Queues: created, changed, destroyed. What they run is the engine's ([`crate::sim::engine`]).
//!
//! A queue is active while it has a ring and a share of the GPU above 0, as in the kernel. Its doorbell is a word in the
//! kfd file that rests at all ones until the process writes it.

use std::collections::BTreeMap;

use hsakmt_core::driver::Errno;

use super::bus::{Place, Poke, RESTING};
use super::memory::doorbells_at;
use super::{BUSY, FAULT, NODEV, Process, World};
use crate::sim::caller::Caller;
use crate::uapi::{
    AllocQueueGwsArgs, CreateQueueArgs, DestroyQueueArgs, EC_QUEUE_NEW, GetQueueWaveStateArgs,
    KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, KFD_IOC_QUEUE_TYPE_SDMA,
    KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, KFD_IOC_QUEUE_TYPE_SDMA_XGMI, KFD_MAX_QUEUE_PERCENTAGE, KFD_MAX_QUEUE_PRIORITY,
    SetCuMaskArgs, UpdateQueueArgs,
};

/// Queues of one process.
pub(crate) const LIMIT: u32 = 1024;
/// Queues of one process on one GPU.
const GPU_LIMIT: usize = 127;
/// The most bits of a CU mask that count.
const CU_MASK_BITS: u32 = 1024;
/// `ENOTSUPP`: a number of the kernel's own that it lets out here.
const NOT_SUPPORTED: Errno = Errno(524);

/// What a queue's packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// PM4, counted in dwords.
    Pm4,
    /// AQL, counted in packets of 64 bytes.
    Aql,
    /// SDMA, counted in bytes.
    Sdma { xgmi: bool },
}

/// An indirect buffer that a PM4 queue is inside of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Indirect {
    pub(crate) va: u64,
    /// Dwords.
    pub(crate) at: u64,
    pub(crate) end: u64,
}

/// One queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) gpu: usize,
    pub(crate) kind: Kind,
    pub(crate) ring: u64,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) read_pointer: u64,
    /// Percent of the GPU.
    share: u32,
    priority: u32,
    pub(crate) save_area: u64,
    pub(crate) control_stack: u32,
    /// Where in the kfd file its doorbell is.
    pub(crate) doorbell: u64,
    /// The highest value the doorbell had.
    pub(crate) rung: Option<u64>,
    /// How far it ran, in the units of its kind.
    pub(crate) done: u64,
    /// Where a PM4 queue is inside an indirect buffer.
    pub(crate) indirect: Option<Indirect>,
    /// Dwords of the packet that led into it.
    pub(crate) pending: u64,
    /// What memory held before the last atomic operation.
    pub(crate) returned: u64,
    /// It faulted, or met a packet that it cannot run.
    pub(crate) stopped: bool,
    /// Exceptions that it raised, one bit each.
    pub(crate) exceptions: u64,
    gws: bool,
    /// A debugger has stopped it.
    pub(crate) suspended: bool,
    pub(crate) write_pointer: u64,
    pub(crate) save_area_size: u32,
    /// Handles of the buffers that may not be unmapped while it exists.
    pub(crate) buffers: Vec<u64>,
}

impl Queue {
    /// Whether the GPU runs it.
    pub(crate) fn is_active(&self) -> bool {
        self.ring != 0 && self.size != 0 && self.share & 0xff > 0 && !self.stopped && !self.suspended
    }

    /// Whether global wave sync is its.
    pub(crate) fn has_gws(&self) -> bool {
        self.gws
    }
}

/// A process's queues by id.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    pub(crate) list: BTreeMap<u32, Queue>,
}

impl Queues {
    /// Whether there is one.
    pub(crate) fn any(&self) -> bool {
        !self.list.is_empty()
    }

    /// Whether a buffer object must stay mapped for some queue of a GPU.
    pub(crate) fn holds(&self, gpu: usize, handle: u64) -> bool {
        self.list.values().any(|queue| queue.gpu == gpu && queue.buffers.contains(&handle))
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
        let kind = match args.queue_type {
            KFD_IOC_QUEUE_TYPE_COMPUTE => Kind::Pm4,
            KFD_IOC_QUEUE_TYPE_COMPUTE_AQL => Kind::Aql,
            KFD_IOC_QUEUE_TYPE_SDMA | KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID => Kind::Sdma { xgmi: false },
            KFD_IOC_QUEUE_TYPE_SDMA_XGMI => Kind::Sdma { xgmi: true },
            _ => return Err(NOT_SUPPORTED),
        };
        let gpu = self.gpu(args.gpu_id)?;
        let model = self.machine.gpus.get(gpu).ok_or(Errno::INVAL)?;
        let (plain, xgmi) = model.sdma_engines();
        if args.queue_type == KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID && args.sdma_engine_id >= plain + xgmi {
            return Err(Errno::INVAL);
        }
        let kind = match kind {
            Kind::Sdma { .. } if args.queue_type == KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID => {
                Kind::Sdma { xgmi: args.sdma_engine_id >= plain }
            }
            kind => kind,
        };
        let doorbell_size = if model.gfx_target_version < 90000 { 4 } else { 8 };
        p.bound(gpu).map_err(|_| Errno(libc::ESRCH))?;
        let buffers = self.queue_buffers(p, gpu, kind, args)?;
        if p.queues.list.values().filter(|queue| queue.gpu == gpu).count() >= GPU_LIMIT {
            return Err(Errno(libc::ENOSPC));
        }
        self.check_sdma_left(p, gpu, kind)?;
        let id = (0..LIMIT).find(|id| !p.queues.list.contains_key(id)).ok_or(Errno::NOMEM)?;
        let page = doorbells_at(gpu);
        let doorbell = page + u64::from(id) * doorbell_size;
        self.pokes.push(Poke { place: Place::Kfd(doorbell), bytes: vec![RESTING; doorbell_size as usize] });
        let queue = Queue {
            gpu,
            kind,
            ring: args.ring_base_address,
            size: args.ring_size.into(),
            read_pointer: args.read_pointer_address,
            share: args.queue_percentage,
            priority: args.queue_priority,
            save_area: args.ctx_save_restore_address,
            control_stack: args.ctl_stack_size,
            doorbell,
            rung: None,
            done: 0,
            indirect: None,
            pending: 0,
            returned: 0,
            stopped: false,
            exceptions: 1 << (EC_QUEUE_NEW - 1),
            gws: false,
            suspended: false,
            write_pointer: args.write_pointer_address,
            save_area_size: args.ctx_save_restore_size,
            buffers,
        };
        p.tell_debugger(queue.exceptions);
        p.queues.list.insert(id, queue);
        args.queue_id = id;
        // Older GPUs find the doorbell by the queue's id.
        args.doorbell_offset = if doorbell_size == 4 { page } else { doorbell };
        Ok(())
    }

    /// The kernel has as many SDMA queues as the engines do, for all processes.
    fn check_sdma_left(&self, p: &Process, gpu: usize, kind: Kind) -> Result<(), Errno> {
        let Kind::Sdma { xgmi } = kind else { return Ok(()) };
        let (plain, other) = self.machine.gpus.get(gpu).map_or((0, 0), |gpu| gpu.sdma_engines());
        let all = self.machine.gpus.get(gpu).map_or(0, |gpu| gpu.sdma_queues()) * if xgmi { other } else { plain };
        let queues = self.processes.values().chain([p]).flat_map(|process| process.queues.list.values());
        let used = queues.filter(|queue| queue.gpu == gpu && queue.kind == kind).count();
        if used < all as usize { Ok(()) } else { Err(Errno::NOMEM) }
    }

    pub(crate) fn update_queue(&self, p: &mut Process, args: &mut UpdateQueueArgs) -> Result<(), Errno> {
        check(args.queue_percentage, args.queue_priority, args.ring_size)?;
        let queue = p.queues.list.get(&args.queue_id).ok_or(FAULT)?;
        let (ring, size) = (args.ring_base_address, u64::from(args.ring_size));
        let mut buffers = queue.buffers.clone();
        if ring != 0 && size != 0 && (ring, size) != (queue.ring, queue.size) {
            buffers.push(self.whole_buffer(p, queue.gpu, ring, size).map_err(|_| FAULT)?);
        }
        let queue = p.queues.list.get_mut(&args.queue_id).ok_or(Errno::INVAL)?;
        (queue.ring, queue.size, queue.buffers) = (ring, size, buffers);
        (queue.share, queue.priority) = (args.queue_percentage, args.queue_priority);
        Ok(())
    }

    pub(crate) fn destroy_queue(&self, p: &mut Process, args: &mut DestroyQueueArgs) -> Result<(), Errno> {
        p.queues.list.remove(&args.queue_id).map(drop).ok_or(Errno::INVAL)
    }

    pub(crate) fn set_cu_mask(
        &self,
        p: &mut Process,
        args: &mut SetCuMaskArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        if args.num_cu_mask == 0 || !args.num_cu_mask.is_multiple_of(32) {
            return Err(Errno::INVAL);
        }
        let mut mask = vec![0; (args.num_cu_mask.min(CU_MASK_BITS) / 8) as usize];
        caller.read(args.cu_mask_ptr, &mut mask)?;
        p.queues.list.get(&args.queue_id).map(drop).ok_or(FAULT)
    }

    /// Global wave sync goes to one queue per process and GPU; 0 gives it back.
    pub(crate) fn alloc_gws(&self, p: &mut Process, args: &mut AllocQueueGwsArgs) -> Result<(), Errno> {
        let queue = p.queues.list.get(&args.queue_id).ok_or(Errno::INVAL)?;
        let gpu = queue.gpu;
        if self.machine.gpus.get(gpu).is_none_or(|gpu| gpu.gws() == 0) {
            return Err(NODEV);
        }
        let given = p.queues.list.values().any(|queue| queue.gpu == gpu && queue.gws);
        match (args.num_gws, given) {
            (0, false) => return Err(Errno::INVAL),
            (1.., true) => return Err(BUSY),
            _ => {}
        }
        args.first_gws = 0;
        if let Some(queue) = p.queues.list.get_mut(&args.queue_id) {
            queue.gws = args.num_gws > 0;
        }
        Ok(())
    }

    /// What waves a queue left on the GPU: none, since no wave ever runs. An active queue's are not known.
    pub(crate) fn wave_state(
        &self,
        p: &mut Process,
        args: &mut GetQueueWaveStateArgs,
        caller: &mut dyn Caller,
    ) -> Result<(), Errno> {
        let queue = p.queues.list.get(&args.queue_id).ok_or(FAULT)?;
        if matches!(queue.kind, Kind::Sdma { .. }) || queue.is_active() || queue.save_area == 0 {
            return Err(Errno::INVAL);
        }
        (args.ctl_stack_used_size, args.save_area_used_size) = (0, 0);
        // The header of the save area: offsets and sizes of stack and waves.
        let header = [queue.control_stack, 0, queue.control_stack, 0];
        caller.write(args.ctl_stack_address, zerocopy::IntoBytes::as_bytes(&header))
    }
}
