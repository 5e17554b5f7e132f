//! What a reader remembers of its last questions, with two signal handlers at every pair of instructions of a question.
//!
//! The question is run step by step (the processor's trap flag). At one step a handler frees the object that is asked
//! about, and asks about another that shares its place; at a later step a handler asks about the freed one. It must be
//! told that there is nothing: the interrupted question holds the version in which there was.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hsakmt_core::address::{Bounds, PageSize};
use hsakmt_core::aperture::{Aperture, Layout};
use hsakmt_core::epoch::slots::{Fences, Slots};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::PointerType;
use hsakmt_core::internals::Recent;
use hsakmt_core::node::NodeId;
use hsakmt_core::objects::Object;
use hsakmt_core::pool::Heap;
use hsakmt_core::registry::{Registry, Writer};

/// Asked about, and freed in the middle. Its neighbour has the same place.
const ASKED: usize = 0x10_4000;
const NEIGHBOUR: usize = 0x10_5000;

static REGISTRY: Registry<Slots<4, Fences>> = Registry::with_domain(Slots::new(Fences));
static WRITER: Mutex<Option<Writer<'static, Slots<4, Fences>, Heap>>> = Mutex::new(None);
static RECENT: Recent = Recent::new();

/// Steps made, and at which the handlers do their work.
static STEP: AtomicUsize = AtomicUsize::new(0);
static FIRST: AtomicUsize = AtomicUsize::new(0);
static SECOND: AtomicUsize = AtomicUsize::new(0);
/// What the second was told.
static TOLD: AtomicUsize = AtomicUsize::new(0);

fn object(start: usize, user_data: usize) -> Object<'static> {
    let (kind, flags, node) = (PointerType::Allocated, MemFlags::NON_PAGED, NodeId(1));
    Object { kind, start, size: 0x1000, cpu: start, node, flags, user_data, registered: &[], mapped: &[] }
}

fn write<T>(verb: impl FnOnce(&mut Writer<'static, Slots<4, Fences>, Heap>) -> T) -> T {
    verb(WRITER.lock().unwrap().as_mut().expect("made at the start"))
}

/// A question as the C entry asks it; the user data, 0 for nothing. In single steps if `stepped`.
fn ask(owner: usize, address: usize, stepped: bool) -> usize {
    let owner = std::num::NonZeroUsize::new(owner).expect("a number");
    // SAFETY: the thread and its handler give different numbers, and each gives its slot back.
    let slot = unsafe { REGISTRY.domain().claim(owner) }.expect("a slot");
    // SAFETY: the slot was claimed just now, by this thread or its handler, and the guard goes before anything else.
    let guard = unsafe { REGISTRY.domain().enter_slot(slot, 0) };
    // SAFETY: `guard` keeps what is read until it is dropped.
    let snapshot = unsafe { REGISTRY.current() }.expect("open");
    if stepped {
        // SAFETY: sets the trap flag; the handler of SIGTRAP is installed, and the stack is left as it was.
        unsafe { core::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    }
    // SAFETY: the memory is given to this one registry by this one thread and its handlers.
    let told = unsafe { snapshot.query_recent(address, &RECENT) }.map_or(0, |info| info.user_data);
    if stepped {
        // SAFETY: clears the trap flag; the stack is left as it was.
        unsafe { core::arch::asm!("pushfq", "and qword ptr [rsp], 0xfffffffffffffeff", "popfq") };
    }
    drop(guard);
    // SAFETY: the owner, outside.
    unsafe { REGISTRY.domain().release(slot, owner) };
    told
}

extern "C" fn step(_: i32) {
    let step = STEP.fetch_add(1, Ordering::SeqCst) + 1;
    if step == FIRST.load(Ordering::SeqCst) {
        write(|writer| writer.remove_object(Aperture::Svm, ASKED)).expect("it was there");
        assert_eq!(ask(7, NEIGHBOUR, false), 2);
    }
    if step == SECOND.load(Ordering::SeqCst) {
        TOLD.store(ask(7, ASKED, false), Ordering::SeqCst);
    }
}

/// One question with the handlers at these steps: what the second was told, and how many steps there were.
fn question(first: usize, second: usize) -> (usize, usize) {
    let _ = write(|writer| writer.insert_object(Aperture::Svm, &object(ASKED, 1)));
    // So often that the reader does not think it useless to remember; then a new version, which it does not know.
    (0..200).for_each(|_| assert_eq!(ask(7, NEIGHBOUR, false), 2));
    write(|writer| writer.set_user_data(NEIGHBOUR, 2)).expect("it is there");
    for (what, value) in [(&FIRST, first), (&SECOND, second), (&STEP, 0), (&TOLD, 0)] {
        what.store(value, Ordering::SeqCst);
    }
    assert_eq!(ask(9, ASKED, true), 1, "the version in which it is there is kept");
    (TOLD.load(Ordering::SeqCst), STEP.load(Ordering::SeqCst))
}

#[test]
fn handlers_at_every_pair_of_instructions_are_told_the_truth() {
    // SAFETY: the handler touches atomics, and locks and memory that the interrupted code, a question, does not.
    let before = unsafe { libc::signal(libc::SIGTRAP, step as *const () as libc::sighandler_t) };
    assert_ne!(before, libc::SIG_ERR);
    *WRITER.lock().unwrap() = Some(REGISTRY.writer(PageSize::FOUR_KIB, Heap).unwrap());
    let mut layout = Layout::empty(PageSize::FOUR_KIB);
    (layout.svm, layout.dgpu) = (Bounds::new(0x10_0000, 0xff_ffff), true);
    write(|writer| writer.set_layout(layout)).unwrap();
    write(|writer| writer.insert_object(Aperture::Svm, &object(NEIGHBOUR, 2))).unwrap();
    let (_, steps) = question(usize::MAX, usize::MAX);
    assert!(steps > 50, "{steps} steps are no question");
    let mut pairs = 0;
    for first in 1..steps {
        // Every third step, from another one each time: three in a row see each.
        for second in (first + 1 + first % 3..=steps).step_by(3) {
            assert_eq!(question(first, second).0, 0, "freed at step {first} of {steps}, asked at {second}");
            pairs += 1;
        }
    }
    println!("{pairs} pairs of {steps} steps");
}
