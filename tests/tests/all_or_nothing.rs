//! All or nothing: every verb with every system call it makes failing once, and everything as before.
//!
//! Each setting runs in a process of its own (this program again), since the environment and the address space are a
//! process's: so it does not matter what else the test runner does beside it.

use hsakmt_tests::all_or_nothing::{Bench, Setting, all, inside, run_again, strike_all};

/// Tries every verb of a setting, in this process.
fn strike(setting: &Setting) {
    let bench = Bench::start(Some(setting));
    bench.warm_up(300).expect("a bench");
    bench.clear_away();
    let verbs = all(setting);
    for verb in &verbs {
        let struck = strike_all(setting, verb);
        println!("{}: {}: {struck:?}", setting.name, verb.name);
        for (call, least) in verb.points.iter().chain(&verb.embedded) {
            let times = struck.get(call).copied().unwrap_or(0);
            assert!(times >= *least, "{}: {call} struck {} {times} times, not {least}", setting.name, verb.name);
        }
    }
    println!("{} verbs", verbs.len());
}

/// Runs this program again, for the setting.
fn on(name: &str, test: &str, least: usize) {
    if let Some(setting) = inside() {
        return strike(setting);
    }
    let setting = Setting::named(name).expect("a setting");
    let output = run_again(setting, test);
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{said}\n{errors}", output.status);
    let verbs = said.lines().find_map(|line| line.strip_suffix(" verbs")?.parse::<usize>().ok());
    assert!(verbs.is_some_and(|verbs| verbs >= least), "{name}: not {least} verbs: {said}");
}

#[test]
fn addresses_of_the_process() {
    on("mmap", "addresses_of_the_process", 79);
}

#[test]
fn a_reserved_range() {
    on("reserved", "a_reserved_range", 77);
}

#[test]
fn shared_virtual_memory() {
    on("svm", "shared_virtual_memory", 7);
}

#[test]
fn shared_virtual_memory_that_fails() {
    on("svm-fails", "shared_virtual_memory_that_fails", 15);
}

#[test]
fn paged_memory_as_gtt() {
    on("gtt-paged", "paged_memory_as_gtt", 44);
}

#[test]
fn an_apu_with_addresses_of_its_own() {
    on("old-apu", "an_apu_with_addresses_of_its_own", 20);
}

#[test]
fn an_apu_in_svm() {
    on("new-apu", "an_apu_in_svm", 21);
}

#[test]
fn no_gpu() {
    on("no-gpu", "no_gpu", 10);
}
