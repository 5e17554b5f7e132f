//! A read takes no lock, makes no system call, allocates nothing and frees nothing, whatever a writer does meanwhile.
//!
//! Each way to read runs in a process of its own (this program again, told by [`ROLE`]): a writer works at full speed
//! ([`writers`]), and one thread reads five million times each inside buffers, inside userptrs, and where there is
//! nothing. From its first read on, that thread may make no system call at all, and its allocations are counted
//! ([`watch`]). Getting a slot, or opening a session of the crossbeam domain, comes before: the documented exceptions.
//!
//! Two more processes read with a planted allocation and a planted system call: they must be caught.

mod watch;
mod writers;

use std::mem::MaybeUninit;
use std::process::Command;

use hsakmt::Context;
use hsakmt::ctypes::HsaPointerInfo;
use hsakmt_core::epoch::Domain;
use hsakmt_core::info::{PointerInfo, PointerType};
use hsakmt_core::reader::Session;

use writers::{Scene, core_alone, open_context};

/// Addresses asked together.
const LANE: usize = 16;

/// Reads of each way and of each kind of address.
const READS: usize = 5_000_000;

const _: () = assert!(READS.is_multiple_of(LANE));

/// Publishes that must have happened beside them.
const PUBLISHES: usize = 20_000;

/// The environment variable that makes this program one of the processes.
const ROLE: &str = "READS_DO_NOTHING_ELSE";

/// A way to read: how many of these addresses were answered with this kind.
type Ask<'a> = dyn FnMut(&[usize; LANE], PointerType) -> usize + 'a;

// SAFETY: as declared in the C header (hsakmt.h); an address is passed as a number, the status is an enum.
unsafe extern "C" {
    fn hsaKmtQueryPointerInfo(pointer: usize, info: *mut HsaPointerInfo) -> u32;
}

/// Reads inside buffers, inside userptrs, and where there is nothing; notes how many answers were wrong.
fn read_all(scene: &Scene, ask: &mut Ask<'_>) -> ! {
    let turns = READS / LANE;
    let kinds = [
        (&scene.buffers, PointerType::Allocated),
        (&scene.userptrs, PointerType::RegisteredUser),
        (&scene.nothing, PointerType::Unknown),
    ];
    let right = |(addresses, kind)| (0..turns).map(|_| ask(addresses, kind)).sum::<usize>();
    watch::done(kinds.len() * turns * LANE - kinds.map(right).iter().sum::<usize>())
}

/// Ways that ask for one address at a time.
fn one_by_one(mut kind_at: impl FnMut(usize) -> PointerType) -> impl FnMut(&[usize; LANE], PointerType) -> usize {
    move |addresses, kind| addresses.iter().filter(|address| kind_at(**address) == kind).count()
}

fn in_session<D: Domain>(session: &mut Session<'_, D>, address: usize) -> PointerType {
    session.query_pointer(address).map_or(PointerType::ReservedAddress, |info| info.kind)
}

fn many_in_session<D: Domain>(session: &mut Session<'_, D>, addresses: &[usize; LANE], kind: PointerType) -> usize {
    let mut answers = [PointerInfo::UNKNOWN; LANE];
    let asked = session.query_many(addresses, &mut answers);
    answers.iter().filter(|info| asked.is_ok() && info.kind == kind).count()
}

fn through_c(address: usize) -> PointerType {
    let mut info = MaybeUninit::<HsaPointerInfo>::uninit();
    // SAFETY: the first argument is only compared, and there is room for one answer at the second.
    let status = unsafe { hsaKmtQueryPointerInfo(address, info.as_mut_ptr()) };
    // SAFETY: the context is open and the place is not null: then the entry writes the whole struct, found or not.
    let info = unsafe { info.assume_init() };
    match (status, info.Type) {
        (0, 1) => PointerType::Allocated,
        (0, 2) => PointerType::RegisteredUser,
        (1, 0) => PointerType::Unknown,
        _ => PointerType::ReservedAddress,
    }
}

