//! What each write verb costs without the device: see `hsakmt_benches::verbs`.

fn main() -> std::process::ExitCode {
    hsakmt_benches::verbs::main()
}
