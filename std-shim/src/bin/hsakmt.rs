//! `hsakmt`: looks at this machine's GPU nodes, and shows what pointer queries answer. See `hsakmt --help`.

#[path = "../tool/mod.rs"]
mod tool;

fn main() -> std::process::ExitCode {
    tool::main()
}
