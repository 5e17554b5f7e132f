//! All or nothing behind real system calls: the real channel under kfd-sim, whose faults strike ioctls, openings and
//! every mmap of the library.
//!
//! This program runs itself under the supervisor, once for each call that each verb makes. What it cannot see there -
//! buffer objects that nobody remembers - the supervisor's log tells afterwards: whatever was made was ended.

use std::collections::{BTreeMap, BTreeSet};

use hsakmt_tests::all_or_nothing::{MARK, Setting, all, choose, inside, run_under, walk};
use hsakmt_tests::sim;
use serde_json::Value;

/// What the program says when its verb failed the first time.
const FAILED: &str = "it failed, and left nothing";

/// Verbs that no fault stops: what the last close cannot end, the kernel keeps.
const NEVER_FAIL: &[&str] = &["close", "close secondary"];

#[test]
fn pinned_every_call_behind_system_calls() {
    strike_all("mmap", "pinned_every_call_behind_system_calls", 185, |_| true);
}

#[test]
fn pinned_every_mmap_of_a_reserved_range() {
    strike_all("reserved", "pinned_every_mmap_of_a_reserved_range", 40, |call| call == "mmap");
}

/// Strikes each call of each verb that is `wanted`: at least so many.
fn strike_all(setting: &str, test: &'static str, least: usize, wanted: fn(&str) -> bool) {
    if let Some(setting) = inside() {
        if walk(setting) {
            println!("\n{FAILED}");
        }
        return;
    }
    if let Some(reason) = sim::unavailable() {
        return sim::skip(&format!("all_or_nothing_supervised::{test}"), &reason);
    }
    let setting = Setting::named(setting).expect("a setting");
    let mut runs = 0;
    for (number, verb) in all(setting).iter().enumerate() {
        let walk = Walk { setting, test, number, name: &verb.name };
        let calls = walk.calls();
        for (call, least) in &verb.points {
            // Addresses are reserved by mmap.
            let call = if *call == "reserve" { "mmap" } else { call };
            let (_, made) = calls.get(call).copied().unwrap_or((0, 0));
            assert!(call == "part" || made >= *least, "{}: makes {made} {call}, not {least}", verb.name);
        }
        if NEVER_FAIL.contains(&verb.name.as_str()) {
            continue;
        }
        for (call, (before, count)) in calls.iter().filter(|(call, _)| wanted(call)) {
            (before + 1..=before + count).for_each(|k| walk.strike(call, k));
            runs += count;
        }
    }
    println!("{runs} calls were struck");
    assert!(runs >= least as u64, "{runs} calls are too few");
}

/// A log, line by line.
type Log = Vec<Value>;

/// One verb, and how this program is run again for it.
struct Walk<'a> {
    setting: &'a Setting,
    test: &'static str,
    number: usize,
    name: &'a str,
}

impl Walk<'_> {
    /// One run: what the program said, and the log.
    fn run(&self, faults: &str) -> (String, Log) {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("calls.jsonl");
        let options = ["--svm", "off", "--cpu", "0", "--log", log.to_str().expect("a path"), "--fault", faults];
        let output = run_under(self.setting, self.test, &options, choose(self.number));
        let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{} with {faults}: {}\n{said}\n{errors}", self.name, output.status);
        let log = std::fs::read_to_string(log).expect("the log");
        (said.into_owned(), log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
    }

    /// Of each kind of call that the verb makes: how many were made before, and how many it makes.
    fn calls(&self) -> BTreeMap<String, (u64, u64)> {
        let mut calls: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut marks = 0;
        // A fault that never strikes, so that each mmap is logged.
        for line in self.run("mmap:1000000=ENOMEM").1 {
            let call = line["call"].as_str().expect("a call");
            let counts = calls.entry(call.into()).or_default();
            match marks {
                0 => counts.0 += 1,
                1 => counts.1 += 1,
                _ => {}
            }
            marks += u64::from(call == MARK);
        }
        assert_eq!(marks, 2, "{}", self.name);
        // The second mark and its opening belong to nobody.
        calls.remove(MARK);
        calls.get_mut("open").expect("an opening").1 -= 1;
        calls
    }

    /// Runs the verb with the k-th call of the process failing.
    fn strike(&self, call: &str, k: u64) {
        let mut faults = vec![format!("{call}:{k}=ENOMEM")];
        if call == "map" || call == "unmap" {
            faults.push(format!("{call}:{k}:n_success=1"));
        }
        for faults in faults {
            let (said, log) = self.run(&faults);
            let what = format!("{} with {faults}", self.name);
            let struck = log.iter().filter(|line| line["result"] == "ENOMEM").count();
            let part = faults.contains("n_success");
            assert!(struck == 1 || part, "{what}: struck {struck} times");
            assert!(part || said.contains(FAILED) || is_a_wish(self.name, call), "{what}: got through");
            all_ended(&log, &what);
        }
    }
}

/// Whether a verb may do without a call: a set-up without the newer ioctl for apertures, or without the MMIO page of a GPU (or, if not even one page can be
/// reserved for trial, with a reserved range, or with a smaller one), a topology without what only a render node tells,
/// and an end without dropping the pages behind it.
fn is_a_wish(verb: &str, call: &str) -> bool {
    match verb {
        "open" | "acquire" | "open again" | "open secondary" => {
            matches!(call, "alloc" | "map" | "mmap" | "drm" | "apertures")
        }
        _ if verb.starts_with("free") || verb.starts_with("deregister") => call == "mmap",
        "unmap scratch" => call == "mmap",
        _ => false,
    }
}

/// Every buffer object that was made was ended.
fn all_ended(log: &Log, what: &str) {
    let mut held = BTreeSet::new();
    for line in log.iter().filter(|line| line["result"] == "ok") {
        match line["call"].as_str() {
            Some("alloc" | "dmabuf_import" | "ipc_import") => held.insert(line["out"]["handle"].to_string()),
            Some("free") => held.remove(&line["in"]["handle"].to_string()),
            _ => continue,
        };
    }
    assert!(held.is_empty(), "{what}: buffer objects that were never ended: {held:?}");
}
