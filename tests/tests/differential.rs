//! Can a program tell our library from the C library? Random sequences of calls on both, each in a process of its own
//! under kfd-sim, answer by answer.
//!
//! The references are Debian's libhsakmt 5.2.3 and, fetched into the target folder, Debian 13's 6.2.4;
//! `HSAKMT_REFERENCE_PREFIX=DIR` takes another one (`DIR/include/hsakmt`, `DIR/lib/libhsakmt.so.1`, and in `DIR/lib` the dynamic
//! linker and libc if it needs newer ones). A failure is shrunk to the fewest calls that show it and written into a file, a script of
//! `tests/differential/player.c` with both answers as comments. Also:
//!
//! | variable | |
//! |---|---|
//! | `HSAKMT_DIFFERENTIAL_SEED` | another seed; the one used is printed |
//! | `HSAKMT_DIFFERENTIAL_SEQUENCES` | how many, all variants together |
//! | `HSAKMT_DIFFERENTIAL_VARIANT` | only this one |
//! | `HSAKMT_DIFFERENTIAL_FAILURES` | go on until so many differences were found |
//! | `HSAKMT_DIFFERENTIAL_SCRIPT` | only show what both answer to this file's script, on the variant named by its first line |
//! | `HSAKMT_SUBJECT_PREFIX`, `HSAKMT_SUBJECT_SIMULATOR` | an installed library of ours, and a kfd-sim, instead of building them |

#[path = "../differential/compare.rs"]
mod compare;
#[path = "../differential/differences.rs"]
mod differences;
#[path = "../differential/operation.rs"]
mod operation;
#[path = "../differential/player.rs"]
mod player;
#[path = "../differential/sequence.rs"]
mod sequence;
#[path = "../differential/situation.rs"]
mod situation;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use compare::{Agreement, Difference, compare};
use hsakmt_tests::debian_13;
use hsakmt_tests::install::{Abi, prefix, prefix_of, target_folder, workspace};
use hsakmt_tests::sim;
use player::{Player, Side, Version, build};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sequence::{Scope, Sequence};

/// Where the two are compared: a machine and an environment.
struct Variant {
    name: &'static str,
    simulator: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    nodes: u32,
    /// How many of all sequences, beside the other variants' shares.
    share: u32,
    /// 5.2.3 does not know it: it never asks for SVM.
    newer: bool,
}

const PLAIN: Variant =
    Variant { name: "plain", simulator: &["--svm", "off"], environment: &[], nodes: 3, share: 26, newer: false };

const VARIANTS: &[Variant] = &[
    PLAIN,
    Variant { name: "svm", simulator: &["--svm", "on"], share: 20, newer: true, ..PLAIN },
    Variant { name: "svm-refused", simulator: &["--svm", "fail=EPERM"], share: 8, newer: true, ..PLAIN },
    Variant {
        name: "svm-unused",
        simulator: &["--svm", "on"],
        environment: &[("HSA_USE_SVM", "0")],
        share: 6,
        ..PLAIN
    },
    Variant { name: "paged-as-gtt", environment: &[("HSA_USERPTR_FOR_PAGED_MEM", "0")], share: 6, ..PLAIN },
    Variant { name: "no-cache", environment: &[("HSA_DISABLE_CACHE", "1")], share: 4, ..PLAIN },
    Variant { name: "no-guard", environment: &[("HSA_SVM_GUARD_PAGES", "0")], share: 4, ..PLAIN },
    Variant { name: "four-guards", environment: &[("HSA_SVM_GUARD_PAGES", "4")], share: 4, ..PLAIN },
    Variant { name: "large-alignment", environment: &[("HSA_MAX_VA_ALIGN", "18")], share: 4, ..PLAIN },
    Variant { name: "reserved", environment: &[("HSA_RESERVE_SVM", "1")], share: 6, ..PLAIN },
    Variant {
        name: "reserved-no-guard",
        environment: &[("HSA_RESERVE_SVM", "1"), ("HSA_SVM_GUARD_PAGES", "0")],
        share: 2,
        ..PLAIN
    },
    Variant {
        name: "reserved-four-guards",
        environment: &[("HSA_RESERVE_SVM", "1"), ("HSA_SVM_GUARD_PAGES", "4")],
        share: 2,
        ..PLAIN
    },
    Variant { name: "eight-gpus", simulator: &["--preset", "gfx942", "--svm", "off"], nodes: 9, share: 1, ..PLAIN },
    Variant { name: "no-gpu", simulator: &["--preset", "none"], nodes: 1, share: 1, ..PLAIN },
    Variant { name: "checked", environment: &[("HSA_CHECK_USERPTR", "1")], share: 2, ..PLAIN },
    Variant { name: "one-gpu", simulator: &["--preset", "gfx1100"], nodes: 2, share: 3, ..PLAIN },
    Variant { name: "apu", simulator: &["--preset", "apu"], nodes: 1, share: 3, ..PLAIN },
];

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Option<u64> {
    setting(name).map(|value| value.parse().unwrap_or_else(|error| panic!("{name}={value}: {error}")))
}

