//! The program for a small machine, `tests/bare-metal`: built, run in QEMU, and its sizes held against committed ones.
//!
//! In: Debian's Rust with its sources, an ARM linker, QEMU. Out: what the program printed, with an allocator and
//! without; a table of sizes; a failure when an answer was wrong, when a size moved by more than
//! [`TOLERANCE`](crate::TOLERANCE), or when the program with a planted fault did *not* fail. Without the tools `SKIP` is
//! said aloud.

mod board;
mod code;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::expected::Numbers;
use crate::{Gate, package};
use board::{Board, Run};
use code::Program;

/// Runs the core on a simulated Cortex-M4 and compares its sizes with the expected ones.
///
/// Builds tests/bare-metal three times (with an allocator, without, and with a planted fault that must be noticed) and
/// runs each in QEMU.
#[derive(Parser, Debug)]
#[command(name = "bare-metal", version, after_long_help = AFTER)]
struct Arguments {
    /// Write the sizes down as the expected ones. Commit them with the change that moved them, and say why.
    #[arg(long)]
    bless: bool,

    /// The file with the expected sizes.
    #[arg(long, value_name = "FILE", default_value_os_t = program().join("expected.json"))]
    expected: PathBuf,
}

const AFTER: &str = "\
Needs (Debian): apt-get install rustc-web cargo-web rust-web-src binutils-arm-none-eabi qemu-system-arm

Exit code: 0 right and as expected, or the tools are missing (SKIP is printed); 1 otherwise; 2 usage.";

/// Numbers that depend on when interrupts come, which nobody needs to bless.
const NOT_SIZES: [&str; 6] =
    ["interrupts", "asked-by-interrupts", "interrupts-during-writes", "saw-before", "saw-after", "writes"];

/// The program: arguments in, exit code out.
pub fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("bare-metal: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let board = match Board::find(program()) {
        Ok(board) => board,
        Err(missing) => {
            println!("SKIP bare-metal: {missing}");
            return Ok(true);
        }
    };
    let mut sizes = Numbers::new();
    for (variant, features) in [("without-alloc", ""), ("with-alloc", "alloc")] {
        let run = board.build_and_run(features)?;
        println!("== {variant}\n{}", run.said.trim_end());
        if !run.succeeded {
            return Err(format!("{variant}: the program says that something was wrong"));
        }
        let printed = numbers(&run).filter(|(name, _)| !NOT_SIZES.contains(name));
        sizes.extend(printed.map(|(name, number)| (format!("{variant}/{name}"), number)));
        let program = Program::read(&run.program)?;
        sizes.extend(program.sections()?.map(|(name, bytes)| (format!("{variant}/{name}"), bytes)));
        let query = program.reachable("measured_query_pointer")?;
        println!("query-pointer is made of: {}", query.parts.join(", "));
        sizes.insert(format!("{variant}/query-pointer-text"), query.bytes);
    }
    let fault = board.build_and_run("planted-fault")?;
    if !noticed(&fault) {
        return Err(format!("the planted fault was not noticed:\n{}", fault.said));
    }
    println!("== planted fault: noticed");
    let gate =
        Gate { what: "bytes", skip: "bare-metal-sizes", bless: "cargo run -p hsakmt-perf --bin bare-metal -- --bless" };
    gate.settle(&arguments.expected, board.compiler()?, sizes, arguments.bless)
}

/// Whether a program found an answer wrong, by its address; not that it was short of interrupts, or could not write.
fn noticed(run: &Run) -> bool {
    !run.succeeded && run.said.lines().any(|line| line.starts_with("WRONG 0x"))
}

/// The `name number` lines that a program printed.
fn numbers(run: &Run) -> impl Iterator<Item = (&str, f64)> {
    run.said.lines().filter_map(|line| {
        let (name, number) = line.split_once(' ')?;
        Some((name, number.trim().parse().ok()?))
    })
}

fn program() -> PathBuf {
    package().join("../tests/bare-metal")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expected::Expected;

    #[test]
    fn the_committed_file_can_be_read() {
        let expected = Expected::read(&program().join("expected.json")).unwrap();
        for variant in ["without-alloc", "with-alloc"] {
            let bytes = expected.numbers.get(&format!("{variant}/query-pointer-text"));
            assert!(bytes.is_some_and(|bytes| *bytes > 100.0), "{expected:?}");
        }
    }

    #[test]
    fn only_a_wrong_answer_is_the_planted_fault() {
        let run = |said: &str, succeeded| Run { said: said.to_owned(), succeeded, program: PathBuf::new() };
        assert!(noticed(&run("writes 12\nWRONG 0x1000 is Unknown\n", false)));
        assert!(!noticed(&run("WRONG 0x1000 is Unknown\n", true)));
        assert!(!noticed(&run("WRONG too few interrupts in the middle of writes\n", false)));
        assert!(!noticed(&run("", false)));
    }

    #[test]
    fn lines_of_a_name_and_a_number_are_numbers() {
        let said = "stack-bytes 4120\nWRONG 0x1000 is Unknown\nbytes-per-object-in-order 48.8\n".to_owned();
        let run = Run { said, succeeded: true, program: PathBuf::new() };
        assert_eq!(numbers(&run).collect::<Vec<_>>(), [("stack-bytes", 4120.0), ("bytes-per-object-in-order", 48.8)]);
    }
}
