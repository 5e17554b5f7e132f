//! What entering costs: the same tree walked without any synchronisation, in a session, in one shot, through the C entry;
//! and sixteen look-ups one by one and side by side.
//!
//! In: the process's context on the simulated machine, with 16 to 100,000 buffers. Out: a table of medians, the ways in
//! turn on the same tree, each look-up of another object in a random order and its answer used. `--gate` holds them
//! against what synchronisation may cost at most.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets};
use hsakmt::ctypes::HsaPointerInfo;
use hsakmt_core::error::Result;
use hsakmt_core::info::PointerInfo;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::busy::Others;
use crate::spread::medians;
use crate::workload::{OpenContext, SIZES, Walk, c_query};

/// Prints what a look-up costs by how it is entered, against the walk alone.
#[derive(Debug, Parser)]
#[command(
    name = "floor",
    version,
    after_long_help = "\
Examples:
  cargo run --release -p hsakmt-benches --bin floor
  cargo run --release -p hsakmt-benches --bin floor -- --gate

Exit code: 0 fine; 1 a gate was missed, or the simulated machine failed; 2 wrong usage."
)]
struct Arguments {
    /// Fewer rounds: a few seconds.
    #[arg(long)]
    quick: bool,

    /// Fail unless a session is at most 1.1 times the walk plus 1 ns, the C entry at most 1.25 times plus 3 ns, and sixteen at
    /// once in 100,000 objects at least 1.25 times as fast as one by one. Times are noisy: where other work is done, expect
    /// misses.
    #[arg(long)]
    gate: bool,

    /// JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// Ways to look up, in the order of a round.
const WAYS: [&str; 6] = ["walk alone", "session", "one shot", "C entry", "16 one by one", "16 at once"];

/// Look-ups of a way in a row; a multiple of [`MANY`].
const IN_A_ROW: usize = 4_096;

/// How many at once.
const MANY: usize = 16;

/// Nanoseconds a look-up: for each way, for each size.
type Costs = [[f64; SIZES.len()]; WAYS.len()];

/// The program: arguments in, exit code out.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match measure_all(if arguments.quick { 60 } else { 400 }) {
        Ok((costs, others)) => report(&arguments, &costs, &others),
        Err(error) => {
            eprintln!("floor: the simulated machine failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(rounds: usize) -> Result<(Costs, Others)> {
    let mut others = Others::default();
    let progress = ProgressBar::new((rounds * SIZES.len()) as u64);
    let mut costs = [[0.0; SIZES.len()]; WAYS.len()];
    for (column, buffers) in SIZES.into_iter().enumerate() {
        let open = OpenContext::new(buffers, 0)?;
        let mut walk = Walk::new(&open.addresses.hits);
        let medians = medians(rounds, || {
            // Not in each round: it takes a few microseconds, and the caches with it.
            if progress.position().is_multiple_of(20) {
                others.look();
            }
            progress.inc(1);
            round(&open, &mut walk)
        })?;
        for (costs, median) in costs.iter_mut().zip(medians) {
            costs[column] = median;
        }
    }
    progress.finish_and_clear();
    Ok((costs, others))
}

/// What a caller does with an answer: looks at it.
#[inline(always)]
fn used(info: &PointerInfo<'_>) -> u64 {
    black_box(info.gpu_address.wrapping_add(info.size).wrapping_add(info.mapped.len() as u64))
}

/// Every way once.
fn round(open: &OpenContext, walk: &mut Walk<'_>) -> Result<[f64; WAYS.len()]> {
    let mut reader = open.context.reader().ok_or(hsakmt_core::error::Error::NoMemory)?;
    let mut session = reader.session();
    let snapshot = session.snapshot()?;
    let alone = timed(|| used(&black_box(&snapshot).query_pointer(walk.step())));
    let in_session = timed(|| session.query_pointer(walk.step()).map_or(0, |info| used(&info)));
    let one_by_one = timed(|| session.query_pointer(walk.step()).map_or(0, |info| used(&info)));
    let mut asked = [0; MANY];
    let at_once = timed_by(MANY, || {
        asked.fill_with(|| walk.step());
        let mut found = [PointerInfo::UNKNOWN; MANY];
        let done = session.query_many(&asked, &mut found);
        for info in &found {
            used(info);
        }
        done.is_ok()
    });
    drop(session);
    let one_shot = timed(|| open.context.query_pointer(walk.step(), |info| used(&info)));
    let c_entry = c_entries(walk);
    Ok([alone, in_session, one_shot, c_entry, one_by_one, at_once])
}

/// The packed struct stands where it does not straddle two pages, which would cost 25 ns to store.
fn c_entries(walk: &mut Walk<'_>) -> f64 {
    #[repr(align(128))]
    struct Aligned(MaybeUninit<HsaPointerInfo>);
    let mut info = Aligned(MaybeUninit::uninit());
    timed(|| black_box((c_query(walk.step(), &mut info.0), &mut info)).0)
}

/// Nanoseconds a call.
fn timed<T>(call: impl FnMut() -> T) -> f64 {
    timed_by(1, call)
}

/// Nanoseconds a look-up of a call that makes several.
fn timed_by<T>(look_ups: usize, mut call: impl FnMut() -> T) -> f64 {
    let begin = Instant::now();
    for _ in 0..IN_A_ROW / look_ups {
        black_box(call());
    }
    begin.elapsed().as_nanos() as f64 / IN_A_ROW as f64
}

/// Prints, and judges.
fn report(arguments: &Arguments, costs: &Costs, others: &Others) -> ExitCode {
    if arguments.json {
        let ways: Vec<Value> = WAYS.iter().zip(costs).map(|(way, row)| json!({"way": way, "ns": row})).collect();
        println!("{}", json!({"objects": SIZES, "others_running": others.mean(), "ways": ways}));
    } else {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let sizes = SIZES.iter().map(|size| format!("{size} objects"));
        table.set_header(["ns a look-up".to_owned()].into_iter().chain(sizes));
        for (way, row) in WAYS.iter().zip(costs) {
            let cells = row.iter().zip(&costs[0]).map(|(ns, walk)| format!("{ns:.1} ({:.2})", ns / walk));
            table.add_row([(*way).to_owned()].into_iter().chain(cells));
        }
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        println!("{table}\nin brackets: times the walk alone");
        if let Some(busy) = others.note() {
            println!("{busy}: times may be too long.");
        }
    }
    let missed = if arguments.gate { missed(costs) } else { Vec::new() };
    missed.iter().for_each(|what| eprintln!("floor: {what}"));
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn missed(costs: &Costs) -> Vec<String> {
    let [walk, session, _, c_entry, one_by_one, at_once] = costs;
    let mut missed = Vec::new();
    let mut most = |what: &str, size: usize, ns: f64, most: f64| {
        if ns > most {
            missed.push(format!("{what}, {size} objects: {ns:.1} ns, at most {most:.1} were allowed"));
        }
    };
    for (column, size) in SIZES.into_iter().enumerate() {
        most("a session", size, session[column], 1.1 * walk[column] + 1.0);
        most("the C entry", size, c_entry[column], 1.25 * walk[column] + 3.0);
    }
    let last = SIZES.len() - 1;
    most("16 at once", SIZES[last], at_once[last], one_by_one[last] / 1.25);
    missed
}
