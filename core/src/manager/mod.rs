//! The memory manager: every verb of the interface that makes, changes or ends an object, generic over the device.
//!
//! In: a verb with its arguments, checked in the order of the C interface. Out: an address or a status, and at most one
//! new version for the readers. A verb reads: find -> decide -> reserve what publishing needs -> driver steps -> ledger
//! -> publish. What never happens: a verb that failed and left a trace (each driver step that succeeded is undone when
//! a later one fails), a reader that sees an unfinished object, an address given back while a reader can still find its
//! old owner, a panic on any argument.
//!
//! # Pointers to objects
//! A verb gives and takes addresses as numbers, and touches no byte behind them. Code that makes a pointer of an object's
//! address is `unsafe` code of its own and has to know when the object's memory goes: with [`Manager::free`],
//! [`Manager::deregister`] and [`Manager::tear_down`], and for scratch memory with [`Manager::unmap`]. These are safe to
//! call, and nothing may use what they unmap. Code that lends memory of an object to other code must therefore not lend it
//! the manager.
//!
//! | file | verbs |
//! |---|---|
//! | `setup`, `reserve` | set up after the topology is known, tear down at the last close |
//! | `renew`, `refused` | set up anew after the topology has changed; why a set-up was refused |
//! | `allocate`, `host`, `scratch` | AllocMemory: VRAM, host memory, scratch |
//! | `register` | RegisterMemory, ToNodes, WithFlags |
//! | `map` | MapMemoryToGPU, Nodes, Unmap; `mapping` undoes them |
//! | `release` | FreeMemory, DeregisterMemory |
//! | `share`, `graphics` | IPC, dmabuf export, graphics import |
//! | `svm` | SVM attributes |
//! | `queue` | what a queue needs besides its ring |
//! | `space`, `buffer` | what the verbs are built of: addresses, buffer objects |

mod allocate;
#[allow(unsafe_code)]
mod buffer;
mod gpu_list;
mod graphics;
mod host;
mod leave;
pub(crate) mod machine;
mod map;
mod mapping;
mod queue;
mod refused;
mod register;
#[allow(unsafe_code)]
mod release;
mod renew;
mod reserve;
mod scratch;
mod setup;
mod share;
#[allow(unsafe_code)]
mod space;
mod svm;
#[cfg(all(test, feature = "alloc"))]
mod tests;

pub use graphics::Graphics;
pub use machine::{Gfx, NodeFacts, Opened, Options};
pub use queue::QueueMemory;
pub use refused::SetUpError;
pub use share::SharedHandle;

use gpu_list::{GpuList, Gpus};
use machine::{Machine, SvmSpace};

use crate::address::{Bounds, PageSize};
use crate::aperture::{Aperture, MAX_NODES};
use crate::driver::Driver;
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::list::List;
use crate::node::{GpuId, NodeId};
use crate::pool::Memory;
use crate::record::Record;
use crate::registry::{Wanted, Writer};

/// The verbs' home: the only writer of a context, its device, and what the two share.
pub struct Manager<'r, V: Driver, D: Domain, M: Memory> {
    driver: V,
    writer: Writer<'r, D, M>,
    ledger: Ledger,
    machine: Machine,
    opened: Opened,
}

impl<V: Driver, D: Domain, M: Memory> Drop for Manager<'_, V, D, M> {
    /// Gives the memory of the books back. Objects stay the device's: [`Manager::tear_down`] ends them.
    fn drop(&mut self) {
        self.forget();
    }
}

/// An address range that `HsaMemoryProperties` reports for a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// Local data share.
    Lds,
    /// Scratch.
    Scratch,
    /// Shared virtual memory, both apertures as one.
    Svm,
    /// An old APU's own aperture.
    Gpuvm,
    /// The MMIO-remap page.
    Mmio,
}

