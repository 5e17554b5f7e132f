//! The same by the memory manager, on a driver of one's own (the one of the core's example): memory is allocated,
//! registered, mapped on one GPU or both, given user data, unmapped and ended, while the handler looks.
//!
//! The handler is told what will be where before it is there. So device memory is allocated at fixed addresses; where the
//! GPU sees registered host memory is the manager's choice, which the main loop learns by registering it once unseen.

use hsakmt_core::driver::HostRange;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::PointerType;
use hsakmt_core::manager::{Manager, Opened, Options};
use hsakmt_core::node::NodeId;
use hsakmt_core::objects::Object;
use hsakmt_core::reader::Reader;

use crate::device::{Device, NODES};
use crate::memory::{BoardWriter, Source};
use crate::scenario::{self, Fault, Random, announced};
use crate::watch::{self, DEVICE, Domain, HOST, PAGE, PLACES, STRIDE};

/// Steps of one run.
const STEPS: u32 = 1500;

type BoardManager = Manager<'static, Device, Domain, Source>;

const BOTH: &[NodeId] = &[NodeId(1), NodeId(2)];
const TURNED: &[NodeId] = &[NodeId(2), NodeId(1)];
const NODE: [&[NodeId]; 2] = [&[NodeId(1)], &[NodeId(2)]];

/// The whole run; the writer comes from a set-up machine and goes with it.
pub fn run(writer: BoardWriter, reader: &mut Reader<'static, Domain>) -> Result<(), Fault> {
    let mut manager = Manager::new(Device::new(), writer, Opened::default()).map_err(Fault::Write)?;
    let options = Options { guard_pages: 0, ..Options::default() };
    manager.set_up(&NODES, &options).map_err(|refused| Fault::Write(refused.into()))?;
    let own = manager.driver().buffers();
    let mut random = Random(0x1234_5677);
    for _ in 0..STEPS {
        let place = random.below(PLACES);
        step(&mut manager, place, &mut random).map_err(Fault::Write)?;
        scenario::check(reader, place, &mut random)?;
    }
    full(&mut manager)?;
    for place in 0..PLACES {
        if let Some(old) = watch::now(place) {
            end(&mut manager, place, old).map_err(Fault::Write)?;
        }
    }
    let left = manager.driver().buffers() - own;
    manager.tear_down();
    if left == 0 && manager.driver().buffers() == 0 { Ok(()) } else { Err(Fault::Left(left)) }
}

fn step(manager: &mut BoardManager, place: usize, random: &mut Random) -> Result<()> {
    let Some(old) = watch::now(place) else { return begin(manager, place, random) };
    match random.below(6) {
        0 => end(manager, place, old),
        1 | 2 => {
            let next = Object { user_data: old.user_data.wrapping_add(1), ..old };
            announced(place, Some(next), |_| manager.set_user_data(old.cpu, next.user_data))
        }
        3 => unmap(manager, place, old).map(drop),
        _ => map(manager, place, old, random),
    }
}

/// An object where there is none: device memory, or every fourth the host's.
fn begin(manager: &mut BoardManager, place: usize, random: &mut Random) -> Result<()> {
    let start = DEVICE + place * STRIDE;
    if place % 4 == 3 {
        return register(manager, place, random);
    }
    let node = NodeId(1 + random.next() % 2);
    let flags = MemFlags::NON_PAGED | MemFlags::COARSE_GRAIN | MemFlags::FIXED_ADDRESS;
    let size = (1 + random.below(8)) * PAGE;
    let next = Object {
        kind: PointerType::Allocated,
        start,
        size,
        cpu: start,
        node,
        flags,
        user_data: 0,
        registered: &[],
        mapped: &[],
    };
    announced(place, Some(next), |_| {
        let got = manager.allocate(node, size, 0, flags, start)?;
        if got == start { Ok(()) } else { Err(Error::Failed) }
    })
}

/// Host memory: the manager chooses where the GPU sees it. It is registered once unseen, to learn where, and let go: the
/// next registration gets the same.
fn register(manager: &mut BoardManager, place: usize, random: &mut Random) -> Result<()> {
    let (cpu, size) = (HOST + place * STRIDE + 0x123, (1 + random.below(4)) * PAGE);
    let kind = PointerType::RegisteredUser;
    watch::hide(Some(place));
    // SAFETY: the made-up device reads and writes no memory.
    let range = unsafe { HostRange::new(cpu, size) };
    manager.register(range)?;
    let snapshot = manager.writer().snapshot();
    let info = snapshot.query_pointer(cpu);
    let start = info.gpu_address as usize / PAGE * PAGE;
    let (node, flags) = (info.node, info.flags);
    manager.deregister(cpu)?;
    watch::hide(None);
    let next = Object { kind, start, size, cpu, node, flags, user_data: 0, registered: &[], mapped: &[] };
    announced(place, Some(next), |_| manager.register(range))
}

fn map(manager: &mut BoardManager, place: usize, old: Object<'static>, random: &mut Random) -> Result<()> {
    let userptr = old.kind == PointerType::RegisteredUser;
    if !old.mapped.is_empty() && userptr {
        return Ok(());
    }
    let on = random.below(3);
    if userptr || on == 2 {
        // On all GPUs that reach it: its own first.
        let mapped = if !userptr && old.node == NodeId(2) { TURNED } else { BOTH };
        if !old.mapped.is_empty() {
            return Ok(());
        }
        return announced(place, Some(Object { mapped, ..old }), |_| manager.map(old.cpu, old.size).map(drop));
    }
    let next = Object { mapped: NODE[on], ..old };
    announced(place, Some(next), |_| manager.map_nodes(old.cpu, old.size, NODE[on]).map(drop))
}

fn unmap(manager: &mut BoardManager, place: usize, old: Object<'static>) -> Result<Object<'static>> {
    let next = Object { mapped: &[], ..old };
    announced(place, Some(next), |_| manager.unmap(old.cpu))?;
    Ok(next)
}

fn end(manager: &mut BoardManager, place: usize, old: Object<'static>) -> Result<()> {
    // The device refuses to end what is mapped: gone for a moment, and back as it was.
    if !old.mapped.is_empty() {
        watch::begin_refused(place);
        let refused = manager.free(old.cpu);
        watch::end(refused.is_ok());
        if refused != Err(Error::Failed) {
            return Err(Error::InvalidHandle);
        }
    }
    let old = unmap(manager, place, old)?;
    let userptr = old.kind == PointerType::RegisteredUser;
    announced(place, None, |_| if userptr { manager.deregister(old.cpu) } else { manager.free(old.cpu) })
}

/// Allocations until memory or the device's table ends, and all of them gone again.
fn full(manager: &mut BoardManager) -> Result<(), Fault> {
    let beyond = |n: usize| DEVICE + (PLACES + n) * STRIDE;
    let flags = MemFlags::NON_PAGED | MemFlags::FIXED_ADDRESS;
    let mut fit = 0;
    let error = loop {
        match manager.allocate(NodeId(1), PAGE, 0, flags, beyond(fit)) {
            Ok(_) => fit += 1,
            Err(error) => break error,
        }
        if fit > 4000 {
            return Err(Fault::NeverFull);
        }
    };
    if error != Error::NoMemory {
        return Err(Fault::Write(error));
    }
    (0..fit).try_for_each(|n| manager.free(beyond(n))).map_err(Fault::Write)
}
