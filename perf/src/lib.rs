//! How many instructions a look-up is, held against committed expectations.
//!
//! In: `benches/lookups.rs`, run under callgrind, and `expected.json`. Out: a table, and a failure that names each count
//! that moved by more than [`TOLERANCE`] and says what to do about it. Counts do not depend on how busy or how fast a
//! machine is, but on the compiler: they are compared only under the version that made the expectations, and otherwise
//! `SKIP` is said aloud.
//!
//! | what | command |
//! |---|---|
//! | count and compare | `cargo bench -p hsakmt-perf` |
//! | run `tests/bare-metal` and compare its sizes | `cargo run -p hsakmt-perf --bin bare-metal` |
//! | count, and write what was counted down as expected | `cargo run -p hsakmt-perf -- --bless` |

mod bare;
mod compare;
mod count;
mod expected;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use compare::Comparison;
use expected::{Expected, Numbers};

pub use bare::main as bare_metal;

/// A count may move by this share before it must be looked at.
pub const TOLERANCE: f64 = 0.02;

/// Counts the instructions of a look-up and compares them with the expected numbers.
///
/// Runs benches/lookups.rs under callgrind (valgrind and iai-callgrind-runner must be installed) and prints for each
/// way of looking up the instructions of one, without what went before.
#[derive(Parser, Debug)]
#[command(name = "counts", version, after_long_help = AFTER)]
struct Arguments {
    /// Write the counts down as the expected ones. Commit them with the change that moved them, and say why.
    #[arg(long)]
    bless: bool,

    /// The file with the expected numbers.
    #[arg(long, value_name = "FILE", default_value_os_t = package().join("expected.json"))]
    expected: PathBuf,

    /// What `cargo bench` passes; means nothing here.
    #[arg(long, hide = true)]
    bench: bool,
}

const AFTER: &str = "\
Examples:
  cargo bench -p hsakmt-perf              compare; fails if a count moved by more than 2 %
  cargo run -p hsakmt-perf -- --bless     a change was meant: make its counts the expected ones

Needs: apt-get install valgrind, and iai-callgrind-runner at the version of the crate (the message says how).

Exit code: 0 as expected, or expectations of another compiler (SKIP is printed); 1 otherwise; 2 usage.";

/// The program: arguments in, exit code out.
pub fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("counts: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is as expected.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let gate =
        Gate { what: "instructions of one", skip: "instruction-counts", bless: "cargo run -p hsakmt-perf -- --bless" };
    gate.settle(&arguments.expected, count::compiler()?, count::count()?, arguments.bless)
}

/// What becomes of numbers once they are counted.
struct Gate {
    what: &'static str,
    /// The name of what is skipped under another compiler.
    skip: &'static str,
    /// How to make the counted numbers the expected ones.
    bless: &'static str,
}

impl Gate {
    /// Writes the numbers down as expected, or compares them: whether all is as expected.
    fn settle(&self, file: &Path, compiler: String, numbers: Numbers, bless: bool) -> Result<bool, String> {
        if bless {
            let blessed = Expected { compiler, numbers };
            let before = Expected::read(file).unwrap_or_default();
            print!("{}", Comparison::new(&before.numbers, &blessed.numbers).table(self.what));
            blessed.write(file)?;
            println!("written to {}: commit it together with the reason", file.display());
            return Ok(true);
        }
        let expected = Expected::read(file)?;
        let comparison = Comparison::new(&expected.numbers, &numbers);
        print!("{}", comparison.table(self.what));
        if expected.compiler != compiler {
            println!("SKIP {}: expected ones are of {}, this is {compiler}", self.skip, expected.compiler);
            return Ok(true);
        }
        let moved = comparison.moved();
        if moved.is_empty() {
            return Ok(true);
        }
        for line in moved {
            println!("CHANGED {line}");
        }
        println!("if this is meant: {}, and say why in the same commit", self.bless);
        Ok(false)
    }
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
