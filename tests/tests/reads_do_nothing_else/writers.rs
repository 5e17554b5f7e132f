//! What is read, and who writes beside it: [`core_alone`], with the crossbeam domain;
//! [`open_context`], the process's own context, which the C entries mean.
//!
//! Both hold the same objects: some that stay, whose every field but user data and mapped nodes stays the same; and
//! the writer's own, which come and go without end. Writers never stop: the end of the process stops them.

use std::sync::Barrier;

use hsakmt::Context;
use hsakmt_core::address::{Bounds, PageSize};
use hsakmt_core::aperture::{Aperture, Layout};
use hsakmt_core::epoch::crossbeam::Crossbeam;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::PointerType;
use hsakmt_core::node::NodeId;
use hsakmt_core::objects::Object;
use hsakmt_core::pool::Heap;
use hsakmt_core::registry::{Registry, Writer};
use hsakmt_kfd::sim::description::Machine;
use hsakmt_kfd::sim::embedded::{EmbeddedMachine, Space};
use hsakmt_kfd::sim::machine::SvmMode;
use hsakmt_tests::promise;

use super::LANE;

const PAGE: usize = 4096;
/// Objects that stay, of each kind.
const STAYING: usize = 500;
/// From one userptr to the next; each is half of it.
const STRIDE: usize = 4 * PAGE;
/// Where userptrs are: far from buffers.
const HOST: usize = 0x1000_0000_0000;
/// Where the writer registers.
const COMING: usize = HOST + STAYING * STRIDE;
const GPU: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

/// Addresses to ask for, inside objects that stay and where there is never one.
pub(crate) struct Scene {
    pub(crate) buffers: [usize; LANE],
    pub(crate) userptrs: [usize; LANE],
    pub(crate) nothing: [usize; LANE],
    starts: Vec<usize>,
}

impl Scene {
    fn of(starts: Vec<usize>) -> Scene {
        let spread = |position: usize| position * STAYING / LANE;
        Scene {
            buffers: std::array::from_fn(|position| starts[spread(position)] + 123 * position),
            userptrs: std::array::from_fn(|position| userptr(spread(position)) + 123 * position),
            nothing: std::array::from_fn(|position| userptr(spread(position)) + STRIDE / 2 + 123 * position),
            starts,
        }
    }
}

/// Where a userptr is, off the page.
fn userptr(position: usize) -> usize {
    HOST + position * STRIDE + 0x234
}

/// What a writer writes to.
pub(crate) trait Written: Sync {
    /// Writes at full speed, for ever.
    fn write(&self, scene: &Scene);
    /// How much has been written.
    fn publishes(&self) -> usize;
}

/// The core alone. Its writer stays on the thread that made it: crossbeam's participants do.
pub(crate) struct Core {
    pub(crate) registry: Registry<Crossbeam>,
    /// Passed by the writer when all objects are there, and by the reader before it asks for them.
    pub(crate) filled: Barrier,
}

/// The core alone, to be filled by its writer.
pub(crate) fn core_alone() -> (Core, Scene) {
    let starts = (0..STAYING).map(|position| 0x10_0000_0000 + position * STRIDE);
    (Core { registry: Registry::new(), filled: Barrier::new(2) }, Scene::of(starts.collect()))
}

impl Written for Core {
    fn write(&self, scene: &Scene) {
        let mut writer = self.registry.writer(PageSize::FOUR_KIB, Heap).expect("the first writer");
        fill(&mut writer, scene).expect("room for all");
        self.filled.wait();
        for turn in 0.. {
            turn_registry(&mut writer, scene, turn).expect("readers that move");
        }
    }

    fn publishes(&self) -> usize {
        self.registry.generation()
    }
}

fn object(kind: PointerType, start: usize, cpu: usize) -> Object<'static> {
    let (node, flags) = (GPU, MemFlags::NON_PAGED);
    Object { kind, start, size: STRIDE / 2, cpu, node, flags, user_data: 0, registered: &[], mapped: &[GPU] }
}