impl<'r, V: Driver, D: Domain, M: Memory> Manager<'r, V, D, M> {
    /// A manager over a freshly opened device: nothing is set up yet. The page size is the writer's layout's.
    /// Whether readers see anything stays as it was: [`Manager::show`], [`Manager::hide`].
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`] for a writer that holds objects: the manager gives the addresses of its objects back, and
    /// these are not its own ([`Writer::clear_objects`](crate::registry::Writer::clear_objects) takes them away). Driver and
    /// writer are then dropped.
    pub fn new(driver: V, writer: Writer<'r, D, M>, opened: Opened) -> Result<Self> {
        if writer.snapshot().iter().next().is_some() {
            return Err(Error::AlreadyRegistered);
        }
        Ok(Manager::over(driver, writer, opened))
    }

    /// [`Manager::new`] on the heap: the manager stands on the stack once, and not in a result as well.
    ///
    /// # Errors
    /// As [`Manager::new`].
    #[cfg(feature = "alloc")]
    #[expect(clippy::boxed_local, reason = "from one place on the heap to another")]
    pub fn new_boxed(
        driver: V,
        writer: alloc::boxed::Box<Writer<'r, D, M>>,
        opened: Opened,
    ) -> Result<alloc::boxed::Box<Self>> {
        if writer.snapshot().iter().next().is_some() {
            return Err(Error::AlreadyRegistered);
        }
        Ok(alloc::boxed::Box::new(Manager::over(driver, *writer, opened)))
    }

    /// `writer` holds no objects.
    #[inline(always)]
    fn over(driver: V, writer: Writer<'r, D, M>, opened: Opened) -> Self {
        let machine = Machine::blank(writer.layout().page, &opened);
        Manager { driver, writer, ledger: Ledger::new(), machine, opened }
    }

    /// The device, for questions that are none of the memory manager's business. It cannot be exchanged for another one:
    /// ```compile_fail,E0596
    /// # use hsakmt_core::{driver::Driver, epoch::Domain, manager::Manager, pool::Memory};
    /// # fn f<V: Driver, D: Domain, M: Memory>(one: &mut Manager<'_, V, D, M>, other: &mut Manager<'_, V, D, M>) {
    /// core::mem::swap(&mut *one.driver(), &mut *other.driver());
    /// # }
    /// ```
    /// ```
    /// # use hsakmt_core::{driver::Driver, epoch::Domain, manager::Manager, pool::Memory};
    /// # fn f<V: Driver, D: Domain, M: Memory>(one: &mut Manager<'_, V, D, M>, other: &mut Manager<'_, V, D, M>) {
    /// assert!(!core::ptr::eq(one.driver(), other.driver()));
    /// # }
    /// ```
    pub fn driver(&self) -> &V {
        &self.driver
    }

    /// The device, to be changed.
    ///
    /// # Safety
    /// What the reference leads to stays the driver that it is: it is not replaced, swapped or taken out. No address that
    /// the manager has from it is given back, shown or reserved anew through it.
    #[expect(unsafe_code, reason = "the proof that addresses are the manager's rests on its driver")]
    pub unsafe fn driver_mut(&mut self) -> &mut V {
        &mut self.driver
    }

