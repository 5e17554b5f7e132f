//! A registry of fixed capacity, fit for a `static`: no allocator, every byte known before the program runs.
//!
//! The same trees, look-up and lists as everywhere, over a [`Region`]. [`Capacity`] says how many bytes a number of
//! objects needs at worst, whatever order they come and go in; [`StaticRegistry`] puts that many beside a registry. A
//! write that does not fit is [`Error::NoMemory`] and has changed nothing. Reads are wait-free, from an interrupt
//! handler too, however far the writer it interrupted had got: they see the version before or the one after.
//!
//! ```
//! use hsakmt_core::address::{Bounds, PageSize};
//! use hsakmt_core::aperture::{Aperture, Layout};
//! use hsakmt_core::epoch::slots::SingleCore;
//! use hsakmt_core::fixed::{Capacity, StaticRegistry};
//! use hsakmt_core::{flags::MemFlags, info::PointerType, node::NodeId, objects::Object};
//!
//! const BYTES: usize = Capacity::objects(32).node_lists(4).bytes();
//! // SAFETY: this program has one core; readers are its interrupt handlers.
//! static BUFFERS: StaticRegistry<BYTES, 2, SingleCore> = StaticRegistry::new(unsafe { SingleCore::new() });
//!
//! let mut writer = BUFFERS.writer(PageSize::FOUR_KIB)?;
//! let mut layout = Layout::empty(PageSize::FOUR_KIB);
//! (layout.svm, layout.dgpu) = (Bounds::new(0x2000_0000, 0x2fff_ffff), true);
//! writer.set_layout(layout)?;
//! let (kind, flags, node) = (PointerType::Allocated, MemFlags::NON_PAGED, NodeId(1));
//! let (start, size) = (0x2000_4000, 0x2000);
//! writer.insert_object(Aperture::Svm, &Object {
//!     kind, start, size, cpu: start, node, flags, user_data: 7, registered: &[], mapped: &[node],
//! })?;
//!
//! // In an interrupt handler:
//! let mut reader = BUFFERS.reader().expect("two places, one taken");
//! assert_eq!(reader.query_pointer(0x2000_5abc, |info| info.map(|info| info.user_data)), Ok(7));
//! # Ok::<(), hsakmt_core::error::Error>(())
//! ```

use crate::address::PageSize;
use crate::aperture::{Layout, MAX_GPUVM};
use crate::epoch::slots::{Barrier, Slots};
use crate::error::{Error, Result};
use crate::info::PointerInfo;
use crate::ledger;
use crate::list;
use crate::manager::machine;
use crate::pool::Pool;
use crate::reader::Reader;
use crate::record::Record;
use crate::region::{Blocks, GRAIN, Region};
use crate::registry::{ENDING_EDITS, Registry, Writer};
use crate::tree::node::{Branch, Intervals};
use crate::tree::size::{branches_to_join, most_branches, most_height, worst};
use crate::va::areas;
use crate::version::{GpuvmRoots, Version};

/// What a registry must hold at any moment, and so how many bytes it needs and how many steps a look-up can take.
///
/// Bytes are what the worst order of writes needs; most need a third of it. Nothing is lost by that: a registry takes
/// more objects for as long as there is room. But memory that was taken for tree nodes, or for lists, stays theirs until
/// the writer is dropped: once there was more than the capacity of anything, it is promised again only to the next writer.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    objects: usize,
    userptrs: usize,
    lists: usize,
    apertures: usize,
    gpuvm: bool,
    held: usize,
    edits: usize,
    managed: bool,
    gpus: usize,
}

/// Lists that may wait for their end while `node_lists` are in use: two of each publish, for as long as periods keep
/// them, and two of the write under way.
const WAITING_LISTS: usize = 2 * (list::KEEP_EPOCHS + 2);

impl Capacity {
    /// `objects` at a time, in one aperture.
    pub const fn objects(objects: usize) -> Capacity {
        Capacity {
            objects,
            userptrs: 0,
            lists: 0,
            apertures: 1,
            gpuvm: false,
            held: 0,
            edits: 1,
            managed: false,
            gpus: 0,
        }
    }

    /// Of the objects, as many may be registered host memory, which stands in two indexes.
    pub const fn userptrs(self, userptrs: usize) -> Capacity {
        Capacity { userptrs, ..self }
    }

    /// As many different lists of nodes at a time, of up to 21 ids each. Objects with equal lists share one; the empty
    /// list is none. Longer ones, up to [`MAX_LIST`](crate::registry::MAX_LIST), take what is left.
    pub const fn node_lists(self, lists: usize) -> Capacity {
        Capacity { lists, ..self }
    }

    /// Objects may lie in as many of the apertures SVM, its alternate, mem handles and CPUVM.
    pub const fn apertures(self, apertures: usize) -> Capacity {
        Capacity { apertures, ..self }
    }

    /// Objects may lie in GPUVM apertures too.
    pub const fn gpuvm(self) -> Capacity {
        Capacity { gpuvm: true, ..self }
    }

    /// A session may be held while as many writes are published, the layout unchanged. Any number: the memory is the only
    /// limit. Interrupt handlers that ask and return hold none.
    pub const fn held_over(self, publishes: usize) -> Capacity {
        Capacity { held: publishes, ..self }
    }

    /// Objects are the memory manager's, with its books, of a machine with as many GPUs. Each GPU has a page that is an
    /// object too, and each new mix of nodes is a list. What a verb may keep beside that is not in it: pieces of scratch
    /// memory, metadata of graphics buffers.
    pub const fn managed(self, gpus: usize) -> Capacity {
        let objects = self.objects + gpus;
        Capacity { objects, edits: 1 + ENDING_EDITS, managed: true, gpus, apertures: 2, ..self }
    }

