//! User-mode queues, as methods of [`Context`]: made, changed, ended, and asked about.
//!
//! In: a node, a ring, what kind. Out: the address of the queue's page, which is what C callers hold as its id. Besides the
//! ring a queue needs a page for its pointers, an end-of-pipe buffer, a context save area and a doorbell; `buffers` makes
//! them. What never happens: a queue that failed and left a trace, an id that is followed as a pointer (it is looked up), a
//! live queue whose memory goes at the last close before the queue does.
//!
//! | file | what is in it |
//! |---|---|
//! | `plan` | which buffers a queue needs, and what the kernel is told |
//! | `sizes` | how large the buffers are: pure functions |
//! | `buffers` | the buffers' memory, and the doorbells of each GPU |
//! | `chain` | the books, in memory that is taken before the lock |
//!
//! All methods block. A forked child has none of its parent's queues: they are the parent's.

mod buffers;
mod chain;
mod plan;
mod sizes;

use core::sync::atomic::{Ordering, fence};

use hsakmt_core::error::{Error, Result};
use hsakmt_core::node::NodeId;
use hsakmt_kfd::topology::{Node, Topology};
use hsakmt_kfd::uapi::{
    KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, KFD_IOC_QUEUE_TYPE_SDMA,
    KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, KFD_IOC_QUEUE_TYPE_SDMA_XGMI, UpdateQueueArgs,
};

use crate::context::{Context, ContextManager};
use crate::system::opened_snapshot;
use buffers::{Buffers, Doorbells};
use chain::{Chain, Link};
use plan::{Plan, whole_mask};

/// Words of a mask of compute units: the kernel looks at no more.
const MASK_WORDS: usize = 32;

/// What runs a queue's packets.
#[doc(alias = "HSA_QUEUE_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueType {
    /// Compute, PM4 packets.
    Compute,
    /// Compute, AQL packets. The caller gives the addresses of its pointers.
    ComputeAql,
    /// A copy engine.
    Sdma,
    /// A copy engine for links between GPUs.
    SdmaXgmi,
    /// This copy engine.
    SdmaByEngine(u32),
}

impl QueueType {
    fn kernel(self) -> (u32, u32) {
        match self {
            QueueType::Compute => (KFD_IOC_QUEUE_TYPE_COMPUTE, 0),
            QueueType::ComputeAql => (KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, 0),
            QueueType::Sdma => (KFD_IOC_QUEUE_TYPE_SDMA, 0),
            QueueType::SdmaXgmi => (KFD_IOC_QUEUE_TYPE_SDMA_XGMI, 0),
            QueueType::SdmaByEngine(engine) => (KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, engine),
        }
    }
}

/// How urgent a queue is: -3 to 3.
#[doc(alias = "HSA_QUEUE_PRIORITY")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority(u32);

impl Priority {
    /// Neither more nor less urgent than others.
    pub const NORMAL: Priority = Priority(7);

    /// `None` outside of -3 to 3.
    pub fn new(level: i64) -> Option<Priority> {
        const OF_THE_KERNEL: [u32; 7] = [0, 3, 5, 7, 9, 11, 15];
        let place = usize::try_from(level.checked_add(3)?).ok()?;
        OF_THE_KERNEL.get(place).copied().map(Priority)
    }
}

/// A queue as wanted.
#[derive(Clone, Copy, Debug)]
pub struct QueueRequest {
    /// Whose GPU runs it.
    pub node: NodeId,
    /// What runs it.
    pub kind: QueueType,
    /// Its share, 0 to 100.
    pub percentage: u32,
    /// How urgent it is.
    pub priority: Priority,
    /// The GPU address of its ring.
    pub ring: u64,
    /// Bytes of the ring, a power of two.
    pub ring_size: u32,
    /// Where its write and read pointers are. Only [`QueueType::ComputeAql`] looks at them: others have their own.
    pub pointers: (u64, u64),
    /// The event to signal when the queue fails; 0 for none.
    pub event: u32,
    /// Where the reason of a failure is to be written; 0 for nowhere.
    pub error_reason: u64,
}

