//! The loop: a verb with its k-th system call of a kind failing, for k = 1, 2, ... until it gets through.
//!
//! A verb that fails must leave the state as it was, and is then tried again on the very same bench with the next k: so
//! what it left behind would also show later. A verb may get through although a fault struck (a GPU without its MMIO
//! page, a registration that goes another way); then it is cleared away, which must leave nothing, and a fresh bench is
//! set up.

use std::collections::{BTreeMap, BTreeSet};

use hsakmt_core::driver::Errno;

use super::bench::{Bench, Given};
use super::setting::Setting;
use super::state::State;
use super::verbs::Verb;

/// The error that faults fail with.
const REFUSED: Errno = Errno(12);

/// More calls of one kind than any verb makes.
const MANY: u64 = 60;

/// A kind of call and how it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// As fault injection names it.
    pub call: &'static str,
    /// After how many GPUs a map or unmap stops; `None`: it fails before the first.
    pub after: Option<usize>,
}

/// The kinds of calls that the memory manager and the channel make.
const CALLS: &[&str] = &[
    "open",
    "version",
    "create_process",
    "apertures",
    "acquire_vm",
    "policy",
    "scratch",
    "reserve",
    "mmap",
    "alloc",
    "free",
    "map",
    "unmap",
    "svm",
    "dmabuf_info",
    "dmabuf_import",
    "dmabuf_export",
    "ipc_export",
    "ipc_import",
];

/// Every fault that is tried.
fn faults() -> impl Iterator<Item = Fault> {
    let whole = CALLS.iter().map(|call| Fault { call, after: None });
    let parts = ["map", "unmap"].into_iter().flat_map(|call| (1..3).map(move |done| Fault { call, after: Some(done) }));
    whole.chain(parts)
}

/// How often a fault of each kind of call struck a verb; a map or unmap that stops half-way counts as "part".
pub type Struck = BTreeMap<&'static str, u64>;

/// What maps and unmaps that stop half-way are counted as.
pub(super) const PART: &str = "part";

/// Tries one verb with every fault.
pub fn strike_all(setting: &Setting, verb: &Verb) -> Struck {
    let mut struck = Struck::new();
    // A fault is worth a try once the verb was seen to make such a call, be it to undo another.
    let mut untried: Vec<Fault> = faults().collect();
    let mut seen = calls_of(setting, verb);
    while let Some(next) = untried.iter().position(|fault| seen.contains(fault.call)) {
        let fault = untried.swap_remove(next);
        let mut round = Round { k: 1, failed: 0, through: false, seen: &mut seen };
        while !round.through {
            strike_from(setting, verb, fault, &mut round);
            assert!(round.k < MANY, "{}: {fault:?} never lets it through", verb.name);
        }
        match fault.after {
            None => *struck.entry(fault.call).or_default() += round.k - 1,
            Some(_) => *struck.entry(PART).or_default() += round.failed,
        }
    }
    struck
}

/// Which kinds of calls a verb makes when nothing fails.
fn calls_of(setting: &Setting, verb: &Verb) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    let none = Fault { call: "none", after: None };
    strike_from(setting, verb, none, &mut Round { k: 1, failed: 0, through: false, seen: &mut seen });
    seen
}

/// How far the loop has come.
struct Round<'a> {
    /// The next call to fail.
    k: u64,
    /// How often the verb has failed.
    failed: u64,
    /// There was no k-th call any more.
    through: bool,
    /// Which kinds of calls the verb was seen to make.
    seen: &'a mut BTreeSet<&'static str>,
}

/// One bench: k, k + 1, ... until the verb succeeds.
fn strike_from(setting: &Setting, verb: &Verb, fault: Fault, round: &mut Round<'_>) {
    let empty = State::now(None, &[]);
    let bench = Bench::start(Some(setting));
    let given = (verb.prepare)(&bench).unwrap_or_else(|error| panic!("{}: not prepared: {error:?}", verb.name));
    let before = bench.state().without(verb.stays);
    loop {
        let (succeeded, reached) = strike_once(&bench, verb, &given, fault, round);
        let what = format!("{}: {} with {fault:?} at call {}", setting.name, verb.name, round.k);
        round.through = succeeded && !reached;
        round.k += u64::from(reached);
        if succeeded {
            break;
        }
        assert!(reached, "{what}: it failed by itself");
        round.failed += 1;
        before.assert_same(&bench.state().without(verb.stays), &what);
        assert!(round.k < MANY, "{what}: never lets it through");
    }
    bench.clear_away();
    let what = format!("{}: {} with {fault:?} up to call {}, and everything closed", setting.name, verb.name, round.k);
    empty.assert_same(&State::now(None, &[]), &what);
}

/// Runs the verb with its k-th call failing: whether it succeeded, and whether that call was reached.
fn strike_once(bench: &Bench, verb: &Verb, given: &Given, fault: Fault, round: &mut Round<'_>) -> (bool, bool) {
    let machine = bench.machine().expect("a machine in this process");
    let count = |call: &str| machine.faults(|faults| faults.calls(call));
    let before: Vec<u64> = CALLS.iter().map(|call| count(call)).collect();
    let calls = count(fault.call);
    machine.faults(|faults| match fault.after {
        None => faults.fail(fault.call, round.k, REFUSED),
        Some(done) => faults.stop_after(fault.call, round.k, done),
    });
    let result = (verb.run)(bench, given);
    machine.faults(|faults| faults.clear());
    round.seen.extend(CALLS.iter().zip(before).filter(|(call, before)| count(call) > *before).map(|(call, _)| call));
    (result.is_ok(), count(fault.call) - calls >= round.k)
}
