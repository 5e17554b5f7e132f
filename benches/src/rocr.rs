//! What a program of AMD's runtime pays for a pointer look-up and for a start, over Debian's libhsakmt and over ours.
//!
//! The same program runs over both in turn, each time as a new process under kfd-sim; who begins changes from round to
//! round. The runtime has a lock of its own around each look-up, which no libhsakmt can take away.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;

use crate::compare::programs::{build_kfd_sim, package, run, target_folder};
use crate::needs::{self, Need};
use crate::spread::Spread;

/// Measures hsa_amd_pointer_info and the start of the thunk over Debian's libhsakmt 5.2.3 and over ours.
///
/// Needs Debian's libhsa-runtime-dev and libhsakmt-dev. Exit code: 0; 1 if ours is the slower in a row; 2 if nothing could
/// be measured.
#[derive(Parser)]
struct Arguments {
    /// An installed libhsakmt of ours with the layout 5.2.3; built if left out
    #[arg(long, value_name = "PREFIX")]
    ours: Option<PathBuf>,
    /// How often each program runs over each library
    #[arg(long, default_value_t = 15)]
    rounds: usize,
}

/// The rows, in the order in which the program prints them.
const ROWS: [(&str, &str); 3] = [
    ("pointers", "hsa_amd_pointer_info, 1,000 pool buffers"),
    ("pointers", "the same, and 1,000 locked ranges beside them"),
    ("start", "open, acquire and first query"),
];

/// Runs it.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match measure(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("rocr: {reason}");
            ExitCode::from(2)
        }
    }
}

/// Prints the table; whether ours is never the slower.
fn measure(arguments: &Arguments) -> Result<bool, String> {
    const RUNTIME: &str = "apt-get install libhsa-runtime-dev";
    const THEIRS: &str = "apt-get install libhsakmt-dev libhsakmt1";
    let mut needed = vec![
        Need::compiler(),
        Need::file("/usr/include/hsa/hsa.h", RUNTIME),
        Need::library("libhsa-runtime64.so", RUNTIME),
        Need::file("/usr/include/hsakmt.h", THEIRS),
        Need::library("libhsakmt.so", THEIRS),
    ];
    if arguments.ours.is_none() {
        needed.push(Need::binutils());
    }
    needs::check(needed)?;
    let folder = tempfile::tempdir().map_err(|error| format!("a folder for the program: {error}"))?;
    let program = folder.path().join("rocr");
    let mut cc = Command::new("cc");
    cc.arg("-O2").arg(package().join("rocr.c")).arg("-o").arg(&program).args(["-lhsa-runtime64", "-lhsakmt"]);
    run(&mut cc)?;
    let target = target_folder()?;
    let kfd_sim = build_kfd_sim(&target)?;
    let ours = arguments.ours.clone().map_or_else(|| install(&target), Ok)?.join("lib");
    let mut samples: [[Vec<f64>; 2]; 3] = Default::default();
    for round in 0..arguments.rounds.max(1) {
        for turn in [round % 2, 1 - round % 2] {
            let library = [Path::new(""), &ours][turn];
            let mut values = play(&kfd_sim, &program, library, "pointers")?;
            values.extend(play(&kfd_sim, &program, library, "start")?);
            for (row, value) in samples.iter_mut().zip(values) {
                row[turn].push(value);
            }
        }
    }
    println!("{:48} {:>12} {:>12} {:>7}", "ns, medians", "Debian's", "ours", "ratio");
    let mut never_slower = true;
    for ((_, name), [theirs, ours]) in ROWS.iter().zip(samples) {
        let middle = |values| Spread::of(values).map_or(f64::NAN, |spread: Spread| spread.median);
        let (theirs, ours) = (middle(theirs), middle(ours));
        println!("{name:48} {theirs:12.0} {ours:12.0} {:7.2}", theirs / ours);
        never_slower &= ours <= theirs;
    }
    Ok(never_slower)
}

/// Runs a part of the program over a library: what it printed.
fn play(kfd_sim: &Path, program: &Path, library: &Path, part: &str) -> Result<Vec<f64>, String> {
    let mut command = Command::new(kfd_sim);
    command.args(["--cpu", "0", "--"]).arg(program).arg(part).env("LD_LIBRARY_PATH", library);
    let said = run(&mut command)?;
    let values: Option<Vec<f64>> = said.split_whitespace().map(|word| word.parse().ok()).collect();
    values.filter(|values| !values.is_empty()).ok_or_else(|| format!("no number in {said:?}"))
}

fn install(target: &Path) -> Result<PathBuf, String> {
    let prefix = target.join("bench-prefix-5.2.3");
    let mut install = Command::new(package().join("../std-shim/install"));
    run(install.args(["--abi", "5.2.3", "--prefix"]).arg(&prefix).env("CARGO_TARGET_DIR", target))?;
    Ok(prefix)
}
