//! The safe Rust API over the embedded simulated machine: life cycle, verbs, wild addresses, readers beside a writer.
//!
//! The primary context is one per process, so the tests here take turns ([`open`] holds a lock).

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use hsakmt::Context;
use hsakmt_core::error::Error;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::PointerType;
use hsakmt_core::node::NodeId;
use hsakmt_core::registry::RETIRED_LIMIT;
use hsakmt_kfd::sim::embedded::EmbeddedMachine;
use hsakmt_tests::embedded::open_once;
use hsakmt_tests::promise;

const PAGE: usize = 4096;
const CPU: NodeId = NodeId(0);
const GPU: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);
const VRAM: MemFlags = MemFlags::NON_PAGED;

/// The primary context, this test's own until dropped.
struct Turn {
    context: Context,
    _alone: MutexGuard<'static, ()>,
}

impl Deref for Turn {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        while self.context.close().is_ok() {}
        self.context.release_system_properties();
    }
}

/// Waits for its turn; the context is closed.
fn closed() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    let alone = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    Turn { context: Context::primary(), _alone: alone }
}

/// Waits for its turn; the context is open on a machine with one CPU node and two GPUs, without the SVM API.
fn open() -> Turn {
    let turn = closed();
    open_once(turn.context).unwrap();
    turn.acquire_system_properties().unwrap();
    turn
}

/// What kind of object an address is in.
fn kind(context: Context, address: usize) -> PointerType {
    context.query_pointer(address, |info| info.kind).unwrap()
}

fn mapped(context: Context, address: usize) -> Vec<u32> {
    context.query_pointer(address, |info| info.mapped.ids().to_vec()).unwrap()
}

#[test]
fn openings_are_counted() {
    let turn = closed();
    assert!(!turn.is_open());
    assert_eq!(turn.close(), Err(Error::NotOpened));
    assert_eq!(turn.query_pointer(PAGE, |_| ()), Err(Error::NotOpened));
    assert_eq!(turn.allocate(CPU, PAGE, MemFlags::HOST_ACCESS), Err(Error::NotOpened));
    open_once(turn.context).unwrap();
    assert_eq!(turn.open_with(|| unreachable!("it is open")), Err(Error::AlreadyOpened));
    assert_eq!(turn.close(), Ok(()));
    assert!(turn.is_open());
    assert_eq!(kind(turn.context, PAGE), PointerType::Unknown);
    assert_eq!(turn.close(), Ok(()));
    assert!(!turn.is_open());
    assert_eq!(turn.query_pointer(PAGE, |_| ()), Err(Error::NotOpened));
    assert_eq!(turn.close(), Err(Error::NotOpened));
}

#[test]
fn a_channel_that_fails_leaves_it_closed() {
    let turn = closed();
    assert_eq!(turn.open_with(|| Err(Error::NotOpened)), Err(Error::NotOpened));
    assert!(!turn.is_open());
    open_once(turn.context).unwrap();
    assert!(turn.is_open());
}

#[test]
fn a_new_opening_starts_empty_and_allocates_at_once() {
    let turn = open();
    let start = turn.allocate(GPU, PAGE, VRAM).unwrap();
    assert_eq!(kind(turn.context, start), PointerType::Allocated);
    turn.close().unwrap();
    open_once(turn.context).unwrap();
    assert_eq!(kind(turn.context, start), PointerType::Unknown);
    let start = turn.allocate(GPU, PAGE, VRAM).unwrap();
    assert_eq!(kind(turn.context, start), PointerType::Allocated);
}

#[test]
fn before_the_topology_is_known() {
    let turn = closed();
    open_once(turn.context).unwrap();
    assert_eq!(turn.allocate(GPU, PAGE, VRAM), Err(Error::InvalidNode));
    assert_eq!(turn.register(promise::range(0x1_0000, PAGE)), Ok(()));
    assert_eq!(turn.register_to_nodes(promise::range(0x1_0000, PAGE), &[GPU]), Err(Error::NotSupported));
    assert_eq!(kind(turn.context, 0x1_0000), PointerType::Unknown);
    turn.acquire_system_properties().unwrap();
    assert!(turn.allocate(GPU, PAGE, VRAM).is_ok());
}