/// A queue as made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeQueue {
    /// Its name: the address of its page.
    pub id: u64,
    /// The address of its doorbell.
    pub doorbell: u64,
    /// Where its write and read pointers are.
    pub pointers: (u64, u64),
}

/// What is known of a queue whose waves were saved.
#[doc(alias = "HsaQueueInfo")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    /// The context save area, which starts with its header.
    pub area: u64,
    /// Bytes of it up to the saved waves.
    pub stack_size: u32,
    /// Bytes of control stack in use, at the end of [`QueueInfo::stack_size`].
    pub stack_used: u32,
    /// Bytes of saved waves.
    pub save_used: u32,
    /// Bits in the mask of compute units.
    pub mask_bits: u32,
    /// The address of the mask: 32-bit words that stay until the queue ends, and change with its mask.
    pub mask: usize,
}

/// A live queue.
#[derive(Debug)]
struct Queue {
    /// Its id: the address of its page.
    page: usize,
    /// The kernel's name of it.
    number: u32,
    buffers: Buffers,
    /// Of an AQL queue: where its write index is, and its doorbell.
    ring: Option<(u64, u64)>,
    mask_bits: u32,
    mask: [u32; MASK_WORDS],
}

/// A context's queues, and the doorbells of its GPUs.
#[derive(Debug)]
pub(crate) struct Queues {
    live: Chain<Queue>,
    doorbells: Chain<Doorbells>,
}

impl Queues {
    pub(crate) const fn new() -> Queues {
        Queues { live: Chain::new(), doorbells: Chain::new() }
    }

    fn find(&mut self, id: u64) -> Result<&mut Queue> {
        self.live.find(|queue| queue.page as u64 == id).ok_or(Error::InvalidParameter)
    }

    /// The kernel's number of a queue.
    pub(crate) fn number(&mut self, id: u64) -> Result<u32> {
        Ok(self.find(id)?.number)
    }

    /// The last close: queues end before their memory does.
    pub(crate) fn end_all(&mut self, manager: &mut ContextManager) {
        while let Some(queue) = self.live.take(|_| true) {
            let _ = manager.driver().destroy_queue(queue.get().number);
            queue.get().buffers.end(manager, queue.get().page);
        }
        while let Some(doorbells) = self.doorbells.take(|_| true) {
            doorbells.get().end(manager);
        }
    }
}

/// The GPU node of a queue.
fn gpu_node(topology: &Topology, node: NodeId) -> Result<&Node> {
    topology.node(node).filter(|node| node.gpu_id != 0).ok_or(Error::InvalidNode)
}

impl Context {
    /// Whether a node can have queues: [`Error::InvalidNode`] if it has no GPU.
    pub(crate) fn check_queue_node(self, node: NodeId) -> Result<()> {
        let topology = opened_snapshot(self)?;
        gpu_node(&topology, node).map(|_| ())
    }

