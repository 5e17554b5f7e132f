//! Our C interface against another `libhsakmt.so.1`, in one run.
//!
//! In: two installed libraries, normally Debian's and the one of this workspace. Out: a table, JSON, and an exit code
//! that says whether stated minima were reached. One C program, `workload.c`, is built on each library and runs under
//! `kfd-sim`, so no GPU is needed; one parent asks the two children in turn, round by round, all on one core. A child
//! works on command only, so the two never compete, and whatever disturbs the machine disturbs both.
//! What never happens: a number from two runs in one row, or a ratio without both its sides.

mod arguments;
mod child;
mod gate;
mod measure;
pub(crate) mod programs;
mod report;
mod rows;

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use arguments::Arguments;
use child::{Child, Machine};
use gate::Gate;
use measure::{Effort, Measured};
use rows::Row;

use crate::busy::Others;

/// The program: arguments in, exit code out. 0 fine; 1 a minimum was missed or something failed; 2 usage.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(missed) if missed.is_empty() => ExitCode::SUCCESS,
        Ok(missed) => {
            eprint!("{missed}");
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("compare: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Measures and prints; returns the minima that were missed, a line each.
fn run(arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let rows = rows::chosen(&arguments.rows, arguments.quick)?;
    let gate = Gate::new(arguments.gate.as_deref(), &arguments.require)?;
    let cpus = child::cpus(arguments.cpu)?;
    programs::check(arguments)?;
    let progress = ProgressBar::new_spinner();
    progress.set_style(ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}")?);
    progress.enable_steady_tick(std::time::Duration::from_millis(250));
    let programs = programs::build(arguments, |step| progress.set_message(step.to_owned()))?;
    let machine = Machine { kfd_sim: programs.kfd_sim.clone(), cpus };
    let effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
    let mut measured = Vec::new();
    let mut others = Others::default();
    for group in rows::groups(&rows) {
        // No child is at work between groups.
        others.look();
        measured.extend(measure_group(group, &programs, &machine, effort, &progress)?);
    }
    progress.finish_and_clear();
    let said = report::Report::new(&programs, &machine, effort, &measured, &others);
    match &arguments.json {
        Some(path) if path.as_os_str() == "-" => println!("{}", said.json()?),
        Some(path) => {
            std::fs::write(path, said.json()?).map_err(|error| format!("{}: {error}", path.display()))?;
            print!("{}", said.table());
        }
        None => print!("{}", said.table()),
    }
    std::io::stdout().flush()?;
    Ok(missed(&gate, &measured))
}

/// The rows that ask the same objects: one pair of children.
fn measure_group(
    group: &[&'static Row],
    programs: &programs::Programs,
    machine: &Machine,
    effort: Effort,
    progress: &ProgressBar,
) -> Result<Vec<Measured>, Box<dyn Error>> {
    let Some(first) = group.first() else { return Ok(Vec::new()) };
    let start = |program: &programs::Program| {
        progress.set_message(format!("{}: {}", program.name, first.objects));
        Child::start(program, machine, first.objects)
    };
    let mut theirs = start(&programs.theirs)?;
    let mut ours = start(&programs.ours)?;
    let mut measured = Vec::new();
    for row in group {
        if row.needs_two_cpus() && machine.cpus[0] == machine.cpus[1] {
            progress.suspend(|| eprintln!("SKIP {}: it needs two CPUs", row.id));
            continue;
        }
        progress.set_message(row.what.to_owned());
        measured.push(measure::measure(row, &mut theirs, &mut ours, effort)?);
    }
    theirs.quit()?;
    ours.quit()?;
    Ok(measured)
}

fn missed(gate: &Gate, measured: &[Measured]) -> String {
    let mut text = String::new();
    for row in measured {
        if let Some(line) = gate.missed(row) {
            let _ = writeln!(text, "compare: {line}");
        }
    }
    for id in gate.names().filter(|id| !rows::ROWS.iter().any(|row| row.id == *id)) {
        let _ = writeln!(text, "compare: the gate names a row that does not exist: {id}");
    }
    text
}