#[test]
fn an_allocation_from_birth_to_end() {
    let turn = open();
    let (size, flags) = (4 * PAGE, VRAM | MemFlags::HOST_ACCESS);
    let start = turn.allocate(GPU, size, flags).unwrap();
    turn.query_pointer(start + size - 1, |info| {
        assert_eq!((info.kind, info.node, info.flags), (PointerType::Allocated, GPU, flags));
        assert_eq!((info.cpu_address, info.gpu_address, info.size), (start, start as u64, size as u64));
        assert!(info.registered.is_empty() && info.mapped.is_empty() && info.user_data == 0);
    })
    .unwrap();
    assert_eq!(kind(turn.context, start + size), PointerType::Unknown, "one past the end");
    assert_eq!(kind(turn.context, start - 1), PointerType::Unknown);
    assert_eq!(turn.map(start, size), Ok(None));
    assert_eq!(mapped(turn.context, start), [1, 2]);
    assert_eq!(turn.map_nodes(start, size, &[OTHER]), Ok(None));
    assert_eq!(mapped(turn.context, start), [2]);
    assert_eq!(turn.map_nodes(start, size, &[]), Err(Error::InvalidParameter));
    assert_eq!(turn.map_nodes(start, size, &[NodeId(9)]), Err(Error::InvalidNode));
    assert_eq!(turn.map_nodes(start, size, &[CPU]), Err(Error::Failed));
    assert_eq!(turn.set_user_data(start + 8, 77), Ok(()), "within the first page");
    assert_eq!(turn.set_user_data(start + PAGE, 78), Err(Error::Failed));
    assert_eq!(turn.query_pointer(start + 1, |info| info.user_data), Ok(77));
    assert_eq!(turn.free(start), Err(Error::Failed), "still mapped");
    assert_eq!(mapped(turn.context, start), [2], "and whole");
    assert_eq!(turn.unmap(start), Ok(()));
    assert_eq!(turn.free(start), Ok(()));
    assert_eq!(kind(turn.context, start), PointerType::Unknown);
    assert_eq!(turn.free(start), Err(Error::NotRegistered));
}

#[test]
fn host_visible_memory_is_memory() {
    let turn = open();
    for (node, flags) in [(GPU, VRAM), (CPU, VRAM), (CPU, MemFlags::empty())] {
        let start = turn.allocate(node, PAGE, flags | MemFlags::HOST_ACCESS).unwrap();
        let word = std::ptr::with_exposed_provenance_mut::<u64>(start);
        // SAFETY: a page allocated a line ago with host access: mapped, aligned, this test's own.
        unsafe { word.write_volatile(0x1234_5678_9abc_def0) };
        // SAFETY: as above, and written just now.
        assert_eq!(unsafe { word.read_volatile() }, 0x1234_5678_9abc_def0);
        turn.free(start).unwrap();
    }
}

#[test]
fn sizes_alignments_and_places() {
    let turn = open();
    assert_eq!(turn.allocate(GPU, 0, VRAM), Err(Error::InvalidParameter));
    assert_eq!(turn.allocate(GPU, PAGE + 1, VRAM), Err(Error::InvalidParameter));
    assert_eq!(turn.allocate(NodeId(3), PAGE, VRAM), Err(Error::InvalidNode));
    assert_eq!(turn.allocate(GPU, 1 << 40, VRAM), Err(Error::NoMemory));
    assert_eq!(turn.allocate_aligned(GPU, PAGE, PAGE + 1, VRAM), Err(Error::InvalidParameter));
    let aligned = turn.allocate_aligned(GPU, PAGE, 1 << 21, VRAM).unwrap();
    assert_eq!(aligned % (1 << 21), 0);
    let place = turn.allocate(GPU, PAGE, VRAM).unwrap();
    turn.free(place).unwrap();
    assert_eq!(turn.allocate_at(GPU, place, PAGE, VRAM), Ok(place));
    assert_eq!(turn.allocate_at(GPU, place, PAGE, VRAM), Err(Error::NoMemory));
    assert_eq!(kind(turn.context, place), PointerType::Allocated, "the owner is untouched");
    let ring = turn.allocate(CPU, PAGE, VRAM | MemFlags::HOST_ACCESS | MemFlags::AQL_QUEUE_MEMORY).unwrap();
    assert_eq!(turn.query_pointer(ring, |info| info.size), Ok(2 * PAGE as u64));
    let reserved = turn.allocate(GPU, 512 * PAGE, MemFlags::ONLY_ADDRESS).unwrap();
    assert_eq!(kind(turn.context, reserved + PAGE), PointerType::ReservedAddress);
    assert_eq!(turn.map(reserved, 512 * PAGE), Err(Error::InvalidParameter));
    let without = turn.allocate(GPU, PAGE, VRAM | MemFlags::NO_ADDRESS).unwrap();
    assert_eq!(kind(turn.context, without), PointerType::Allocated);
    assert_eq!(turn.map(without, PAGE), Err(Error::InvalidParameter));
}

