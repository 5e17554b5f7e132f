//! What each write verb costs without the device, by how many objects there are.
//!
//! In: the simulated machine in the process, with 16 to 100,000 buffers. Out: a table of medians, in nanoseconds a call:
//! deciding, the ledger, copying one path of the tree, publishing and reclaiming. The simulator says how long it was busy
//! and that time is taken away; its own readings of the clock (two for each call to the device) stay in, and the time
//! that `set user data` takes has none. A linear step anywhere would show as a growth of thousands: `--most-growth` is
//! the gate.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets};
use fastrand::Rng;
use hsakmt_core::error::Result;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::busy::Others;
use crate::spread::medians;
use crate::workload::{BUFFER, SIZES, Scene, USERPTR, allocate_only, random, userptr};

/// Prints what each write verb of the memory manager costs without the device, by how many objects there are.
#[derive(Debug, Parser)]
#[command(
    name = "verbs",
    version,
    after_long_help = "\
Examples:
  cargo run --release -p hsakmt-benches --bin verbs
  cargo run --release -p hsakmt-benches --bin verbs -- --json | jq '.verbs'

Exit code: 0 fine; 1 a verb grows too much, or the simulated machine failed; 2 wrong usage."
)]
struct Arguments {
    /// Fewer rounds: a few seconds.
    #[arg(long)]
    quick: bool,

    /// Fail if a verb costs more than this many times as much with 100,000 objects as with 16.
    #[arg(long, value_name = "TIMES")]
    most_growth: Option<f64>,

    /// JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// The verbs, in the order in which a round plays them.
const VERBS: [&str; 7] = ["unmap", "free", "allocate", "map", "set user data", "register", "deregister"];

/// Calls of a verb in a row: enough that reading the clock around them costs nothing, and no more than the smallest scene
/// has buffers.
const IN_A_ROW: usize = 16;

/// Host ranges that the workload does not register.
const HOST: usize = 0x2000_0000_0000;

/// The program: arguments in, exit code out.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match measure_all(if arguments.quick { 60 } else { 400 }) {
        Ok((costs, others)) => report(&arguments, &costs, &others),
        Err(error) => {
            eprintln!("verbs: the simulated machine failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Nanoseconds a call: for each verb, for each size.
type Costs = Vec<[f64; SIZES.len()]>;

fn measure_all(rounds: usize) -> Result<(Costs, Others)> {
    let mut others = Others::default();
    let progress = ProgressBar::new((rounds * SIZES.len()) as u64);
    let mut costs = vec![[0.0; SIZES.len()]; VERBS.len()];
    for (column, buffers) in SIZES.into_iter().enumerate() {
        let mut scene = Scene::new(buffers, 0)?;
        let mut random = random();
        let medians = medians(rounds, || {
            // Not in each round: it takes a few microseconds, and the caches with it.
            if progress.position().is_multiple_of(20) {
                others.look();
            }
            progress.inc(1);
            round(&mut scene, &mut random)
        })?;
        for (costs, median) in costs.iter_mut().zip(medians) {
            costs[column] = median;
        }
    }
    progress.finish_and_clear();
    Ok((costs, others))
}

/// Every verb a few times, on objects from all over; leaves as many objects as there were.
fn round(scene: &mut Scene, random: &mut Rng) -> Result<[f64; VERBS.len()]> {
    let count = scene.buffers.len();
    // Different ones: those that were picked move to the front.
    for position in 0..IN_A_ROW {
        let other = position + random.usize(..count - position);
        scene.buffers.swap(position, other);
    }
    let host: Vec<usize> = (0..IN_A_ROW).map(|_| HOST + random.usize(..1 << 30) * USERPTR).collect();
    let picked = scene.buffers[..IN_A_ROW].to_vec();
    let unmap = without_device(scene, &picked, |scene, address| scene.manager.unmap(address))?;
    let free = without_device(scene, &picked, |scene, address| scene.manager.free(address))?;
    let mut fresh = Vec::with_capacity(IN_A_ROW);
    let allocate = without_device(scene, &picked, |scene, _| {
        fresh.push(allocate_only(&mut scene.manager)?);
        Ok(())
    })?;
    scene.buffers[..IN_A_ROW].copy_from_slice(&fresh);
    let map = without_device(scene, &fresh, |scene, address| scene.manager.map(address, BUFFER).map(drop))?;
    let elsewhere: Vec<usize> = (0..IN_A_ROW).map(|_| scene.buffers[random.usize(..count)]).collect();
    let set = without_device(scene, &elsewhere, |scene, address| scene.manager.set_user_data(address, address))?;
    let register = without_device(scene, &host, |scene, address| scene.manager.register(userptr(address)))?;
    let deregister = without_device(scene, &host, |scene, address| scene.manager.deregister(address))?;
    Ok([unmap, free, allocate, map, set, register, deregister])
}

/// Nanoseconds a call, the device's time not counted.
fn without_device(
    scene: &mut Scene,
    addresses: &[usize],
    mut verb: impl FnMut(&mut Scene, usize) -> Result<()>,
) -> Result<f64> {
    let inside = scene.manager.driver().time_inside();
    let begin = Instant::now();
    for address in addresses {
        verb(scene, *address)?;
    }
    let took = begin.elapsed();
    let device = scene.manager.driver().time_inside() - inside;
    Ok(took.saturating_sub(device).as_nanos() as f64 / addresses.len() as f64)
}

/// Prints, and judges.
fn report(arguments: &Arguments, costs: &Costs, others: &Others) -> ExitCode {
    let growth = |row: &[f64; SIZES.len()]| row[SIZES.len() - 1] / row[0].max(1.0);
    if arguments.json {
        let verbs: Vec<Value> = VERBS.iter().zip(costs).map(|(verb, row)| json!({"verb": verb, "ns": row})).collect();
        println!("{}", json!({"objects": SIZES, "others_running": others.mean(), "verbs": verbs}));
    } else {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let sizes = SIZES.iter().map(|size| format!("{size} objects"));
        table.set_header(["verb, ns a call".to_owned()].into_iter().chain(sizes).chain(["growth".to_owned()]));
        for (verb, row) in VERBS.iter().zip(costs) {
            let cells = row.iter().map(|ns| format!("{ns:.0}")).chain([format!("{:.1}", growth(row))]);
            table.add_row([(*verb).to_owned()].into_iter().chain(cells));
        }
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        println!("{table}");
        if let Some(busy) = others.note() {
            println!("{busy}: times may be too long.");
        }
    }
    let most = arguments.most_growth.unwrap_or(f64::INFINITY);
    let bad: Vec<_> = VERBS.iter().zip(costs).filter(|(_, row)| growth(row) > most).collect();
    for (verb, row) in &bad {
        eprintln!(
            "verbs: {verb} costs {:.1} times as much with the most objects as with the fewest, more than {most}",
            growth(row)
        );
    }
    if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
