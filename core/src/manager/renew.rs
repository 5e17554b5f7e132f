//! Setting up anew after the topology has changed.
//!
//! In: the nodes as they are now. Out: node table, apertures and MMIO pages of the new topology; every verb goes by the new
//! table from then on. The new set-up is made beside the old one and takes its place only when all of it stands. What
//! never happens: a node that names one GPU in the node table and another one in a verb, an object whose nodes change
//! their meaning, or a refusal that leaves anything changed.

use super::Manager;
use super::machine::{Machine, NodeFacts, Options, SvmSpace};
use super::refused::SetUpError;
use super::space::VaRange;
use crate::address::Bounds;
use crate::aperture::{Aperture, Layout};
use crate::driver::Driver;
use crate::epoch::Domain;
use crate::error::Result;
use crate::flags::IocFlags;
use crate::node::{GpuId, NodeId};
use crate::pool::Memory;
use crate::record::Record;

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// Set-up for other nodes than before; before the first set-up it is [`Manager::set_up`].
    ///
    /// An object that is alive goes on if the nodes it uses (its own, those that it is registered to or mapped on, that of
    /// its buffer object) are the same GPUs as before and the address ranges are the same. The MMIO pages are no such
    /// objects: they end, and the new GPUs get new ones. Looks at every object once.
    ///
    /// # Errors
    /// Says which step was refused, or which object is in the way ([`SetUpError::InUse`], [`SetUpError::RangesInUse`]). The
    /// old set-up then goes on as before.
    #[doc(alias = "hsaKmtAcquireSystemProperties")]
    pub fn renew(&mut self, nodes: &[NodeFacts<'_>], options: &Options) -> Result<(), SetUpError> {
        if self.machine.ready { self.set_up_anew(nodes, options) } else { self.set_up(nodes, options) }
    }

    #[inline(never)]
    fn set_up_anew(&mut self, nodes: &[NodeFacts<'_>], options: &Options) -> Result<(), SetUpError> {
        let page = self.page();
        let mut other = Machine::new(nodes, options, &self.opened, page, self.writer.memory())?;
        let kept = self.machine.reserved();
        // The steps of a set-up work on `self.machine`; the old one waits aside.
        core::mem::swap(&mut self.machine, &mut other);
        let mut layout = Layout::empty(page);
        let planned = self.plan(nodes, kept, &mut layout);
        core::mem::swap(&mut self.machine, &mut other);
        let done = planned.and_then(|()| self.change_over(layout, &mut other));
        // What did not come to stand, or stands no more.
        self.end_machine(other);
        done
    }

    /// Exchanges the set-up for `next`; then `next` is the old one.
    #[inline(never)]
    fn change_over(&mut self, layout: Layout, next: &mut Machine) -> Result<(), SetUpError> {
        let alive = self.check_objects(&layout, next)?;
        self.writer.reserve(1)?;
        if let Err(error) = self.drop_mmio_pages().and_then(|()| self.writer.set_layout(layout)) {
            // There was memory a moment ago. The pages that have ended are made again.
            self.make_mmio_pages();
            return Err(error.into());
        }
        if alive {
            next.take_over(&mut self.machine);
        }
        core::mem::swap(&mut self.machine, next);
        self.machine.ready = true;
        self.make_mmio_pages();
        Ok(())
    }

    /// Whether any object is alive besides the MMIO pages; an error if the new table has no place for one.
    fn check_objects(&self, layout: &Layout, next: &Machine) -> Result<bool, SetUpError> {
        let same_ranges = self.writer.layout().has_ranges_of(layout) && self.machine.has_positions_of(next);
        let in_place = |start| if same_ranges { Ok(()) } else { Err(SetUpError::RangesInUse { start }) };
        let mut alive = false;
        for aperture in Aperture::all() {
            let mut from = 0;
            while let Some(record) = self.writer.next(aperture, from) {
                from = record.start.saturating_add(1);
                if self.is_mmio_page(&record) {
                    continue;
                }
                alive = true;
                in_place(record.start)?;
                for node in self.nodes_of(&record) {
                    self.check_node(record.start, node, layout)?;
                }
            }
        }
        for gpu in self.machine.gpus.iter() {
            if let Some(scratch) = &gpu.scratch {
                alive = true;
                in_place(scratch.start())?;
                self.check_node(scratch.start(), gpu.node, layout)?;
            }
        }
        Ok(alive)
    }

    /// The nodes that an object uses.
    fn nodes_of(&self, record: &Record) -> impl Iterator<Item = NodeId> {
        let on = self.ledger.get(record.id).map_or(GpuId::NONE, |entry| entry.gpu);
        let on = self.writer.layout().node_of(on).filter(|_| on != GpuId::NONE);
        let lists =
            [record.registered, record.mapped].into_iter().flat_map(|list| list.ids().iter().copied().map(NodeId));
        core::iter::once(record.node).chain(on).chain(lists)
    }

    /// Whether a node is the same GPU, or a CPU, in `layout` as now.
    fn check_node(&self, start: usize, node: NodeId, layout: &Layout) -> Result<(), SetUpError> {
        let (was, now) = (self.writer.layout().gpu_of(node), layout.gpu_of(node));
        if was == now {
            return Ok(());
        }
        let [was, now] = [was, now].map(|gpu| gpu.unwrap_or(GpuId::NONE));
        Err(SetUpError::InUse { start, node, was, now })
    }

    /// Whether an object is a page that set-up made.
    fn is_mmio_page(&self, record: &Record) -> bool {
        self.ledger.get(record.id).is_some_and(|entry| entry.ioc.contains(IocFlags::MMIO_REMAP))
    }

    /// Ends the MMIO pages that callers have not freed.
    #[expect(unsafe_code, reason = "the end of objects")]
    fn drop_mmio_pages(&mut self) -> Result<()> {
        let Ok(aperture) = self.svm_aperture(true) else { return Ok(()) };
        for index in 0..self.machine.gpus.len() {
            let Some(start) = self.machine.gpus.get(index).and_then(|gpu| gpu.mmio) else { continue };
            let record = self.writer.find_start(aperture, start).filter(|record| self.is_mmio_page(record));
            if let Some(record) = record {
                self.writer.remove(aperture, record.start)?;
                // What the device does not give up stays mapped on other GPUs: its address is used for nothing else.
                if self.end_removed(&record) {
                    // SAFETY: it was the manager's and has just been removed.
                    let range = unsafe { VaRange::of(aperture, &record, self.page()) };
                    self.give(range);
                }
                self.writer.release(record.registered);
                self.writer.release(record.mapped);
            }
            if let Some(gpu) = self.machine.gpus.get_mut(index) {
                gpu.mmio = None;
            }
        }
        Ok(())
    }

    /// Ends a machine that is not, or no longer, this manager's: its reserved range too, unless that is this manager's.
    #[inline(never)]
    #[expect(unsafe_code, reason = "the end of a reserved range")]
    fn end_machine(&mut self, machine: Machine) {
        let whole = machine.reserved().filter(|whole| self.machine.reserved() != Some(*whole));
        machine.free(self.writer.memory());
        if let Some(whole) = whole {
            // SAFETY: `machine` was the only one that knew this range, and has just ended. It was planned and never came to
            // stand, so nothing was cut from it; or it was this manager's, and then the ranges of the one that took its
            // place are others, or nothing was alive (`check_objects`): what was cut from it has been given back.
            unsafe { self.release_whole(whole) };
        }
    }
}

impl Machine {
    /// The range that is reserved for SVM.
    fn reserved(&self) -> Option<Bounds> {
        match &self.svm {
            SvmSpace::Reserved { whole, .. } => Some(*whole),
            _ => None,
        }
    }

    /// Whether each GPUVM aperture is the same GPU's in both.
    fn has_positions_of(&self, other: &Machine) -> bool {
        self.gpus.iter().all(|gpu| {
            let position = |gpu: &super::machine::Gpu| gpu.gpuvm.as_ref().map(|(position, _)| *position);
            other.gpu(gpu.id).is_none_or(|other| position(other) == position(gpu))
        })
    }

    /// Takes over what is owned in `old`'s address spaces, which have the same bounds.
    fn take_over(&mut self, old: &mut Machine) {
        if old.reserved().is_some() {
            core::mem::swap(&mut self.svm, &mut old.svm);
        }
        core::mem::swap(&mut self.mem_handle, &mut old.mem_handle);
        for gpu in self.gpus.iter_mut() {
            if let Some(old) = old.gpu_mut(gpu.id) {
                core::mem::swap(&mut gpu.gpuvm, &mut old.gpuvm);
                gpu.scratch = old.scratch.take();
            }
        }
    }
}