    /// Bytes that hold it whatever happens.
    pub const fn bytes(self) -> usize {
        let Capacity { objects, userptrs, lists, held, edits, .. } = self;
        let trees = self.apertures + if self.gpuvm { MAX_GPUVM } else { 0 };
        let (height, userptr_height) = (most_height(objects), most_height(userptrs));
        let branches = most_branches(objects, trees) + branches_beside(edits, held, height);
        let intervals = most_branches(userptrs, 1) + branches_beside(edits, held, userptr_height);
        let lists = if lists == 0 { 0 } else { lists + WAITING_LISTS + 2 * held };
        let gpuvms = if self.gpuvm { 1 + edits + held } else { 0 };
        Pool::<Record>::bytes_for(objects + edits + 1 + held, GRAIN)
            + Pool::<Branch<()>>::bytes_for(branches, GRAIN)
            + Pool::<Branch<Intervals>>::bytes_for(intervals, GRAIN)
            + Pool::<Version>::bytes_for(1 + edits + held, GRAIN)
            + Pool::<Layout>::bytes_for(2, GRAIN)
            + Pool::<GpuvmRoots>::bytes_for(gpuvms, GRAIN)
            + list::bytes_for(lists, GRAIN)
            + self.books()
    }

    /// Bytes of what the manager notes besides.
    const fn books(self) -> usize {
        if !self.managed {
            return 0;
        }
        // Both parts of a reserved range note their own areas; so does each GPUVM aperture, where its front is one.
        let spaces = if self.gpuvm { MAX_GPUVM } else { 2 };
        ledger::bytes_for(self.objects, GRAIN)
            + spaces * areas::bytes_for(self.objects + 1, GRAIN)
            + machine::bytes_for(self.gpus, GRAIN)
    }

    /// The most tree nodes that one look-up visits, hit or miss: one per level of an address index (two indexes on a
    /// machine without a dGPU), before that two per level of the userptr index. In each it reads two lines of keys,
    /// without a loop, and at the end one record; in a userptr leaf it may look at each of sixteen records.
    pub const fn steps(self) -> usize {
        let indexes = if self.apertures > 1 || self.gpuvm { 2 } else { 1 };
        let userptrs = if self.userptrs == 0 { 0 } else { 2 * (most_height(self.userptrs) + 1) };
        userptrs + indexes * (most_height(self.objects) + 1)
    }
}

const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// Branches of a tree so high beside those of the newest version: of the edits under way and of the versions held.
const fn branches_beside(edits: usize, held: usize, height: usize) -> usize {
    let joined = height + 1 + branches_to_join(height);
    larger(worst(edits, height), joined) + held * larger(2 * (height + 1), joined)
}

/// The write side of a [`StaticRegistry`].
pub type StaticWriter<const READERS: usize, B> = Writer<'static, Slots<READERS, B>, Blocks>;

/// A reader's place in a [`StaticRegistry`].
pub type StaticReader<'r, const READERS: usize, B> = Reader<'r, Slots<READERS, B>>;

/// A registry with its memory: `BYTES` of it ([`Capacity::bytes`]), and places for `READERS` readers.
#[derive(Debug)]
pub struct StaticRegistry<const BYTES: usize, const READERS: usize, B> {
    registry: Registry<Slots<READERS, B>>,
    region: Region<BYTES>,
}

impl<const BYTES: usize, const READERS: usize, B: Barrier> StaticRegistry<BYTES, READERS, B> {
    /// Closed, until there is a writer. Does not compile where `BYTES` do not hold a single object.
    pub const fn new(barrier: B) -> Self {
        const { assert!(BYTES >= Capacity::objects(1).bytes(), "BYTES hold no object: take them from Capacity::bytes") };
        StaticRegistry { registry: Registry::with_domain(Slots::new(barrier)), region: Region::new() }
    }

    /// The writer; open and empty. [`Error::AlreadyOpened`] while there is one, and for ever after one that left while
    /// a reader stood inside. The registry stays where it is, for ever: its memory is what readers look at.
    ///
    /// ```compile_fail,E0597
    /// # use hsakmt_core::{address::PageSize, epoch::slots::Fences, fixed::{Capacity, StaticRegistry}};
    /// let registry = StaticRegistry::<{ Capacity::objects(8).bytes() }, 2, Fences>::new(Fences);
    /// let writer = registry.writer(PageSize::FOUR_KIB);
    /// ```
    pub fn writer(&'static self, page: PageSize) -> Result<StaticWriter<READERS, B>> {
        let blocks = self.region.blocks().ok_or(Error::AlreadyOpened)?;
        self.registry.writer(page, blocks)
    }

    /// A place among the readers, for one thread or interrupt handler; `None` when all are taken.
    pub fn reader(&self) -> Option<StaticReader<'_, READERS, B>> {
        self.registry.readers().reader()
    }

    /// One question by whoever has no place: takes one, asks, gives it back. `None` when all are taken.
    pub fn query_pointer<T>(&self, address: usize, answer: impl FnOnce(Result<PointerInfo<'_>>) -> T) -> Option<T> {
        Some(self.reader()?.query_pointer(address, answer))
    }

    /// Counts publishes, see [`Registry::generation`].
    pub fn generation(&self) -> usize {
        self.registry.generation()
    }
}

#[cfg(test)]
mod tests;
