//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Compares our libhsakmt.so.1 with another one: same C program, same run, no GPU needed.
///
/// Builds this workspace's library and kfd-sim, builds one small C program on each of the two libraries, runs both
/// under kfd-sim on one core and lets them work in turns. Prints for each row what a call costs with either library,
/// in nanoseconds of CPU time (median of the rounds), and the ratio theirs / ours with the range in which 8 of 10
/// rounds lie.
#[derive(Parser, Debug)]
#[command(name = "compare", version, after_long_help = AFTER)]
pub(super) struct Arguments {
    /// A few short rounds, and no row with 100,000 objects: about a quarter of a minute.
    #[arg(long)]
    pub(super) quick: bool,

    /// Only these rows, or all that begin so; a comma list. See below for the names.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) rows: Vec<String>,

    /// Write the results as JSON to this file; - for standard output, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// Fail unless each row named in this JSON file ({"hit-16": 2.0, ...}) reaches its value.
    #[arg(long, value_name = "FILE")]
    pub(super) gate: Option<PathBuf>,

    /// Fail unless this row reaches this value; may be given again.
    #[arg(long, value_name = "ROW=VALUE")]
    pub(super) require: Vec<String>,

    /// The other library: a prefix with include/ and lib/. Left out: Debian's.
    #[arg(long, value_name = "PREFIX")]
    pub(super) theirs: Option<PathBuf>,

    /// Our library, as `std-shim/install --prefix PREFIX` made it. Left out: it is installed into the target folder.
    #[arg(long, value_name = "PREFIX")]
    pub(super) ours: Option<PathBuf>,

    /// The simulator to run under. Left out: it is built.
    #[arg(long, value_name = "FILE")]
    pub(super) kfd_sim: Option<PathBuf>,

    /// The CPU to measure on. Left out: the last one allowed.
    #[arg(long, value_name = "N")]
    pub(super) cpu: Option<usize>,

    /// What `cargo bench` passes; means nothing here.
    #[arg(long, hide = true)]
    pub(super) bench: bool,
}

const AFTER: &str = "\
Rows (what a value of --gate or --require means depends on the row):
  hit-16 hit-1k hit-10k hit-100k   a query inside one of so many VRAM buffers          ratio at least
  hit-1k-userptrs-1k  -10k         the same on 1,000 buffers beside so many userptrs   ratio at least
  miss-userptrs-10k                a query that finds nothing, among 10,000 userptrs   ratio at least
  same-8-of-10k                    the same 8 buffers again and again, 10,000 alive    ratio at least
  data-16 -1k -10k -100k           hsaKmtSetMemoryUserData                             ratio at least
  threads-2                        throughput of 2 threads / that of 1                 ours at least
  tail-1k                          99.9 % of queries beside a busy writer, ns          ours at most

Access pattern: every object once in a random order, at a random place inside it, over and over. Answers are checked
once before, and used.

Examples:
  cargo run --release -p hsakmt-benches
  cargo run --release -p hsakmt-benches -- --quick --rows hit
  cargo run --release -p hsakmt-benches -- --json - --require hit-1k=3 --require tail-1k=300
  cargo run --release -p hsakmt-benches -- --theirs /tmp/before    (two versions of ours against each other)

Needs (Debian): apt-get install gcc libc6-dev binutils libhsakmt-dev libhsakmt1

`cargo bench -p hsakmt-benches` runs this program and then the parts by themselves, with criterion; those alone need
nothing but Rust:
  cargo bench -p hsakmt-benches --bench lookup
  cargo bench -p hsakmt-benches --bench edit

Exit code: 0 fine; 1 something failed, is missing here, or a required value was missed; 2 usage.";