fn fill(writer: &mut Writer<'_, Crossbeam, Heap>, scene: &Scene) -> Result<()> {
    let mut layout = Layout::empty(PageSize::FOUR_KIB);
    (layout.svm, layout.mmap, layout.dgpu) = (Bounds::new(0x10_0000, 0x7fff_ffff_ffff), true, true);
    writer.set_layout(layout)?;
    for (position, start) in scene.starts.iter().enumerate() {
        writer.insert_object(Aperture::Svm, &object(PointerType::Allocated, *start, *start))?;
        // Where the GPU sees userptrs: anywhere free.
        let start = start + (STAYING + 100) * STRIDE;
        writer.insert_object(Aperture::Svm, &object(PointerType::RegisteredUser, start, userptr(position)))?;
    }
    Ok(())
}

/// Registers, sets a word, maps elsewhere, ends.
fn turn_registry(writer: &mut Writer<'_, Crossbeam, Heap>, scene: &Scene, turn: usize) -> Result<()> {
    let start = scene.starts[turn % STAYING];
    writer.set_user_data(start, turn)?;
    writer.set_user_data(userptr(turn % STAYING), turn)?;
    writer.set_mapped(Aperture::Svm, start, if turn.is_multiple_of(2) { &[GPU, OTHER] } else { &[OTHER] })?;
    let (new, coming) = (0x8_0000_0000 + turn % 64 * STRIDE, COMING + turn % 64 * STRIDE);
    writer.insert_object(Aperture::Svm, &object(PointerType::Allocated, new, new))?;
    writer.insert_object(Aperture::Svm, &object(PointerType::RegisteredUser, new + 64 * STRIDE, coming))?;
    writer.remove_object(Aperture::Svm, new + 64 * STRIDE)?;
    writer.remove_object(Aperture::Svm, new)
}

/// The primary context on a simulated machine whose addresses are only numbers, filled.
pub(crate) fn open_context() -> (Context, Scene) {
    let context = Context::primary();
    let open = || {
        let machine = Machine::preset("gfx90a", None).ok_or(Error::Failed)?;
        let machine = EmbeddedMachine::new(machine, SvmMode::Machine, Space::Virtual).map_err(|_| Error::Failed)?;
        context.open_with(|| Ok(Box::new(machine.open().map_err(|_| Error::NotOpened)?)))?;
        context.acquire_system_properties()?;
        let starts = (0..STAYING).map(|_| context.allocate(GPU, STRIDE / 2, MemFlags::NON_PAGED));
        let starts = starts.collect::<Result<Vec<usize>>>()?;
        (0..STAYING).try_for_each(|position| context.register(promise::range(userptr(position), STRIDE / 2)))?;
        Ok::<_, Error>(starts)
    };
    (context, Scene::of(open().expect("a simulated machine")))
}

impl Written for Context {
    fn write(&self, scene: &Scene) {
        for turn in 0.. {
            turn_context(*self, scene, turn).expect("a simulated machine that goes on");
        }
    }

    fn publishes(&self) -> usize {
        self.generation()
    }
}

/// Mostly user data, which needs no driver; every verb now and then.
fn turn_context(context: Context, scene: &Scene, turn: usize) -> Result<()> {
    let start = scene.starts[turn % STAYING];
    for word in 0..8 {
        context.set_user_data(start, word)?;
        context.set_user_data(userptr((turn + word) % STAYING), word)?;
    }
    context.map_nodes(start, STRIDE / 2, &[if (turn / STAYING).is_multiple_of(2) { GPU } else { OTHER }])?;
    let new = context.allocate(GPU, PAGE, MemFlags::NON_PAGED)?;
    let coming = COMING + turn % 64 * STRIDE;
    context.register(promise::range(coming, PAGE))?;
    context.deregister(coming)?;
    context.free(new)
}