    /// Makes a queue and shows where its doorbell is.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidNode`] for a node without a GPU; [`Error::NoMemory`] for a buffer that cannot be
    /// had; [`Error::Failed`] if the kernel refuses the queue or its doorbell. [`Error::NotSupported`] on a simulated machine
    /// whose addresses have no memory.
    ///
    /// # Safety
    /// Until the queue has been destroyed: the ring, the pointers and the place of the error's reason are memory that the GPU
    /// may read and write, put to no other use, and no part of a Rust object that this would break. The same holds for what
    /// packets in the ring name, for as long as they run. Only
    /// [`Context::destroy_queue`] frees the queue's own memory.
    #[doc(alias = "hsaKmtCreateQueue")]
    #[doc(alias = "hsaKmtCreateQueueExt")]
    pub unsafe fn create_queue(self, request: &QueueRequest) -> Result<MadeQueue> {
        let topology = opened_snapshot(self)?;
        let node = gpu_node(&topology, request.node)?;
        let plan = Plan::new(&topology, node, request, self.kfd_minor()?);
        // Before the lock, and dropped after it: the heap may be what waits for the lock.
        let (mask_bits, mask) = whole_mask(node);
        let blank = Queue { page: 0, number: 0, buffers: Buffers::NONE, ring: None, mask_bits, mask };
        let mut queue = Some(Link::new(blank));
        let mut doorbells = Some(Link::new(Doorbells::of(plan.gpu)));
        self.manage_queues(|manager, queues| {
            if !manager.driver().has_memory() {
                return Err(Error::NotSupported);
            }
            let (page, buffers) = Buffers::make(manager, &plan, request)?;
            let pointers = match request.kind {
                QueueType::ComputeAql => request.pointers,
                _ => buffers::pointers(page),
            };
            let mut args = plan.arguments(request, &buffers, pointers);
            // SAFETY: ring and pointers are as the caller promises; the buffers are the queue's own, until it ends.
            if unsafe { manager.driver().create_queue(&mut args) }.is_err() {
                buffers.end(manager, page);
                return Err(Error::Failed);
            }
            let (offset, inside) = sizes::doorbell_place(plan.version, args.doorbell_offset, args.queue_id);
            let Ok(start) = buffers::doorbells(manager, &mut queues.doorbells, &mut doorbells, &plan, offset) else {
                // Memory of a queue that does not end stays its own.
                if manager.driver().destroy_queue(args.queue_id).is_ok() {
                    buffers.end(manager, page);
                }
                return Err(Error::Failed);
            };
            let doorbell = start as u64 + inside;
            if let Some(mut link) = queue.take() {
                let made = link.get_mut();
                made.ring = (request.kind == QueueType::ComputeAql).then_some((pointers.0, doorbell));
                (made.page, made.number) = (page, args.queue_id);
                made.buffers = buffers;
                queues.live.add(link);
            }
            Ok(MadeQueue { id: page as u64, doorbell, pointers })
        })
    }

    /// Changes a queue's ring, share and priority.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidParameter`] for an unknown id; [`Error::Failed`] if the kernel refuses.
    ///
    /// # Safety
    /// As for [`Context::create_queue`], for the new ring.
    #[doc(alias = "hsaKmtUpdateQueue")]
    pub unsafe fn update_queue(
        self,
        id: u64,
        percentage: u32,
        priority: Priority,
        ring: u64,
        ring_size: u32,
    ) -> Result<()> {
        self.manage_queues(|manager, queues| {
            let queue_id = queues.find(id)?.number;
            let args = UpdateQueueArgs {
                ring_base_address: ring,
                queue_id,
                ring_size,
                queue_percentage: percentage,
                queue_priority: priority.0,
            };
            // SAFETY: the caller's promise.
            unsafe { manager.driver().update_queue(args) }.map_err(|_| Error::Failed)
        })
    }

    /// Ends a queue and its memory. Its ring is the caller's.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidParameter`] for an unknown id; [`Error::Failed`] if the kernel refuses, and then
    /// the queue goes on.
    #[doc(alias = "hsaKmtDestroyQueue")]
    pub fn destroy_queue(self, id: u64) -> Result<()> {
        let ended = self.manage_queues(|manager, queues| {
            let number = queues.find(id)?.number;
            manager.driver().destroy_queue(number).map_err(|_| Error::Failed)?;
            let ended = queues.live.take(|queue| queue.page as u64 == id);
            if let Some(link) = &ended {
                link.get().buffers.end(manager, link.get().page);
            }
            Ok(ended)
        });
        // After the lock.
        ended.map(drop)
    }

