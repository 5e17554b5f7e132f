//! What a program of AMD's ROCr pays: see `hsakmt_benches::rocr`.

fn main() -> std::process::ExitCode {
    hsakmt_benches::rocr::main()
}
