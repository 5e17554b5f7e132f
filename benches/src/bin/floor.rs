//! What entering a look-up costs: see `hsakmt_benches::floor`.

fn main() -> std::process::ExitCode {
    hsakmt_benches::floor::main()
}
