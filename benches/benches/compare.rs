//! Our C interface against another `libhsakmt.so.1`: see [`hsakmt_benches::compare`].

fn main() -> std::process::ExitCode {
    hsakmt_benches::compare::main()
}
