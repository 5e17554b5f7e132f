//! One verb behind real system calls, with one call failing that the supervisor was told beforehand.
//!
//! Here `mmap` is the system call itself, wherever the library makes it: addresses, CPU mappings, its own memory. Which
//! call of a process is the k-th one of a verb, the log of a run without a fault tells: the verb stands between two
//! marks in it.

use hsakmt_core::node::GpuId;
use hsakmt_kfd::device::Device;

use super::bench::Bench;
use super::setting::Setting;
use super::state::State;
use super::verbs::all;

/// Set beside the setting: the verb's place in the list.
const VERB: &str = "HSAKMT_ALL_OR_NOTHING_VERB";

/// The call that [`walk`] makes right before and right after its verb, by its short name.
pub const MARK: &str = "clocks";

/// The variable that tells a process which verb to walk through.
pub fn choose(verb: usize) -> (&'static str, String) {
    (VERB, verb.to_string())
}

fn mark() {
    let device = Device::open().expect("a device");
    device.clock_counters(GpuId::NONE).expect("the host's clock");
}

/// Runs the chosen verb of a setting in this process; says whether it failed the first time.
///
/// A verb that fails must leave the state as it was, and succeed when it is tried again. In the end all is closed.
pub fn walk(setting: &Setting) -> bool {
    let number: usize = std::env::var(VERB).ok().and_then(|text| text.parse().ok()).expect("a verb's number");
    let verbs = all(setting);
    let verb = verbs.get(number).expect("a verb");
    let warm = Bench::start(None);
    warm.warm_up(30).expect("a bench");
    warm.clear_away();
    let empty = State::now(None, &[]);
    let bench = Bench::start(None);
    let given = (verb.prepare)(&bench).expect("prepared");
    let before = bench.state().without(verb.stays);
    mark();
    let failed = (verb.run)(&bench, &given).is_err();
    mark();
    if failed {
        before.assert_same(&bench.state().without(verb.stays), &verb.name);
        (verb.run)(&bench, &given).expect("the second time");
    }
    bench.clear_away();
    empty.assert_same(&State::now(None, &[]), &format!("{}: everything closed", verb.name));
    failed
}
