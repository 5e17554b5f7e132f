//! Where the registry lives: with its memory in a static, or over an allocator for embedded machines.

use hsakmt_core::address::PageSize;
use hsakmt_core::epoch::slots::SingleCore;
use hsakmt_core::error::Result;
use hsakmt_core::reader::Reader;
use hsakmt_core::registry::Writer;

use crate::watch::Domain;

pub use place::{BYTES, Source, init, left};

/// The write side.
pub type BoardWriter = Writer<'static, Domain, Source>;

pub fn writer() -> Result<BoardWriter> {
    place::writer(PageSize::FOUR_KIB)
}

pub fn reader() -> Option<Reader<'static, Domain>> {
    place::reader()
}

const fn one_core() -> SingleCore {
    // SAFETY: the board has one core; readers are the main loop and its interrupt handler.
    unsafe { SingleCore::new() }
}

#[cfg(not(feature = "alloc"))]
mod place {
    use hsakmt_core::fixed::{Capacity, StaticRegistry};
    use hsakmt_core::region::Blocks;

    use super::*;
    use crate::device::Device;
    use crate::watch::{PLACES, READERS};

    /// The main loop keeps a session over three writes now and then.
    pub const BYTES: usize =
        Capacity::objects(PLACES).userptrs(PLACES / 4).node_lists(8).held_over(4).managed(Device::GPUS.len()).bytes();

    static REGISTRY: StaticRegistry<BYTES, READERS, SingleCore> = StaticRegistry::new(one_core());

    pub type Source = Blocks;

    pub fn init() {}

    pub fn writer(page: PageSize) -> Result<BoardWriter> {
        REGISTRY.writer(page)
    }

    pub fn reader() -> Option<Reader<'static, Domain>> {
        REGISTRY.reader()
    }

    /// Bytes that nobody uses.
    pub fn left(writer: &BoardWriter) -> usize {
        writer.source().left()
    }
}

#[cfg(feature = "alloc")]
mod place {
    use embedded_alloc::LlffHeap;
    use hsakmt_core::pool::Heap;
    use hsakmt_core::registry::Registry;

    use super::*;

    /// The allocator's.
    pub const BYTES: usize = 64 * 1024;

    #[global_allocator]
    static ALLOCATOR: LlffHeap = LlffHeap::empty();

    static REGISTRY: Registry<Domain> = Registry::with_domain(Domain::new(one_core()));

    pub type Source = Heap;

    pub fn init() {
        static mut BYTES_OF_HEAP: [u64; BYTES / 8] = [0; BYTES / 8];
        let start = (&raw mut BYTES_OF_HEAP).addr();
        // SAFETY: called once, before anything allocates; nobody else has the array.
        unsafe { ALLOCATOR.init(start, BYTES) }
    }

    pub fn writer(page: PageSize) -> Result<BoardWriter> {
        REGISTRY.writer(page, Heap)
    }

    pub fn reader() -> Option<Reader<'static, Domain>> {
        REGISTRY.readers().reader()
    }

    /// Bytes that nobody uses.
    pub fn left(_: &BoardWriter) -> usize {
        ALLOCATOR.free()
    }
}