/// Two players of one variant.
struct Pair {
    theirs: Player,
    ours: Player,
    version: Version,
    variant: &'static str,
}

/// What both answered.
struct Answers {
    calls: Vec<String>,
    theirs: Vec<String>,
    ours: Vec<String>,
}

impl Pair {
    /// Both play, at the same time if there are two cores.
    fn play(&mut self, calls: Vec<String>, script: &str) -> Answers {
        self.theirs.play(script);
        self.ours.play(script);
        Answers { calls, theirs: self.theirs.answers(), ours: self.ours.answers() }
    }

    fn run(&mut self, sequence: &Sequence) -> (Answers, Agreement) {
        let answers = self.play(sequence.calls(), &sequence.script());
        let agreement = compare(&answers.calls, &answers.theirs, &answers.ours, self.version, self.variant);
        (answers, agreement)
    }
}

/// The libraries and the machine.
struct Libraries {
    theirs: Side,
    ours: Side,
    version: Version,
    simulator: PathBuf,
}

fn libraries(folder: &Path, reference: Option<&Path>) -> Libraries {
    let source = workspace().join("tests/differential");
    let side = |name: &str, prefix: Option<&Path>| {
        let program = folder.join(name);
        let version = build(&source, prefix, &program).unwrap_or_else(|said| panic!("{name}: {said}"));
        (Side { program, library: prefix.map(|prefix| prefix.join("lib")) }, version)
    };
    let (theirs, version) = side("theirs", reference);
    // Debian 13's programs get ours with its interface, and with what goes with that.
    let built = || if version == Version::Of6_2_4 { prefix_of(Abi::Of6_2_4) } else { prefix() };
    let subject = setting("HSAKMT_SUBJECT_PREFIX").map_or_else(built, PathBuf::from);
    let (ours, _) = side("ours", Some(&subject));
    let simulator = setting("HSAKMT_SUBJECT_SIMULATOR").map_or_else(|| sim::kfd_sim().to_owned(), PathBuf::from);
    Libraries { theirs, ours, version, simulator }
}

fn pair(libraries: &Libraries, variant: &Variant) -> Pair {
    let cores: usize = std::thread::available_parallelism().map_or(1, usize::from);
    let simulator = |core: usize| {
        let mut words = vec![OsString::from(&libraries.simulator)];
        words.extend(["--cpu".into(), OsString::from((core % cores).to_string())]);
        words.extend(variant.simulator.iter().map(OsString::from));
        words
    };
    Pair {
        theirs: Player::new(libraries.theirs.clone(), simulator(0)),
        ours: Player::new(libraries.ours.clone(), simulator(1)),
        version: libraries.version,
        variant: variant.name,
    }
}

/// A sequence whose answers differ.
struct Failure {
    answers: Answers,
    difference: Difference,
    script: String,
}

/// The fewest calls that still differ. What differs once and never again stays as it was.
fn shrink(pair: &mut Pair, tree: &mut impl ValueTree<Value = Sequence>, first: Failure) -> Failure {
    const TRIES: usize = 600;
    let mut smallest = first;
    let mut more = tree.simplify();
    for _ in 0..TRIES {
        if !more {
            break;
        }
        let sequence = tree.current();
        let (answers, agreement) = pair.run(&sequence);
        more = match agreement.difference {
            Some(difference) => {
                smallest = Failure { answers, difference, script: sequence.script() };
                tree.simplify()
            }
            None => tree.complicate(),
        };
    }
    smallest
}

/// Writes a script with both answers, and returns where.
fn reproducer(variant: &Variant, seed: u64, number: usize, script: &str, answers: &Answers) -> PathBuf {
    let folder = target_folder().join("differential");
    let path = folder.join(format!("{}-{seed}-{number}.txt", variant.name));
    let mut text = format!("# variant {}: kfd-sim {}\n{script}", variant.name, variant.simulator.join(" "));
    text.push_str(&side_by_side(answers));
    std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text)).expect("the reproducer");
    path
}

fn side_by_side(answers: &Answers) -> String {
    let mut text = String::new();
    let most = answers.calls.len().max(answers.theirs.len()).max(answers.ours.len());
    let at = |lines: &[String], position: usize| lines.get(position).cloned().unwrap_or_else(|| "-".into());
    for position in 0..most {
        let (theirs, ours) = (at(&answers.theirs, position), at(&answers.ours, position));
        text.push_str(&format!("# {}\n", at(&answers.calls, position)));
        if theirs == ours {
            text.push_str(&format!("#     both   {theirs}\n"));
        } else {
            text.push_str(&format!("#     theirs {theirs}\n#     ours   {ours}\n"));
        }
    }
    text
}

#[test]
fn pinned_nobody_can_tell_which_library_answers() {
    const NAME: &str = "differential::pinned_nobody_can_tell_which_library_answers";
    let reference = setting("HSAKMT_REFERENCE_PREFIX");
    if let (None, Err(reason)) = (&reference, sim::debian_library()) {
        return sim::skip(NAME, &reason);
    }
    compare_with(NAME, reference.as_deref().map(Path::new), 2000);
}