#[test]
fn registered_ranges_count_nest_and_end() {
    let turn = open();
    let host = vec![0u8; 8 * PAGE];
    let base = host.as_ptr().addr().next_multiple_of(PAGE);
    let (outer, nested) = (base + 0x234, base + PAGE);
    turn.register(promise::range(outer, 3 * PAGE)).unwrap();
    turn.register(promise::range(outer, 3 * PAGE)).unwrap();
    turn.register(promise::range(nested, 0x100)).unwrap();
    let size = |address| turn.query_pointer(address, |info| info.size).unwrap();
    assert_eq!((size(nested + 0xff), size(nested + 0x100)), (0x100, 3 * PAGE as u64));
    let on_gpu = turn.query_pointer(outer, |info| info.gpu_address).unwrap();
    assert_eq!(on_gpu & 0xfff, 0x234);
    assert_eq!(kind(turn.context, on_gpu as usize), PointerType::RegisteredUser);
    assert_eq!(turn.map(outer, 3 * PAGE), Ok(Some(on_gpu)));
    assert_eq!(mapped(turn.context, outer), [1, 2]);
    turn.unmap(outer).unwrap();
    turn.deregister(outer).unwrap();
    assert_eq!(kind(turn.context, outer), PointerType::RegisteredUser, "registered twice");
    turn.deregister(outer).unwrap();
    assert_eq!(kind(turn.context, outer), PointerType::Unknown);
    assert_eq!(kind(turn.context, nested), PointerType::RegisteredUser);
    turn.deregister(nested).unwrap();
    assert_eq!(turn.deregister(nested), Err(Error::NotRegistered));
}

#[test]
fn node_lists_and_flags_of_registered_ranges() {
    let turn = open();
    let host = vec![0u8; 4 * PAGE];
    let base = host.as_ptr().addr().next_multiple_of(PAGE);
    turn.register_to_nodes(promise::range(base, PAGE), &[OTHER, GPU]).unwrap();
    assert_eq!(turn.query_pointer(base, |info| info.registered.ids().to_vec()), Ok(vec![2, 1]));
    assert_eq!(turn.register_to_nodes(promise::range(base, PAGE), &[GPU, OTHER]), Err(Error::AlreadyRegistered));
    assert_eq!(turn.register_to_nodes(promise::range(base, PAGE), &[]), Err(Error::InvalidParameter));
    assert_eq!(turn.register_to_nodes(promise::range(base, PAGE), &[NodeId(7)]), Err(Error::InvalidNode));
    turn.deregister(base).unwrap();
    let host_only = MemFlags::HOST_ACCESS;
    assert_eq!(turn.register_with_flags(promise::range(base, PAGE), host_only | VRAM), Err(Error::NotSupported));
    let both = MemFlags::COARSE_GRAIN | MemFlags::EXTENDED_COHERENT;
    assert_eq!(turn.register_with_flags(promise::range(base, PAGE), host_only | both), Err(Error::InvalidParameter));
    turn.register_with_flags(promise::range(base, PAGE), host_only | MemFlags::EXTENDED_COHERENT).unwrap();
    assert_eq!(turn.query_pointer(base, |info| info.flags), Ok(MemFlags::EXTENDED_COHERENT));
    turn.deregister(base).unwrap();
    let vram = turn.allocate(GPU, PAGE, VRAM).unwrap();
    assert_eq!(turn.register(promise::range(vram, PAGE)), Err(Error::InvalidHandle));
}

