//! Counts the instructions of a look-up: see [`hsakmt_perf`].

fn main() -> std::process::ExitCode {
    hsakmt_perf::main()
}
