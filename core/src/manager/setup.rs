//! Setting the apertures up once the topology is known, and taking everything down at the last close.
//!
//! In: the topology's facts and the environment. Out: a published layout, an address space for SVM, one MMIO page per
//! GPU. What never happens: a half-made set-up - a failure gives back what was reserved and leaves the manager as it
//! was before the first Acquire - or a last close that stops half-way because a driver refuses something. Where the SVM
//! range lies is `reserve`'s part, another topology later `renew`'s.

use super::Manager;
use super::buffer::{Birth, User, Wish};
use super::gpu_list::GpuList;
use super::machine::{CANONICAL_END, Machine, NodeFacts, Options, SvmSpace};
use super::refused::SetUpError;
use super::space::VaRange;
use crate::address::Bounds;
use crate::aperture::{Aperture, Layout, MAX_GPUVM, MAX_NODES};
use crate::array::Array;
use crate::driver::{Driver, HostMap, Partial, ProcessApertures};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::flags::{IocFlags, MemFlags};
use crate::info::PointerType;
use crate::ledger::Entry;
use crate::list::List;
use crate::node::GpuId;
use crate::pool::Memory;
use crate::record::Record;
use crate::va::{HUGE_PAGE, VaSpace};

/// The coherent quarter starts and ends at multiples of this.
const ALT_ALIGN: usize = 0x1_0000;