#[test]
fn wild_addresses_get_an_answer() {
    let turn = open();
    let known = turn.allocate(GPU, PAGE, VRAM).unwrap();
    let top = usize::MAX;
    let mut wild = vec![0, 1, PAGE - 1, PAGE, 1 << 46, (1 << 47) - 1, 1 << 47, 1 << 48, 1 << 63, top - PAGE, top];
    // Far from here: nearby are the MMIO pages, which are objects.
    wild.extend((32..64).map(|bit| known ^ (1 << bit)));
    let before = turn.generation();
    for address in wild {
        assert_eq!(kind(turn.context, address), PointerType::Unknown, "{address:#x}");
        assert_eq!(turn.set_user_data(address, 1), Err(Error::Failed), "{address:#x}");
        let free = if address == 0 { Error::Failed } else { Error::NotRegistered };
        assert_eq!(turn.free(address), Err(free), "{address:#x}");
        assert_eq!(turn.deregister(address), Err(Error::NotRegistered), "{address:#x}");
        let unmap = if address == 0 { Ok(()) } else { Err(Error::Failed) };
        assert_eq!(turn.unmap(address), unmap, "{address:#x}");
        for size in [0, 1, PAGE, top / 2, top - 1] {
            let map = if address == 0 { Error::Failed } else { Error::InvalidParameter };
            assert_eq!(turn.map(address, size), Err(map), "{address:#x} {size:#x}");
            assert_eq!(turn.map_range(promise::range(address, size)), Err(map), "{address:#x} {size:#x}");
            assert_eq!(turn.map_nodes(address, size, &[GPU]), Err(Error::Failed), "{address:#x} {size:#x}");
        }
        for size in [0, top / 2, top - 1] {
            assert!(turn.register(promise::range(address, size)).is_err(), "{address:#x} {size:#x}");
        }
    }
    assert_eq!(turn.generation(), before, "and nothing was published");
    assert_eq!(kind(turn.context, known), PointerType::Allocated);
}

/// Says "done" when dropped, so that a writer that panics does not leave its readers running.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a reader may see beside [`write`]: nothing, or one object, whole. How many objects it saw.
fn read(context: Context, kept: usize, size: usize, places: &[AtomicUsize], done: &AtomicBool) -> usize {
    let mut reader = context.reader().expect("a slot");
    let mut session = reader.session();
    let mut found = 0;
    while !done.load(Ordering::Relaxed) {
        let info = session.query_pointer(kept + PAGE).unwrap();
        assert_eq!((info.gpu_address, info.size, info.mapped.ids()), (kept as u64, size as u64, &[1, 2][..]));
        for place in places {
            let address = place.load(Ordering::Relaxed) + size - 1;
            let info = session.query_pointer(address).unwrap();
            if info.kind == PointerType::Unknown {
                assert_eq!((info.size, info.user_data, info.mapped.len()), (0, 0, 0));
                continue;
            }
            found += 1;
            let start = info.gpu_address as usize;
            assert!(info.size == size as u64 && (start..start + size).contains(&address), "{address:#x}: {info:?}");
            assert!(info.user_data == 0 || info.user_data == start, "the word of another object: {info:?}");
            assert!(matches!(info.mapped.ids(), [] | [1] | [2]), "{:?}", info.mapped);
        }
    }
    found
}

/// Objects come and go, at addresses that are used again. Each carries its own address as its word.
fn write(context: Context, size: usize, places: &[AtomicUsize]) {
    for round in 0..20 {
        for place in places {
            let start = context.allocate(GPU, size, VRAM).unwrap();
            place.store(start, Ordering::Relaxed);
            context.set_user_data(start, start).unwrap();
            context.map_nodes(start, size, &[if round % 2 == 0 { GPU } else { OTHER }]).unwrap();
        }
        for place in places {
            context.unmap(place.load(Ordering::Relaxed)).unwrap();
            context.free(place.load(Ordering::Relaxed)).unwrap();
        }
    }
}

#[test]
fn sessions_beside_a_writer_see_objects_whole_or_not_at_all() {
    let turn = open();
    let context = turn.context;
    let size = 2 * PAGE;
    let kept = context.allocate(GPU, size, VRAM).unwrap();
    context.map(kept, size).unwrap();
    let places: Vec<AtomicUsize> = (0..64).map(|_| AtomicUsize::new(0)).collect();
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| scope.spawn(|| read(context, kept, size, &places, &done)));
        let end = Done(&done);
        write(context, size, &places);
        drop(end);
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<usize>()
    });
    assert!(seen > 0, "the readers met the writer's objects");
}

