//! Runs `tests/bare-metal` in QEMU and compares its sizes: see [`hsakmt_perf`].

fn main() -> std::process::ExitCode {
    hsakmt_perf::bare_metal()
}