/// One of the processes.
fn play(role: &str) -> ! {
    match role {
        "session of the crossbeam domain" | "many in a session of the crossbeam domain" => {
            let (core, scene) = core_alone();
            let many = role.starts_with("many");
            watch::one_reader(&core, &scene, |scene| {
                core.filled.wait();
                let mut reader = core.registry.readers().reader().expect("crossbeam has a place for everyone");
                let mut session = reader.session();
                watch::from_here_on();
                if many {
                    read_all(scene, &mut |addresses, kind| many_in_session(&mut session, addresses, kind))
                } else {
                    read_all(scene, &mut one_by_one(|address| in_session(&mut session, address)))
                }
            })
        }
        _ => {
            let (context, scene) = open_context();
            watch::one_reader(&context, &scene, |scene| read_context(context, role, scene))
        }
    }
}

/// The ways to read a context: its domain are the reader slots.
fn read_context(context: Context, role: &str, scene: &Scene) -> ! {
    let mut reader = context.reader().expect("a slot");
    // A thread's first question claims its slot.
    let _ = through_c(0);
    let one_shot = |address| context.query_pointer(address, |info| info.kind).unwrap_or(PointerType::ReservedAddress);
    watch::from_here_on();
    match role {
        "session" => {
            let mut session = reader.session();
            read_all(scene, &mut one_by_one(|address| in_session(&mut session, address)))
        }
        "many in a session" => {
            let mut session = reader.session();
            read_all(scene, &mut |addresses, kind| many_in_session(&mut session, addresses, kind))
        }
        "question to a reader" => {
            let kind = |info: Result<PointerInfo<'_>, _>| info.map_or(PointerType::ReservedAddress, |info| info.kind);
            read_all(scene, &mut one_by_one(|address| reader.query_pointer(address, kind)))
        }
        "question to a context" => read_all(scene, &mut one_by_one(one_shot)),
        "C entry" => read_all(scene, &mut one_by_one(through_c)),
        "planted allocation" => {
            read_all(scene, &mut one_by_one(|address| *std::hint::black_box(Box::new(one_shot(address)))))
        }
        "planted system call" => read_all(
            scene,
            &mut one_by_one(|address| {
                std::thread::yield_now();
                one_shot(address)
            }),
        ),
        _ => panic!("no such role: {role}"),
    }
}

/// Runs one of the processes; what it said, and whether it found everything right.
fn run(test: &str, role: &str) -> (String, bool) {
    if let Ok(role) = std::env::var(ROLE) {
        play(&role);
    }
    let mut program = Command::new(std::env::current_exe().expect("the path of this test"));
    let output = program.args(["--exact", test, "--nocapture"]).env(ROLE, role).output().expect("this test, again");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code() == Some(0))
}

/// Declares a test for each way to read.
macro_rules! ways {
    ($($test:ident: $role:literal,)*) => {
        $(
            #[test]
            fn $test() {
                let (said, well) = run(stringify!($test), $role);
                println!("{said}");
                assert!(well, "{said}");
            }
        )*
    };
}

ways! {
    a_session_of_the_crossbeam_domain: "session of the crossbeam domain",
    many_in_a_session_of_the_crossbeam_domain: "many in a session of the crossbeam domain",
    a_session_of_the_slots_domain: "session",
    many_in_a_session_of_the_slots_domain: "many in a session",
    a_question_to_a_reader: "question to a reader",
    a_question_to_a_context: "question to a context",
    the_c_entry: "C entry",
}

#[test]
fn a_planted_allocation_is_caught() {
    let (said, well) = run("a_planted_allocation_is_caught", "planted allocation");
    assert!(!well && said.contains("allocated or freed 30000000 times"), "{said}");
}

#[test]
fn a_planted_system_call_is_caught() {
    let (said, well) = run("a_planted_system_call_is_caught", "planted system call");
    let number = format!("system call {}", libc::SYS_sched_yield);
    assert!(!well && said.contains(&number), "{said}");
}