    /// The writer.
    pub fn writer(&self) -> &Writer<'r, D, M> {
        &self.writer
    }

    /// See [`Writer::limit_retired`].
    pub fn limit_retired(&mut self, bytes: usize) {
        self.writer.limit_retired(bytes);
    }

    /// Shows the newest version to readers.
    pub fn show(&mut self) {
        self.writer.open();
    }

    /// Hides everything from readers: they get [`Error::NotOpened`].
    pub fn hide(&mut self) {
        self.writer.close();
    }

    /// Gives device and writer back. [`Manager::tear_down`] first, or the objects stay published.
    #[expect(unsafe_code, reason = "a type that ends its books when dropped cannot be taken apart by moves")]
    pub fn into_parts(mut self) -> (V, Writer<'r, D, M>) {
        self.forget();
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped any more.
        unsafe { this.parts() }
    }

    /// [`Manager::into_parts`] of a manager on the heap: it never stands on the stack, which may be small.
    #[cfg(feature = "alloc")]
    #[expect(unsafe_code, reason = "as in `into_parts`")]
    pub fn into_parts_boxed(mut self: alloc::boxed::Box<Self>) -> (V, Writer<'r, D, M>) {
        self.forget();
        let this = alloc::boxed::Box::into_raw(self).cast::<core::mem::ManuallyDrop<Self>>();
        // SAFETY: from `into_raw` a line ago, and `ManuallyDrop` has the layout of what it holds.
        let this = unsafe { alloc::boxed::Box::from_raw(this) };
        // SAFETY: `this` is not used any more, and its drop ends the box alone.
        unsafe { this.parts() }
    }

    /// # Safety
    /// The manager is neither used nor dropped after this.
    #[inline(always)]
    #[expect(unsafe_code, reason = "as in `into_parts`")]
    unsafe fn parts(&self) -> (V, Writer<'r, D, M>) {
        // SAFETY: by contract the driver is moved out once.
        let driver = unsafe { core::ptr::read(&self.driver) };
        // SAFETY: as above, for the writer.
        let writer = unsafe { core::ptr::read(&self.writer) };
        (driver, writer)
    }

    /// Whether [`Manager::set_up`] has succeeded since the last [`Manager::tear_down`].
    pub fn is_set_up(&self) -> bool {
        self.machine.ready
    }

    /// Whether some node is a GPU without CPU cores.
    pub fn is_dgpu(&self) -> bool {
        self.machine.dgpu
    }

    /// Whether the SVM API is on: the environment allows it and every GPU reports it.
    pub fn svm_api(&self) -> bool {
        self.machine.svm_api
    }

    /// Whether memory of this GPU lies in SVM.
    pub fn svm_needed(&self, gpu: GpuId) -> bool {
        self.machine.gpu(gpu).is_some_and(|gpu| gpu.svm_needed)
    }

    /// An address range of a GPU; `None` if it has none.
    pub fn range(&self, gpu: GpuId, which: Range) -> Option<Bounds> {
        let gpu = self.machine.gpu(gpu)?;
        let bounds = match which {
            Range::Lds => gpu.lds,
            Range::Scratch => gpu.scratch_aperture,
            Range::Gpuvm => gpu.gpuvm.as_ref()?.1.bounds(),
            Range::Mmio => Bounds::new(gpu.mmio?, gpu.mmio?.checked_add(self.machine.page.bytes() - 1)?),
            Range::Svm => match &self.machine.svm {
                SvmSpace::None => return None,
                SvmSpace::Mmap { bounds, .. } => *bounds,
                SvmSpace::Reserved { main, alt, .. } => Bounds::new(alt.bounds().base, main.bounds().limit),
            },
        };
        (bounds.base != 0 && bounds.base < bounds.limit).then_some(bounds)
    }

    /// Notes a caller's word beside an object. No driver call.
    #[doc(alias = "hsaKmtSetMemoryUserData")]
    pub fn set_user_data(&mut self, address: usize, user_data: usize) -> Result<()> {
        let (aperture, known) = self.writer.locate(address, Wanted::Any).ok_or(Error::Failed)?;
        let (old, record) = (known.pointer(), Record { user_data, ..*known });
        self.writer.reserve(1)?;
        self.writer.replace_known(aperture, old, &record)
    }

    fn page(&self) -> PageSize {
        self.machine.page
    }

    /// The gpu id of a node, [`GpuId::NONE`] for a CPU.
    fn gpu_of(&self, node: NodeId) -> Result<GpuId> {
        self.writer.layout().gpu_of(node).ok_or(Error::InvalidNode)
    }

    /// What a size of the C interface asks an exact find for.
    fn find(&self, address: usize, size: usize) -> Option<(Aperture, Record)> {
        let wanted = match size {
            0 => Wanted::Any,
            usize::MAX => Wanted::Range,
            size => Wanted::Exact(size),
        };
        self.writer.find(address, wanted)
    }

    /// The GPUs of a record's node list.
    fn gpus(&self, list: List) -> Gpus<'_> {
        Gpus::new(self.writer.layout(), list)
    }

    /// The node list of some GPUs, counted once.
    fn intern(&mut self, gpus: &[GpuId]) -> Result<List> {
        self.intern_mapping(List::EMPTY, &[], gpus)
    }

    /// The node list of `before` without `off` and `on`, then `on`; counted once.
    #[inline(never)]
    fn intern_mapping(&mut self, before: List, off: &[GpuId], on: &[GpuId]) -> Result<List> {
        let layout = self.writer.layout();
        let kept = self.gpus(before).iter().filter(|gpu| !off.contains(gpu) && !on.contains(gpu));
        let mut nodes = heapless::Vec::<NodeId, MAX_NODES>::new();
        for node in kept.chain(on.iter().copied()).filter_map(|gpu| layout.node_of(gpu)) {
            nodes.push(node).map_err(|_| Error::NoMemory)?;
        }
        self.writer.intern(nodes.len(), |position| nodes.get(position).map_or(0, |node| node.0))
    }

    /// The gpu ids of a caller's node array: not empty, every node known.
    fn checked_nodes(&self, nodes: &[NodeId]) -> Result<GpuList> {
        if nodes.is_empty() {
            return Err(Error::InvalidParameter);
        }
        let mut gpus = GpuList::new();
        for node in nodes {
            gpus.push(self.gpu_of(*node)?)?;
        }
        Ok(gpus)
    }
}
