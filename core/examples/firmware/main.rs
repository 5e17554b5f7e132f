//! What a firmware author would copy: a driver for a device of one's own (`device.rs`), a registry with its memory in a
//! static, the memory manager in the main loop, and look-ups from an interrupt handler.
//!
//! `cargo run -p hsakmt-core --example firmware --no-default-features` plays it on this machine, with a function in the
//! place of the handler. On a board: `#![no_std]`, `interrupt` becomes `#[exception] fn SysTick()` or what the board
//! calls it, and keeps its reader in a `static mut` of its own; `tests/bare-metal` does that with the same driver.

mod device;

use core::sync::atomic::AtomicU8;

use device::{Device, NODES};
use hsakmt_core::address::PageSize;
use hsakmt_core::driver::HostRange;
use hsakmt_core::epoch::slots::SingleCore;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::fixed::{Capacity, StaticReader, StaticRegistry};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::PointerType;
use hsakmt_core::manager::{Manager, Opened, Options};
use hsakmt_core::node::NodeId;

/// What this firmware will have at any moment, at most.
const CAPACITY: Capacity = Capacity::objects(64).userptrs(8).node_lists(6).managed(Device::GPUS.len());

/// Readers: one interrupt handler, and one place to spare.
const READERS: usize = 2;

// SAFETY: one core; readers are its interrupt handlers. (Here: one thread.)
static MEMORY: StaticRegistry<{ CAPACITY.bytes() }, READERS, SingleCore> =
    StaticRegistry::new(unsafe { SingleCore::new() });

/// Memory of the firmware's own that both GPUs use, too.
static RING: [AtomicU8; 0x600] = [const { AtomicU8::new(0) }; 0x600];

/// A fault at `address`: whose memory is it? No lock, no wait, at most [`Capacity::steps`] nodes, whatever the main loop
/// was in the middle of.
fn interrupt(reader: &mut StaticReader<'static, READERS, SingleCore>, address: usize) -> Option<usize> {
    reader.query_pointer(address, |info| {
        let info = info.ok()?;
        (info.kind != PointerType::Unknown).then_some(info.user_data)
    })
}

fn main() -> Result<()> {
    let writer = MEMORY.writer(PageSize::FOUR_KIB)?;
    let mut manager = Manager::new(Device::new(), writer, Opened::default())?;
    manager.set_up(&NODES, &Options { guard_pages: 0, ..Options::default() })?;
    let mut handler = MEMORY.reader().ok_or(Error::NoMemory)?;

    // Device memory on the first GPU, mapped where it belongs, with a word of ours beside it.
    let buffer = manager.allocate(NodeId(1), 0x8000, 0, MemFlags::NON_PAGED, 0)?;
    manager.map(buffer, 0x8000)?;
    manager.set_user_data(buffer, 42)?;
    assert_eq!(interrupt(&mut handler, buffer + 0x1234), Some(42));

    // The firmware's own memory, for both GPUs.
    let ring = RING.as_ptr().addr();
    manager.register(HostRange::of_atomics(&RING))?;
    manager.map(ring, 0x600)?;
    assert_eq!(interrupt(&mut handler, ring + 0x5ff), Some(0));
    assert_eq!(interrupt(&mut handler, ring + 0x600), None);

    // And everything goes again.
    manager.unmap(ring)?;
    manager.deregister(ring)?;
    manager.unmap(buffer)?;
    manager.free(buffer)?;
    assert_eq!(interrupt(&mut handler, buffer), None);

    println!("{} bytes hold 64 objects, at most {} steps per look-up", CAPACITY.bytes(), CAPACITY.steps());
    println!("buffers left on the device: {} (a page of each GPU's own)", manager.driver().buffers());
    manager.tear_down();
    assert_eq!(manager.driver().buffers(), 0);
    Ok(())
}