/// What the GPUs with a canonical address range have in common.
#[derive(Clone, Copy, Default)]
struct Common {
    base: usize,
    /// 0: no such GPU.
    limit: usize,
    align: usize,
}

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// The part of AcquireSystemProperties that concerns memory. A second one changes nothing: see [`Manager::renew`].
    ///
    /// # Errors
    /// Says which step was refused; nothing has changed then.
    #[doc(alias = "hsaKmtAcquireSystemProperties")]
    #[inline(never)]
    pub fn set_up(&mut self, nodes: &[NodeFacts<'_>], options: &Options) -> Result<(), SetUpError> {
        if self.machine.ready {
            return Ok(());
        }
        self.make_machine(nodes, options)?;
        if let Err(error) = self.publish_plan(nodes) {
            self.drop_svm();
            self.forget_machine();
            return Err(error);
        }
        self.machine.ready = true;
        self.make_mmio_pages();
        Ok(())
    }

    /// The GPUs among `nodes`, without apertures. Out of line, as the next two steps are: each has values of a KiB or more on
    /// the stack, which may be small.
    #[inline(never)]
    fn make_machine(&mut self, nodes: &[NodeFacts<'_>], options: &Options) -> Result<()> {
        let machine = Machine::new(nodes, options, &self.opened, self.page(), self.writer.memory())?;
        self.replace_machine(machine);
        Ok(())
    }

    #[inline(never)]
    fn publish_plan(&mut self, nodes: &[NodeFacts<'_>]) -> Result<(), SetUpError> {
        let mut layout = Layout::empty(self.page());
        self.plan(nodes, None, &mut layout)?;
        Ok(self.writer.set_layout(layout)?)
    }

    /// Makes the apertures of `self.machine`, which knows its GPUs, and writes the layout to publish into `layout`, which is
    /// empty. `kept` is a range that is reserved for SVM already. On an error the caller ends the machine, and its SVM range
    /// unless that is `kept`.
    pub(super) fn plan(
        &mut self,
        nodes: &[NodeFacts<'_>],
        kept: Option<Bounds>,
        layout: &mut Layout,
    ) -> Result<(), SetUpError> {
        let none =
            ProcessApertures { gpu: GpuId::NONE, lds: Bounds::EMPTY, scratch: Bounds::EMPTY, gpuvm: Bounds::EMPTY };
        // Not on the stack, which has 7 KiB less then.
        let mut apertures = Array::filled(MAX_NODES, none, self.writer.memory())?;
        let planned = self.plan_with(nodes, kept, &mut apertures, layout);
        apertures.free(self.writer.memory());
        planned
    }

    #[inline(never)]
    fn plan_with(
        &mut self,
        nodes: &[NodeFacts<'_>],
        kept: Option<Bounds>,
        apertures: &mut [ProcessApertures],
        layout: &mut Layout,
    ) -> Result<(), SetUpError> {
        self.list_nodes(nodes, layout)?;
        let count = self.driver.process_apertures(apertures).map_err(SetUpError::Apertures)?;
        let known = apertures.get(..count).unwrap_or(apertures);
        let mut common = Common::default();
        for known in known {
            if self.machine.adopt(known, nodes)? {
                self.adopt_gpuvm(known, &mut common, layout)?;
                let gpu = known.gpu;
                self.driver.acquire_vm(gpu).map_err(|errno| SetUpError::AcquireVm { gpu, errno })?;
            }
        }
        if common.limit != 0 {
            self.make_svm(common, nodes, kept)?;
        }
        self.write_svm(layout);
        self.set_policies(known, layout)?;
        self.make_mem_handle(layout);
        Ok(())
    }

    /// The node table and the kind of machine; no aperture yet.
    fn list_nodes(&self, nodes: &[NodeFacts<'_>], layout: &mut Layout) -> Result<(), SetUpError> {
        let table = layout.nodes.get_mut(..nodes.len()).ok_or(SetUpError::TooManyNodes(nodes.len()))?;
        for (gpu, facts) in table.iter_mut().zip(nodes) {
            *gpu = facts.gpu_id;
        }
        layout.node_count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        layout.dgpu = self.machine.dgpu;
        Ok(())
    }

    /// A GPU's own range: an aperture of its own if it lies beyond the canonical addresses, else a limit on SVM.
    fn adopt_gpuvm(&mut self, known: &ProcessApertures, common: &mut Common, layout: &mut Layout) -> Result<()> {
        let (guard, page) = (self.machine.guard(), self.page());
        let Some(gpu) = self.machine.gpu_mut(known.gpu) else { return Ok(()) };
        let bounds = known.gpuvm;
        if CANONICAL_END.is_none_or(|end| bounds.limit < end) {
            common.base = common.base.max(bounds.base);
            common.limit = if common.limit == 0 { bounds.limit } else { common.limit.min(bounds.limit) };
            common.align = common.align.max(gpu.align);
            return Ok(());
        }
        let position = layout.gpuvm_count;
        if usize::from(position) >= MAX_GPUVM {
            return Ok(());
        }
        let mut space = VaSpace::new(bounds, gpu.align, guard, page);
        let kept = space.keep_front(self.writer.memory());
        gpu.gpuvm = Some((position, space));
        kept.map_err(|_| Error::NoMemory)?;
        if let Some(slot) = layout.gpuvm.get_mut(usize::from(position)) {
            *slot = bounds;
            layout.gpuvm_count += 1;
        }
        Ok(())
    }

    /// Out of line, as `split_reserved` is: each has values of some hundred bytes on the stack.
    #[inline(never)]
    fn make_svm(&mut self, common: Common, nodes: &[NodeFacts<'_>], kept: Option<Bounds>) -> Result<(), SetUpError> {
        let base = common.base.checked_next_multiple_of(HUGE_PAGE).ok_or(SetUpError::NoCommonRange)?;
        let end = common.limit.saturating_add(1) & !(HUGE_PAGE - 1);
        let limit = end.checked_sub(1).filter(|limit| base < *limit).ok_or(SetUpError::NoCommonRange)?;
        let bounds = Bounds::new(base, limit);
        if let Some(whole) = kept.filter(|whole| bounds.contains(whole.base) && bounds.contains(whole.limit)) {
            self.split_reserved(whole, common.align);
            return Ok(());
        }
        let whole_space = CANONICAL_END.is_some_and(|end| limit >= end - 1);
        if whole_space && !self.machine.options.reserve_svm && common.align <= self.page().bytes() {
            let cap = self.machine.alignment_cap(nodes);
            self.machine.svm = SvmSpace::Mmap { bounds, cap };
            // One page for trial: a process whose address space does not suit falls back to a reservation.
            let page = self.page().bytes();
            if let Ok(trial) = self.take(Aperture::Svm, page, 0, None) {
                self.give(trial);
                return Ok(());
            }
            self.machine.svm = SvmSpace::None;
        }
        let whole = self.reserve_range(bounds).ok_or(SetUpError::NoRoom(bounds))?;
        self.split_reserved(whole, common.align);
        Ok(())
    }

    /// The first quarter becomes the coherent aperture.
    #[inline(never)]
    fn split_reserved(&mut self, whole: Bounds, align: usize) {
        let (guard, page) = (self.machine.guard(), self.page());
        let quarter = (whole.limit - whole.base) / 4 + 1;
        let alt_base = whole.base.next_multiple_of(ALT_ALIGN);
        let alt = Bounds::new(alt_base, alt_base + quarter.next_multiple_of(ALT_ALIGN) - 1);
        let main = Bounds::new(alt.limit + 1, whole.limit);
        let space = |bounds| VaSpace::new(bounds, align.max(page.bytes()), guard, page);
        self.machine.svm = SvmSpace::Reserved { main: space(main), alt: space(alt), whole };
    }

    fn write_svm(&self, layout: &mut Layout) {
        match &self.machine.svm {
            SvmSpace::None => {}
            SvmSpace::Mmap { bounds, .. } => {
                layout.svm = *bounds;
                layout.mmap = true;
            }
            SvmSpace::Reserved { main, alt, .. } => {
                layout.svm = main.bounds();
                layout.svm_alt = alt.bounds();
            }
        }
    }

    /// Tells every GPU that uses SVM which part of it is always coherent.
    fn set_policies(&mut self, apertures: &[ProcessApertures], layout: &Layout) -> Result<(), SetUpError> {
        let alternate = if layout.mmap { layout.svm } else { layout.svm_alt };
        let coherent = self.machine.options.disable_cache;
        for known in apertures {
            let canonical = CANONICAL_END.is_none_or(|end| known.gpuvm.limit < end);
            if canonical && self.machine.all.contains(&known.gpu) {
                let refused = |errno| SetUpError::MemoryPolicy { gpu: known.gpu, errno };
                self.driver.set_memory_policy(known.gpu, coherent, alternate).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Names for buffers without an address: 2^47 of them, from the first multiple of 2^47 that no GPU uses for
    /// anything. Without such a place, or with short addresses, there are none.
    fn make_mem_handle(&mut self, layout: &mut Layout) {
        let Some(step) = CANONICAL_END else { return };
        let gpuvm = layout.gpuvm;
        let in_use = |bounds: &Bounds| {
            let mut own = self.machine.gpus.iter().flat_map(|gpu| [gpu.lds, gpu.scratch_aperture]).chain(gpuvm);
            own.any(|used| used.base != 0 && used.overlaps(bounds))
        };
        let mut base = step;
        let last = usize::MAX - step - 1;
        while base < last {
            let bounds = Bounds::new(base, base.saturating_add(step));
            if !in_use(&bounds) {
                let page = self.page();
                self.machine.mem_handle = VaSpace::new(bounds, page.bytes(), self.machine.guard(), page);
                layout.mem_handle = bounds;
                return;
            }
            base = base.saturating_add(step);
        }
    }

    /// One page per GPU through which it can be told to flush, where it has none yet; a GPU that refuses it has none.
    #[inline(never)]
    pub(super) fn make_mmio_pages(&mut self) {
        for index in 0..self.machine.gpus.len() {
            let without = self.machine.gpus.get(index).filter(|gpu| gpu.svm_needed && gpu.mmio.is_none());
            let Some(gpu) = without.map(|gpu| gpu.id) else { continue };
            let mmio = self.make_mmio_page(gpu).ok();
            if let Some(gpu) = self.machine.gpus.get_mut(index) {
                gpu.mmio = mmio;
            }
        }
    }

    fn make_mmio_page(&mut self, gpu: GpuId) -> Result<usize> {
        let size = self.page().bytes();
        let aperture = self.svm_aperture(true)?;
        let node = self.machine.gpu(gpu).ok_or(Error::Failed)?.node;
        self.reserve_birth()?;
        let reach = GpuList::collect(self.machine.reach(node).iter().copied())?;
        let mapped = self.intern(reach.as_slice())?;
        let made = self.back_mmio_page(gpu, aperture, size, reach.as_slice());
        let (range, entry) = made.inspect_err(|_| self.writer.release(mapped))?;
        let birth = Birth {
            cpu: range.start(),
            range,
            size,
            registered: List::EMPTY,
            mapped,
            flags: MemFlags::NON_PAGED | MemFlags::HOST_ACCESS,
            node,
            kind: PointerType::Allocated,
        };
        self.publish(birth, entry)
    }

    fn back_mmio_page(
        &mut self,
        gpu: GpuId,
        aperture: Aperture,
        size: usize,
        on: &[GpuId],
    ) -> Result<(VaRange, Entry)> {
        let range = self.take(aperture, size, 0, None)?;
        let (page, va) = (self.page(), range.start() as u64);
        let ioc = IocFlags::MMIO_REMAP | IocFlags::WRITABLE | IocFlags::COHERENT;
        let Ok((handles, offset)) = self.make(&Wish { gpu, va, size: size as u64, ioc, user: User::No }) else {
            self.give(range);
            return Err(Error::Failed);
        };
        let shown = range.show_first(&mut self.driver, page, size, HostMap::Mmio { offset }).is_ok();
        let handle = handles.first().filter(|_| shown);
        let mapped = handle.map(|handle| (handle, self.driver.map(handle, on)));
        match mapped {
            Some((_, Ok(()))) => Ok((range, Entry { handles, mappings: 1, ioc, gpu, ..Entry::default() })),
            partly => {
                if let Some((handle, Err(partial))) = partly {
                    let _ = self.driver.unmap(handle, on.get(..partial.done).unwrap_or(on));
                }
                self.unmake(handles);
                self.give(range);
                Err(Error::Failed)
            }
        }
    }

    /// The last close: readers are told first, then every object goes, then the address space. Nothing stops it; what a
    /// driver refuses here ends with the kernel's process.
    ///
    /// An object whose removal finds no memory (a reader holds what was replaced, and there is no more) stays whole, with
    /// its addresses, and with it the set-up: [`Manager::is_set_up`] says so. A second tear-down ends it.
    #[doc(alias = "hsaKmtCloseKFD")]
    pub fn tear_down(&mut self) {
        self.writer.close();
        for index in 0..self.machine.gpus.len() {
            if let Some(gpu) = self.machine.gpus.get(index).map(|gpu| gpu.id) {
                self.drop_scratch(gpu);
            }
        }
        let gpuvm = (0..self.writer.layout().gpuvm_count).map(Aperture::Gpuvm);
        let fixed = [Aperture::Svm, Aperture::SvmAlt, Aperture::MemHandle, Aperture::Cpuvm];
        let mut left = false;
        for aperture in fixed.into_iter().chain(gpuvm) {
            left |= !self.drop_objects(aperture);
        }
        if left {
            return;
        }
        self.drop_svm();
        // No object is left. A layout that finds no memory to go stays until the next set-up, which replaces it.
        let _ = self.writer.clear();
        self.forget();
    }

    /// Gives back the memory of what only the writer knows.
    pub(super) fn forget(&mut self) {
        self.ledger.clear(self.writer.memory());
        self.forget_machine();
    }

    fn forget_machine(&mut self) {
        self.replace_machine(Machine::blank(self.page(), &self.opened));
    }

    fn replace_machine(&mut self, machine: Machine) {
        core::mem::replace(&mut self.machine, machine).free(self.writer.memory());
    }

    /// Whether all objects have gone.
    #[expect(unsafe_code, reason = "the end of objects")]
    fn drop_objects(&mut self, aperture: Aperture) -> bool {
        let (mut from, mut all) = (0, true);
        while let Some(record) = self.writer.next(aperture, from) {
            from = record.start.saturating_add(1);
            let gone = self.writer.reserve_to_end(1).and_then(|()| self.writer.remove(aperture, record.start)).is_ok();
            all &= gone;
            if gone {
                self.end_removed(&record);
                // SAFETY: it was the manager's and has just been removed.
                let range = unsafe { VaRange::of(aperture, &record, self.page()) };
                self.give(range);
                self.writer.release(record.registered);
                self.writer.release(record.mapped);
            }
        }
        all
    }

    /// Ends an object's buffer objects and its entry in the ledger, whatever the driver refuses; whether it refused nothing.
    /// Addresses and lists are the caller's.
    pub(super) fn end_removed(&mut self, record: &Record) -> bool {
        let mapped = GpuList::distinct(self.gpus(record.mapped).iter());
        let mapped = mapped.unwrap_or_default();
        if let Some(entry) = self.ledger.remove(record.id) {
            for handle in entry.handles.iter() {
                let mut rest = mapped.as_slice();
                // A GPU that refuses, because it is gone for one, keeps no other GPU's mapping alive.
                while !rest.is_empty()
                    && let Err(Partial { done, .. }) = self.driver.unmap(handle, rest)
                {
                    rest = rest.get(done.saturating_add(1)..).unwrap_or(&[]);
                }
            }
            entry.metadata.free(self.writer.memory());
            return self.unmake(entry.handles);
        }
        true
    }

    /// Gives a reserved SVM range back, of which nothing is left in use.
    #[expect(unsafe_code, reason = "the end of the reserved range")]
    fn drop_svm(&mut self) {
        let svm = core::mem::replace(&mut self.machine.svm, SvmSpace::None);
        let whole = if let SvmSpace::Reserved { whole, .. } = &svm { Some(*whole) } else { None };
        svm.free(self.writer.memory());
        if let Some(whole) = whole {
            // SAFETY: `reserve_range` has reserved it, and only the space that has just ended knew it. A set-up that fails
            // has cut nothing from it; a tear-down is here when scratch and objects have given theirs back.
            unsafe { self.release_whole(whole) };
        }
    }
}
