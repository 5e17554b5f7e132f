//! Runs AMD's kfdtest, test by test, under kfd-sim over one libhsakmt or several, and compares.
//!
//! kfdtest is not part of this repository: its source is in ROCm's `libhsakmt/tests/kfdtest`. It must be linked to
//! `libhsakmt.so.1`, so that `LD_LIBRARY_PATH` says which. Which tests there are, and how each is run, is in
//! `tests/clients/kfdtest.txt`.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use hsakmt_tests::sim;

/// Runs AMD's kfdtest under kfd-sim over each given library, and says which tests pass.
///
/// Exit code: 0 if over the last library every test passes that passes over any, 1 if one does not, 2 if nothing can be run.
#[derive(Parser)]
#[command(after_help = "Example, the C library first, then ours:
  std-shim/install --prefix /tmp/ours
  cargo run -p hsakmt-tests --bin kfdtest -- build/kfdtest --library /opt/rocm/lib --library /tmp/ours/lib")]
struct Arguments {
    /// The program, linked to libhsakmt.so.1
    kfdtest: PathBuf,
    /// A folder with a libhsakmt.so.1; may be given several times
    #[arg(long, required = true, value_name = "FOLDER")]
    library: Vec<PathBuf>,
    /// Only tests whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Also the tests that dispatch a shader, which can only fail
    #[arg(long)]
    shaders: bool,
    /// How long one test may take
    #[arg(long, default_value_t = 120)]
    seconds: u64,
}

/// A line of the list.
struct Test<'a> {
    name: &'a str,
    /// Options of kfd-sim.
    machine: &'static [&'static str],
    shader: bool,
}

/// How a test ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// The program does not know it, or says that this machine has nothing to test.
    NotRun,
    TooLong,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::NotRun => "not run",
            Outcome::TooLong => "TOO LONG",
        }
    }
}

/// The list's tests.
fn tests() -> impl Iterator<Item = Test<'static>> {
    let lines = include_str!("../../clients/kfdtest.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let (machine, how, name) = (words.next()?, words.next()?, words.next()?);
        let machine: &[&str] = match machine {
            "svm" => &["--svm", "on"],
            "small" => &["--svm", "off", "--vram", "256"],
            _ => &["--svm", "off"],
        };
        Some(Test { name, machine, shader: how == "shader" })
    })
}

/// Runs one test over one library.
fn run(arguments: &Arguments, library: &Path, test: &Test<'_>) -> Result<Outcome, String> {
    let log = tempfile::NamedTempFile::new().map_err(|error| format!("a file for what the test prints: {error}"))?;
    // One open file for both streams: two would write over one another.
    let output = || log.as_file().try_clone().map(Stdio::from).map_err(|error| error.to_string());
    let mut command = sim::under(test.machine, &arguments.kfdtest);
    command.arg(format!("--gtest_filter={}", test.name)).env("LD_LIBRARY_PATH", library);
    command.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
    let mut child = command.spawn().map_err(|error| format!("kfd-sim: {error}"))?;
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if Instant::now() >= end {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(Outcome::TooLong);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = std::fs::read(log.path()).map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&said);
    Ok(if said.contains("[  FAILED  ]") {
        Outcome::Failed
    } else if said.contains("[  PASSED  ] 1 test") {
        Outcome::Passed
    } else if said.contains("[  PASSED  ] 0 tests") {
        Outcome::NotRun
    } else {
        Outcome::Failed
    })
}

/// Runs all tests and prints a line for each; the names that pass somewhere and not over the last library.
fn compare(arguments: &Arguments) -> Result<Vec<&'static str>, String> {
    let mut worse = Vec::new();
    let mut passed = vec![0; arguments.library.len()];
    let wanted = |test: &Test<'_>| (arguments.shaders || !test.shader) && test.name.contains(&arguments.only);
    let list: Vec<Test<'_>> = tests().filter(wanted).collect();
    for (number, test) in list.iter().enumerate() {
        let outcomes = arguments.library.iter().map(|library| run(arguments, library, test));
        let outcomes = outcomes.collect::<Result<Vec<Outcome>, String>>()?;
        let words: Vec<String> = outcomes.iter().map(|outcome| format!("{:9}", outcome.word())).collect();
        println!("{:3}/{} {} {}", number + 1, list.len(), words.join(" "), test.name);
        for (count, outcome) in passed.iter_mut().zip(&outcomes) {
            *count += usize::from(*outcome == Outcome::Passed);
        }
        if outcomes.last() != Some(&Outcome::Passed) && outcomes.contains(&Outcome::Passed) {
            worse.push(test.name);
        }
    }
    for (library, count) in arguments.library.iter().zip(passed) {
        println!("{count} of {} pass over {}", list.len(), library.display());
    }
    Ok(worse)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(reason) = sim::unavailable() {
        eprintln!("kfdtest: nothing can be run under kfd-sim here: {reason}");
        return ExitCode::from(2);
    }
    match compare(&arguments) {
        Ok(worse) if worse.is_empty() => ExitCode::SUCCESS,
        Ok(worse) => {
            eprintln!("kfdtest: pass elsewhere, not over the last library: {}", worse.join(", "));
            ExitCode::FAILURE
        }
        Err(reason) => {
            eprintln!("kfdtest: {reason}");
            ExitCode::from(2)
        }
    }
}