/// 6.2.4 is nearer to the target: it has reserved addresses, buffers without one, dmabufs and the SVM API.
#[test]
fn pinned_debian_13_nobody_can_tell_which_library_answers() {
    const NAME: &str = "differential::pinned_debian_13_nobody_can_tell_which_library_answers";
    if setting("HSAKMT_REFERENCE_PREFIX").is_some() {
        return sim::skip(NAME, "HSAKMT_REFERENCE_PREFIX names another library");
    }
    match debian_13::prefix() {
        Ok(prefix) => compare_with(NAME, Some(&prefix), 1000),
        Err(reason) => sim::skip(NAME, &reason),
    }
}

/// Plays sequences, so many unless it is said how many, on ours and on the library in a prefix, or on Debian's.
fn compare_with(name: &str, reference: Option<&Path>, sequences: u64) {
    if setting("HSAKMT_SUBJECT_SIMULATOR").is_none()
        && let Some(reason) = sim::unavailable()
    {
        return sim::skip(name, &reason);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let libraries = libraries(folder.path(), reference);
    if let Some(script) = setting("HSAKMT_DIFFERENTIAL_SCRIPT") {
        return replay(&libraries, Path::new(&script));
    }
    let seed = number("HSAKMT_DIFFERENTIAL_SEED").unwrap_or(20_250_800);
    let total = number("HSAKMT_DIFFERENTIAL_SEQUENCES").unwrap_or(sequences);
    let mut wanted = number("HSAKMT_DIFFERENTIAL_FAILURES").unwrap_or(1);
    println!("seed {seed}; HSAKMT_DIFFERENTIAL_SEED={seed} repeats it");
    let (mut played, mut compared, mut failures) = (0, 0, Vec::new());
    let mut verbs = BTreeSet::new();
    let (mut kinds, mut repeated) = (HashSet::new(), 0);
    let mut declared: BTreeMap<&str, usize> = BTreeMap::new();
    let only = setting("HSAKMT_DIFFERENTIAL_VARIANT");
    let chosen = |variant: &Variant| only.as_ref().is_none_or(|only| only == variant.name);
    let known = |variant: &Variant| libraries.version.is_newer() || !variant.newer;
    let variants: Vec<_> = VARIANTS.iter().enumerate().filter(|(_, it)| chosen(it) && known(it)).collect();
    let shares: u64 = variants.iter().map(|(_, variant)| u64::from(variant.share)).sum();
    for (index, variant) in variants {
        let mut runner = runner(seed, index);
        let mut pair = pair(&libraries, variant);
        let strategy = sequence::sequences(
            Scope { newer: libraries.version.is_newer(), nodes: variant.nodes },
            variant.environment,
        );
        for _ in 0..(total * u64::from(variant.share)).div_ceil(shares) {
            let mut tree = strategy.new_tree(&mut runner).expect("a sequence");
            let sequence = tree.current();
            let (answers, agreement) = pair.run(&sequence);
            played += 1;
            verbs.extend(answers.calls.iter().filter_map(|call| call.split(' ').nth(1)).map(str::to_owned));
            compared += agreement.compared;
            agreement.declared.iter().for_each(|reason| *declared.entry(reason).or_default() += 1);
            let Some(difference) = agreement.difference else { continue };
            // One of a kind is enough.
            if !kinds.insert((variant.name, difference.kind())) {
                repeated += 1;
                continue;
            }
            let first = Failure { answers, difference, script: sequence.script() };
            let Failure { answers, difference, script } = shrink(&mut pair, &mut tree, first);
            let path = reproducer(variant, seed, played, &script, &answers);
            failures.push(format!(
                "{}: {}\n  theirs {}\n  ours   {}\n  {}",
                variant.name,
                difference.call,
                difference.theirs,
                difference.ours,
                path.display()
            ));
            wanted = wanted.saturating_sub(1);
            if wanted == 0 {
                panic!("{} differences\n{}", failures.len(), failures.join("\n"));
            }
        }
    }
    println!("{played} sequences of {} kinds of calls, {compared} answers compared", verbs.len());
    if repeated > 0 {
        println!("{repeated} more differences of the kinds found");
    }
    assert!(played < 500 || verbs.len() >= 20, "too few kinds of calls: {verbs:?}");
    for (reason, count) in &declared {
        println!("  declared, {count} times: {reason}");
    }
    assert!(failures.is_empty(), "{} differences\n{}", failures.len(), failures.join("\n"));
}

fn runner(seed: u64, variant: usize) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8] = variant as u8;
    let config = Config { failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Shows what both answer to a reproducer's script.
fn replay(libraries: &Libraries, path: &Path) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = text.strip_prefix("# variant ").and_then(|rest| rest.split(':').next()).unwrap_or("plain");
    let variant = VARIANTS.iter().find(|variant| variant.name == name).expect("a variant of that name");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let calls = lines.iter().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let answers =
        pair(libraries, variant).play(calls.map(|call| (*call).to_owned()).collect(), &(lines.join("\n") + "\n"));
    println!("{}", side_by_side(&answers));
}