    /// Tells the GPU of the packets in an AQL queue's ring up to the write index: rings the doorbell with the index of the
    /// last one. Blocking: it waits for other writers.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidParameter`] for an unknown id, and for a queue that is no AQL queue.
    ///
    /// # Safety
    /// As for [`Context::create_queue`]: the write index can be read, and the packets below it are valid.
    #[doc(alias = "hsaKmtQueueRingDoorbell")]
    pub unsafe fn ring_doorbell(self, id: u64) -> Result<()> {
        self.manage_queues(|_, queues| {
            let (index, doorbell) = queues.find(id)?.ring.ok_or(Error::InvalidParameter)?;
            let index = core::ptr::with_exposed_provenance::<u64>(index as usize);
            // SAFETY: the queue was made with a write index here, which its user keeps until the queue ends.
            let index = unsafe { index.read_volatile() };
            let doorbell = core::ptr::with_exposed_provenance_mut::<u64>(doorbell as usize);
            // The packets and the index are in memory before the doorbell rings: the GPU is the partner.
            fence(Ordering::SeqCst);
            // SAFETY: the doorbell was mapped for this queue, and stays until the context closes.
            unsafe { doorbell.write_volatile(index.wrapping_sub(1)) };
            Ok(())
        })
    }

    /// Says which compute units a queue may use: one bit each, in words. The kernel looks at the first 1,024.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidParameter`] for an unknown id or no bits; [`Error::Failed`] if the kernel
    /// refuses.
    #[doc(alias = "hsaKmtSetQueueCUMask")]
    pub fn set_queue_cu_mask(self, id: u64, mask: &[u32]) -> Result<()> {
        let mask = mask.get(..MASK_WORDS).unwrap_or(mask);
        if mask.is_empty() {
            return Err(Error::InvalidParameter);
        }
        self.manage_queues(|manager, queues| {
            let queue = queues.find(id)?;
            manager.driver().set_cu_mask(queue.number, mask).map_err(|_| Error::Failed)?;
            queue.mask.iter_mut().zip(mask).for_each(|(word, new)| *word = *new);
            queue.mask_bits = mask.len() as u32 * 32;
            Ok(())
        })
    }

    /// Gives a queue `count` entries of global wave sync, or takes them with 0; the first of them.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidParameter`] for an unknown id, and if the kernel says so;
    /// [`Error::OutOfResources`] if all entries are taken; [`Error::NotSupported`] on a GPU that has none;
    /// [`Error::Failed`].
    #[doc(alias = "hsaKmtAllocQueueGWS")]
    pub fn alloc_queue_gws(self, id: u64, count: u32) -> Result<u32> {
        self.manage_queues(|manager, queues| {
            let number = queues.find(id)?.number;
            manager.driver().alloc_queue_gws(number, count).map_err(|errno| match errno.0 {
                libc::EINVAL => Error::InvalidParameter,
                libc::EBUSY => Error::OutOfResources,
                libc::ENODEV => Error::NotSupported,
                _ => Error::Failed,
            })
        })
    }

    /// Copies the control stack of a stopped queue to its save area and says where all is.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidParameter`] for an unknown id; [`Error::Failed`] for a queue without a save area,
    /// and if the kernel refuses.
    ///
    /// # Safety
    /// The queue's save area, which the kernel writes to, was not freed.
    #[doc(alias = "hsaKmtGetQueueInfo")]
    pub unsafe fn queue_info(self, id: u64) -> Result<QueueInfo> {
        self.manage_queues(|manager, queues| {
            let queue = queues.find(id)?;
            let (area, stack_size) = queue.buffers.save_area().ok_or(Error::Failed)?;
            // SAFETY: the queue was made with this area; the caller promises that it is still there.
            let used = unsafe { manager.driver().queue_wave_state(queue.number, area as u64) };
            let (stack_used, save_used) = used.map_err(|_| Error::Failed)?;
            let (area, mask) = (area as u64, queue.mask.as_ptr().expose_provenance());
            Ok(QueueInfo { area, stack_size, stack_used, save_used, mask_bits: queue.mask_bits, mask })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_the_kernels() {
        let all = (-4..=4).map(|level| Priority::new(level).map(|priority| priority.0));
        let known = [0, 3, 5, 7, 9, 11, 15].map(Some);
        assert!(all.eq([None].into_iter().chain(known).chain([None])));
        assert_eq!((Priority::new(i64::MAX), Priority::new(i64::MIN)), (None, None));
        assert_eq!(Priority::new(0), Some(Priority::NORMAL));
    }
}
