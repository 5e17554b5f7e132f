//! The command-line tool: [`main`].
//!
//! In: the command line. Out: a table or JSON on stdout, what is not data on stderr, and an exit code: 0 fine, 1 failed,
//! 2 wrong usage. What never happens: a panic because nobody reads the output, colours where `NO_COLOR` or a pipe says
//! no, a change that outlives the process.
//!
//! ```text
//! args -> channel (real or simulated) -+-> demo: objects -> answer (rows) -> measure
//!                                      +-> nodes
//!                                                 all text leaves through output
//! ```

mod answer;
mod args;
mod channel;
mod demo;
mod failure;
mod measure;
mod nodes;
mod objects;
mod output;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::Failure;

/// Runs the tool on the process's command line.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => {
            // Help, version, or what is wrong with the line; where nobody reads it there is nobody to tell.
            let _ = answer.print();
            return ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2));
        }
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(&format!("hsakmt: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    match &cli.command {
        Command::Demo(options) => demo::run(options),
        Command::Nodes(options) => nodes::run(options),
    }
}
