//! A query with a signal handler at each of its instructions, which writes and queries itself.
//!
//! The query runs in single steps (the processor's trap flag), as the C entry makes it: it enters the thread's slot, looks the
//! address up and leaves. At one step the handler changes the object. It makes enough changes for several grace periods, so
//! the writer reuses all memory that no reader protects. Then the handler queries through the same slot. The interrupted
//! query must return one of the object's values, and the handler's query the newest.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use hsakmt_core::address::{Bounds, PageSize};
use hsakmt_core::aperture::{Aperture, Layout};
use hsakmt_core::epoch::slots::{Fences, Slots};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::{PointerInfo, PointerType};
use hsakmt_core::internals::Slot;
use hsakmt_core::node::NodeId;
use hsakmt_core::objects::Object;
use hsakmt_core::pool::Heap;
use hsakmt_core::registry::{BATCH, Registry, Writer};

type Domain = Slots<4, Fences>;

/// Queried and changed.
const BUFFER: usize = 0x10_4000;
/// Its neighbours, so that the index has several levels.
const OTHERS: [usize; 3] = [0x10_5000, 0x80_0000, 0xf0_0000];

/// Changes that the handler makes: three batches, so that the memory of the first is used again in the third.
const CHANGES: usize = 3 * BATCH;

static REGISTRY: Registry<Domain> = Registry::with_domain(Slots::new(Fences));
static WRITER: Mutex<Option<Writer<'static, Domain, Heap>>> = Mutex::new(None);

/// Steps made, and the one at which the handler does its work.
static STEP: AtomicUsize = AtomicUsize::new(0);
static AT: AtomicUsize = AtomicUsize::new(0);
/// The user data as of the last change.
static NEWEST: AtomicUsize = AtomicUsize::new(0);

fn object(start: usize) -> Object<'static> {
    let (kind, flags, node) = (PointerType::Allocated, MemFlags::NON_PAGED, NodeId(1));
    Object { kind, start, size: 0x1000, cpu: start, node, flags, user_data: 0, registered: &[], mapped: &[] }
}

fn owner() -> NonZeroUsize {
    NonZeroUsize::new(7).expect("a number")
}

/// The thread's slot.
fn slot() -> &'static Slot {
    static SLOT: Mutex<Option<&'static Slot>> = Mutex::new(None);
    let mut known = SLOT.lock().unwrap();
    // SAFETY: no other claim has the number, and the slot is never given back.
    known.get_or_insert_with(|| unsafe { REGISTRY.domain().claim(owner()) }.expect("a slot"))
}

fn user_data(info: Option<PointerInfo<'_>>) -> usize {
    let info = info.expect("it is there in every version");
    assert_eq!((info.kind, info.size, info.gpu_address), (PointerType::Allocated, 0x1000, BUFFER as u64));
    info.user_data
}

/// A query as the C entry makes it, in single steps.
fn query_stepwise(slot: &'static Slot) -> usize {
    // SAFETY: sets the trap flag; the handler of SIGTRAP is installed, and the stack is left as it was.
    unsafe { core::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    // SAFETY: the slot is this thread's, its handler's stays end before this one goes on, and `Fences` promises a full fence.
    let inside = unsafe { REGISTRY.domain().enter_outermost_with(slot, 0, || fence(Ordering::SeqCst)) };
    let inside = inside.expect("outside before");
    // SAFETY: `inside` keeps what is read until it is dropped.
    let snapshot = unsafe { REGISTRY.current() }.expect("open");
    let found = user_data(snapshot.find_pointer(BUFFER + 8));
    drop(inside);
    // SAFETY: clears the trap flag; the stack is left as it was.
    unsafe { core::arch::asm!("pushfq", "and qword ptr [rsp], 0xfffffffffffffeff", "popfq") };
    found
}

extern "C" fn step(_: i32) {
    if STEP.fetch_add(1, Ordering::SeqCst) + 1 != AT.load(Ordering::SeqCst) {
        return;
    }
    let mut writer = WRITER.lock().unwrap();
    let writer = writer.as_mut().expect("made at the start");
    for _ in 0..CHANGES {
        let newest = NEWEST.fetch_add(1, Ordering::SeqCst) + 1;
        writer.set_user_data(BUFFER, newest).expect("it is there, and so is memory");
    }
    // SAFETY: the slot is this thread's, and this stay ends before the interrupted code goes on.
    let inside = unsafe { REGISTRY.domain().enter_slot(slot(), 0) };
    // SAFETY: `inside` keeps what is read until it is dropped.
    let snapshot = unsafe { REGISTRY.current() }.expect("open");
    assert_eq!(user_data(snapshot.find_pointer(BUFFER)), NEWEST.load(Ordering::SeqCst));
    drop(inside);
}

#[test]
fn a_query_is_right_whatever_a_handler_does_at_each_of_its_instructions() {
    // SAFETY: the handler touches atomics, and locks and memory that the interrupted code, a query, does not.
    let before = unsafe { libc::signal(libc::SIGTRAP, step as *const () as libc::sighandler_t) };
    assert_ne!(before, libc::SIG_ERR);
    let mut layout = Layout::empty(PageSize::FOUR_KIB);
    (layout.svm, layout.dgpu) = (Bounds::new(0x10_0000, 0xff_ffff), true);
    let mut writer = REGISTRY.writer(PageSize::FOUR_KIB, Heap).unwrap();
    writer.set_layout(layout).unwrap();
    for start in OTHERS.into_iter().chain([BUFFER]) {
        writer.insert_object(Aperture::Svm, &object(start)).unwrap();
    }
    *WRITER.lock().unwrap() = Some(writer);
    let slot = slot();
    let query_at = |at: usize| {
        STEP.store(0, Ordering::SeqCst);
        AT.store(at, Ordering::SeqCst);
        let oldest = NEWEST.load(Ordering::SeqCst);
        let found = query_stepwise(slot);
        (found - oldest, STEP.load(Ordering::SeqCst))
    };
    let (_, steps) = query_at(usize::MAX);
    assert!(steps > 50, "{steps} steps are no query");
    let found: Vec<usize> = (1..=steps).map(|at| query_at(at).0).collect();
    // Before the root is loaded the newest, after it the one before the handler; never one in between.
    let turn = found.iter().position(|found| *found == 0).expect("late handlers change nothing");
    assert!(turn > 5 && found[..turn].iter().all(|found| *found == CHANGES), "{found:?}");
    assert!(found[turn..].iter().all(|found| *found == 0), "{found:?}");
}
