//! Queries per second: on 10,000 objects, at random addresses, one thread and then all.

use std::hint::black_box;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use hsakmt::Context;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::NodeId;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::channel::Channel;
use super::failure::Failure;
use super::output;

/// Objects to look among.
const OBJECTS: usize = 10_000;

/// Bytes of each.
const SIZE: usize = 4096;

/// How long each measurement takes.
const TIME: Duration = Duration::from_millis(250);

/// Time between two looks at what else runs.
const LOOK: Duration = Duration::from_millis(25);

/// Threads of others, on average, from which on the machine counts as busy.
const BUSY: f64 = 0.5;

/// Queries between two looks at the clock.
const BATCH: u64 = 4096;

/// Makes the objects, measures, ends them; the result is the line to show.
pub(super) fn run(channel: &Channel) -> Result<String, Failure> {
    let (node, flags, kind) = match channel.gpus().find(|(_, node)| !node.memory.is_empty() && node.is_discrete()) {
        Some((gpu, _)) => (gpu, MemFlags::NON_PAGED, "VRAM"),
        None => (NodeId(0), MemFlags::HOST_ACCESS, "host memory"),
    };
    let objects = Many::make(channel.context, node, flags)?;
    let all = thread::available_parallelism().map_or(1, NonZero::get);
    let mut others = Vec::new();
    let alone = rate(&objects, 1, &mut others);
    let mut line = format!("{OBJECTS} {kind} objects, random addresses: 1 thread {}", rate_text(alone, 1));
    if all > 1 {
        line.push_str(&format!(", {all} threads {}", rate_text(rate(&objects, all, &mut others), all)));
    }
    if cfg!(debug_assertions) {
        line.push_str(" (not a release build)");
    }
    line.push_str(&busy_text(&others));
    Ok(line)
}

/// "31.2 million queries/s (32 ns each)"
fn rate_text(per_second: f64, threads: usize) -> String {
    let each = 1e9 * threads as f64 / per_second;
    format!("{:.1} million queries/s ({each:.1} ns each)", per_second / 1e6)
}

/// What to add if others wanted to run meanwhile.
fn busy_text(others: &[f64]) -> String {
    let load = others.iter().sum::<f64>() / others.len().max(1) as f64;
    if load <= BUSY {
        return String::new();
    }
    format!("; the machine was busy ({load:.1} threads of others wanted to run), an idle one is faster")
}

/// How many threads want to run besides the one that reads and `ours`, in the text of /proc/loadavg.
fn others_in(text: &str, ours: usize) -> Option<f64> {
    let (running, _) = text.split_whitespace().nth(3)?.split_once('/')?;
    running.parse().ok().map(|running: usize| running.saturating_sub(1 + ours) as f64)
}

/// Queries per second of `threads` threads together; `others` gets how many other threads wanted to run, again and again.
fn rate(objects: &Many, threads: usize, others: &mut Vec<f64>) -> f64 {
    thread::scope(|scope| {
        let seeds = (1..=threads as u64).map(|thread| thread.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let running: Vec<_> = seeds.map(|seed| scope.spawn(move || objects.ask_for(TIME, seed))).collect();
        // A look before the end: then all of ours run.
        for _ in 1..TIME.as_millis() / LOOK.as_millis() {
            thread::sleep(LOOK);
            others.extend(others_in(&std::fs::read_to_string("/proc/loadavg").unwrap_or_default(), threads));
        }
        running.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
    })
}

/// The objects; ended when dropped.
struct Many {
    context: Context,
    starts: Vec<usize>,
}

impl Many {
    fn make(context: Context, node: NodeId, flags: MemFlags) -> Result<Many, Failure> {
        let bar = ProgressBar::with_draw_target(
            Some(OBJECTS as u64),
            if output::is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() },
        );
        if let Ok(style) = ProgressStyle::with_template("making objects {bar:40} {pos}/{len}") {
            bar.set_style(style);
        }
        let mut many = Many { context, starts: Vec::with_capacity(OBJECTS) };
        for made in 0..OBJECTS {
            let start = context.allocate(node, SIZE, flags);
            let what = || format!("hsaKmtAllocMemory of object {} of {OBJECTS}", made + 1);
            many.starts.push(start.map_err(|error| Failure::call(what(), error))?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(many)
    }

    /// Asks for about `time`; queries per second.
    fn ask_for(&self, time: Duration, mut random: u64) -> f64 {
        let begin = Instant::now();
        let mut asked = 0u64;
        while begin.elapsed() < time {
            for _ in 0..BATCH {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let start = self.starts.get(random as usize % self.starts.len()).copied().unwrap_or(0);
                let _ = black_box(self.context.query_pointer(start + (random >> 52) as usize, |info| info.size));
            }
            asked += BATCH;
        }
        asked as f64 / begin.elapsed().as_secs_f64()
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        for start in &self.starts {
            // What the library will not end ends with the channel.
            let _ = self.context.free(*start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_noted() {
        assert_eq!(others_in("0.20 0.18 0.12 5/1024 11206\n", 2), Some(2.0));
        assert_eq!(others_in("0.20 0.18 0.12 1/1024 11206\n", 2), Some(0.0), "ours had ended");
        assert_eq!(others_in("", 1), None);
        assert_eq!((busy_text(&[]), busy_text(&[0.0, 1.0])), (String::new(), String::new()));
        assert!(busy_text(&[1.0, 2.0]).contains("busy (1.5 threads"));
    }
}
