//! Does our library answer random verbs as the C library did? `verbs/verbs.c` on our header and our `libhsakmt.so.1`
//! under kfd-sim, against what the 2025-08 library printed for the same seeds: every status, every pointer answer, and
//! where the library places things itself every address. There is no line that may differ.
//!
//! A recording is `kfd-sim OPTIONS -- env VARIABLES verbs SEED COUNT` with the C library.

use hsakmt_tests::install::{Link, build_with, prefix, workspace};
use hsakmt_tests::sim;

/// One recording.
struct Run {
    name: &'static str,
    seed: &'static str,
    count: &'static str,
    environment: &'static [(&'static str, &'static str)],
    options: &'static [&'static str],
}

const RESERVED: (&str, &str) = ("HSA_RESERVE_SVM", "1");

/// Set but empty, which is not set (case 87). `verbs.c` itself looks at `HSA_RESERVE_SVM`: `abi_renew` has that one.
const EMPTY: &[(&str, &str)] = &[
    ("HSA_USE_SVM", ""),
    ("HSA_ZFB", ""),
    ("HSA_DISABLE_CACHE", ""),
    ("HSA_USERPTR_FOR_PAGED_MEM", ""),
    ("HSA_CHECK_USERPTR", ""),
    ("HSA_SVM_GUARD_PAGES", ""),
    ("HSA_MAX_VA_ALIGN", ""),
    ("HSA_OVERRIDE_GFX_VERSION", ""),
    ("HSAKMT_DEBUG_LEVEL", ""),
];

const RUNS: &[Run] = &[
    Run { name: "plain", seed: "101", count: "60", environment: &[], options: &[] },
    Run { name: "plain", seed: "101", count: "60", environment: EMPTY, options: &[] },
    Run { name: "reserved", seed: "102", count: "60", environment: &[RESERVED], options: &[] },
    Run {
        name: "reserved-no-guard",
        seed: "103",
        count: "30",
        environment: &[RESERVED, ("HSA_SVM_GUARD_PAGES", "0")],
        options: &[],
    },
    Run {
        name: "guard-3",
        seed: "104",
        count: "30",
        environment: &[RESERVED, ("HSA_SVM_GUARD_PAGES", "3")],
        options: &[],
    },
    Run { name: "no-cache", seed: "105", count: "30", environment: &[("HSA_DISABLE_CACHE", "1")], options: &[] },
    Run {
        name: "paged-gtt",
        seed: "106",
        count: "30",
        environment: &[("HSA_USERPTR_FOR_PAGED_MEM", "0")],
        options: &[],
    },
    Run { name: "zfb", seed: "107", count: "30", environment: &[("HSA_ZFB", "1")], options: &[] },
    Run { name: "svm", seed: "108", count: "40", environment: &[], options: &["--svm", "accept-all"] },
    Run { name: "svm-fails", seed: "109", count: "40", environment: &[], options: &["--svm", "fail=EPERM"] },
    Run { name: "svm-reserved", seed: "110", count: "40", environment: &[RESERVED], options: &["--svm", "accept-all"] },
    Run { name: "gfx942", seed: "111", count: "40", environment: &[], options: &["--preset", "gfx942"] },
    Run { name: "max-align", seed: "112", count: "20", environment: &[("HSA_MAX_VA_ALIGN", "18")], options: &[] },
];

#[test]
fn random_verbs_answer_as_recorded() {
    if let Some(reason) = sim::unavailable() {
        return sim::skip("abi_verbs::random_verbs_answer_as_recorded", &reason);
    }
    let recordings = workspace().join("tests/verbs");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("verbs");
    build_with(&prefix(), Link::Shared, &["-w"], &[&recordings.join("verbs.c")], &program);
    for run in RUNS {
        let mut command = sim::under(run.options, &program);
        let output = command.args([run.seed, run.count]).envs(run.environment.iter().copied()).output();
        let answers = sim::lines(&output.expect("kfd-sim runs"));
        let recorded = std::fs::read_to_string(recordings.join(run.name).with_extension("txt")).unwrap();
        for (number, (answer, recorded)) in (1..).zip(answers.iter().zip(recorded.lines())) {
            assert_eq!(answer, recorded, "{} line {number}", run.name);
        }
        assert_eq!(answers.len(), recorded.lines().count(), "{}: the number of lines", run.name);
    }
}