#[test]
fn a_session_outlives_a_close_and_says_so() {
    let turn = open();
    let start = turn.allocate(GPU, PAGE, VRAM).unwrap();
    let mut reader = turn.reader().expect("a slot");
    let mut session = reader.session();
    assert_eq!(session.query_pointer(start).unwrap().kind, PointerType::Allocated);
    turn.close().unwrap();
    assert!(matches!(session.query_pointer(start), Err(Error::NotOpened)));
    open_once(turn.context).unwrap();
    assert_eq!(session.query_pointer(start).unwrap().kind, PointerType::Unknown);
}

/// Writes that retire several times what [`an_answer_that_panics_leaves_the_thread_outside`] lets wait.
const WRITES: usize = 10_000;

/// A thread that stayed inside would hold every later version back, until the writer has too many.
#[test]
fn an_answer_that_panics_leaves_the_thread_outside() {
    let turn = open();
    let start = turn.allocate(GPU, PAGE, VRAM).unwrap();
    turn.limit_retired(1 << 20).unwrap();
    let ask = || std::panic::AssertUnwindSafe(|| turn.query_pointer(start, |info| panic!("{} bytes", info.size)));
    std::thread::scope(|scope| {
        // Its first question, one that is noted, and one that is remembered.
        let asks = || (0..3).filter(|_| std::panic::catch_unwind(ask()).is_err()).count();
        assert_eq!(scope.spawn(asks).join().unwrap(), 3);
        let asks_and_writes = || {
            (0..3).for_each(|_| assert!(std::panic::catch_unwind(ask()).is_err()));
            (0..=WRITES).try_for_each(|word| turn.set_user_data(start, word))
        };
        assert_eq!(scope.spawn(asks_and_writes).join().unwrap(), Ok(()));
    });
    assert_eq!(turn.query_pointer(start, |info| info.user_data), Ok(WRITES));
    turn.limit_retired(RETIRED_LIMIT).unwrap();
}

#[test]
fn a_secondary_context_that_is_open_keeps_its_place_whoever_closes_at_once() {
    let _turn = open();
    let machine = EmbeddedMachine::preset("gfx90a").unwrap();
    let second = || Context::open_secondary_with(|| Ok(Box::new(machine.open().map_err(|_| Error::NotOpened)?)));
    for _ in 0..300 {
        let context = second().unwrap();
        let start = Barrier::new(3);
        let (closed, next) = std::thread::scope(|scope| {
            let close = || {
                start.wait();
                context.close_secondary()
            };
            let closers = [scope.spawn(close), scope.spawn(close)];
            start.wait();
            let next = [(); 4].map(|()| second().unwrap());
            (closers.map(|thread| thread.join().unwrap()), next)
        });
        assert!(closed.contains(&Ok(())), "{closed:?}");
        assert!(closed.iter().all(|answer| matches!(answer, Ok(()) | Err(Error::InvalidParameter))), "{closed:?}");
        for context in next {
            let known = Context::from_raw(context.as_raw()).is_some();
            assert_eq!(context.is_open(), known, "open contexts have their places, and no others");
        }
        for context in next {
            // A late second close may have ended one of these: a handle of a closed context means the next one there.
            let _ = context.close_secondary();
            assert!(!context.is_open());
        }
    }
}

#[test]
fn a_secondary_context_that_was_closed_stays_closed() {
    let _turn = open();
    let machine = EmbeddedMachine::preset("gfx90a").unwrap();
    let opened = Context::open_secondary_with(|| Ok(Box::new(machine.open().map_err(|_| Error::NotOpened)?)));
    let context = opened.unwrap();
    assert_eq!(open_once(context), Err(Error::AlreadyOpened));
    assert_eq!(context.close_secondary(), Ok(()), "counted");
    assert!(context.is_open() && Context::from_raw(context.as_raw()).is_some());
    assert_eq!(context.close(), Ok(()));
    assert!(!context.is_open() && Context::from_raw(context.as_raw()).is_none());
    assert_eq!(open_once(context), Err(Error::NotOpened));
    assert_eq!(context.close_secondary(), Err(Error::InvalidParameter));
}
