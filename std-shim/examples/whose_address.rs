//! Whose is this address? One thread makes and ends buffers, two others ask all the while, and never wait for it.
//!
//! `cargo run --release -p hsakmt --example whose_address` on any machine: without `/dev/kfd` on a simulated one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use hsakmt::Context;
use hsakmt::backend::Backend;
use hsakmt::reason::Reason;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::PointerType;
use hsakmt_core::node::NodeId;
use hsakmt_kfd::device::Device;
use hsakmt_kfd::driver::KfdDriver;
use hsakmt_kfd::sim::embedded::EmbeddedMachine;

const SIZE: usize = 64 << 10;

fn main() -> std::process::ExitCode {
    match run(Context::primary()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("whose_address: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(context: Context) -> Result<(), Reason> {
    context.try_open_with(channel)?;
    let topology = context.acquire_system_properties()?;
    let gpu = topology.nodes.iter().position(|node| node.is_discrete()).ok_or(Error::NotSupported)?;
    let newest = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let askers = [(); 2].map(|()| scope.spawn(|| ask(context, &newest, &done)));
        let made = make(context, NodeId(gpu as u32), &newest);
        done.store(true, Ordering::Relaxed);
        for (asker, (hits, misses)) in askers.into_iter().flat_map(thread::ScopedJoinHandle::join).enumerate() {
            println!("thread {asker}: {hits} addresses of a buffer, {misses} of nothing");
        }
        made
    })?;
    Ok(context.close()?)
}

/// The real machine, or a simulated one.
fn channel() -> Result<Box<dyn Backend>, Reason> {
    match Device::open() {
        Ok(device) => Ok(Box::new(KfdDriver::without_gpus(device))),
        Err(_) => Ok(Box::new(EmbeddedMachine::preset("gfx90a")?.open()?)),
    }
}

/// Makes 1,000 buffers, each after the end of the one before.
fn make(context: Context, gpu: NodeId, newest: &AtomicUsize) -> Result<()> {
    for number in 0..1_000 {
        let buffer = context.allocate(gpu, SIZE, MemFlags::NON_PAGED)?;
        context.set_user_data(buffer, number)?;
        context.map(buffer, SIZE)?;
        newest.store(buffer, Ordering::Relaxed);
        context.unmap(buffer)?;
        context.free(buffer)?;
    }
    Ok(())
}

/// Asks about an address inside the newest buffer, which may be gone by then. How often it was there, and not.
fn ask(context: Context, newest: &AtomicUsize, done: &AtomicBool) -> (u64, u64) {
    let (mut hits, mut misses) = (0, 0);
    // A session stays inside the readers' domain: many questions, one entry.
    let Some(mut reader) = context.reader() else { return (0, 0) };
    let mut session = reader.session();
    while !done.load(Ordering::Relaxed) {
        let address = newest.load(Ordering::Relaxed) + SIZE / 2;
        match session.query_pointer(address) {
            Ok(info) if info.kind == PointerType::Allocated => hits += 1,
            _ => misses += 1,
        }
    }
    (hits, misses)
}
