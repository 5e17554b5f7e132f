//! The command line, and the help that teaches it.

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use hsakmt_kfd::sim::description::Machine;

const ABOUT: &str = "Looks at this machine's GPU nodes, and shows what pointer queries answer";

const LONG_ABOUT: &str = "\
Looks at this machine's GPU nodes, and shows what pointer queries answer.

AMD's kernel driver for GPU compute is /dev/kfd. A program that uses it keeps books on its own memory, so that any
address can be asked: which allocation is this in, on which GPU, who may use it? This tool makes such memory, asks, and
shows the answers (`demo`), and shows what the kernel says of the machine (`nodes`).

Without /dev/kfd a simulated machine inside this process takes its place, and the first line says so: nothing here needs
a GPU. `demo` also takes it where /dev/kfd has no GPU.";

const AFTER: &str = "\
Examples:
  hsakmt demo                        make memory of every kind, ask about it, measure
  hsakmt demo --json | jq '.[0]'     the same for programs
  hsakmt nodes                       CPUs and GPUs, their memory, caches and links
  hsakmt nodes --simulated=gfx942    how a machine with eight MI300X would look

Exit codes: 0 fine, 1 failed, 2 wrong usage.
Environment: NO_COLOR=1 no colours; HSAKMT_DEBUG_LEVEL=7 the library tells what it does; HSA_USE_SVM=0 registered host
memory is tracked as objects also where the kernel could share all of it.";

/// The whole line.
#[derive(Debug, Parser)]
#[command(name = "hsakmt", version, about = ABOUT, long_about = LONG_ABOUT, after_long_help = AFTER)]
#[command(after_help = "`hsakmt --help` says more, with examples.")]
#[command(max_term_width = 120, arg_required_else_help = true, subcommand_required = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make memory of every kind, query addresses in and around it, measure queries per second
    #[command(long_about = DEMO, after_long_help = DEMO_AFTER)]
    Demo(Options),
    /// Show the nodes: CPUs and GPUs, memory banks, caches, links
    #[command(long_about = NODES, after_long_help = NODES_AFTER)]
    Nodes(Options),
}

/// What both commands take.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Print JSON on stdout; all else goes to stderr
    #[arg(long)]
    pub(super) json: bool,

    /// Use a simulated machine even if there is a /dev/kfd
    #[arg(long, value_name = "MACHINE", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_MACHINE)]
    #[arg(value_parser = PossibleValuesParser::new(Machine::PRESETS.iter().map(|(name, _)| *name)))]
    pub(super) simulated: Option<String>,
}

/// The machine that is simulated unless another is asked for.
pub(super) const DEFAULT_MACHINE: &str = "gfx90a";

const DEMO: &str = "\
Makes memory of every kind and asks about addresses in and around it.

Objects: VRAM that only the GPU sees, VRAM the host sees too, host memory by the kernel (GTT), paged host memory, an AQL
ring, an address without memory, and registered host memory (\"userptr\"): unaligned, one range inside another, and for
given nodes. Of each it asks the first byte, one inside, the last, and one past the end; then addresses that belong to
nothing. At the end it makes 10,000 objects and measures queries per second.

Columns: the address asked; what it is in; that object's node, where GPUs and the CPU see it, its size and HsaMemFlags; the
nodes it is registered to (reg) and mapped on (map); the word that the program put beside it (user).

Everything is given back before it ends.";

const DEMO_AFTER: &str = "\
JSON: an array; each element has `query`, `address`, `status` and the fields of HsaPointerInfo by their C names. Type is
a name (HSA_POINTER_ALLOCATED ...), addresses are strings (\"0x7f...\"), a null pointer is null.

Examples:
  hsakmt demo
  hsakmt demo --json | jq -r '.[] | select(.Type == \"HSA_POINTER_UNKNOWN\") | .query'
  hsakmt demo --simulated=gfx942";

const NODES: &str = "\
Shows the nodes as the kernel and this library report them: CPUs and GPUs, their memory banks and address ranges, caches,
and the links between them.";

const NODES_AFTER: &str = "\
JSON: an array, one element per node: `node`, `gfx`, the fields of HsaNodeProperties by their C names, and the arrays
MemoryProperties, CacheProperties and IoLinkProperties.

Examples:
  hsakmt nodes
  hsakmt nodes --json | jq -r '.[] | select(.KFDGpuID != 0) | \"\\(.node) \\(.gfx) \\(.LocalMemSize)\"'
  hsakmt nodes --simulated=apu";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        assert!(Machine::PRESETS.iter().any(|(name, _)| *name == DEFAULT_MACHINE));
    }

    #[test]
    fn a_simulated_machine_may_be_named() {
        let options = |line: &[&str]| match Cli::try_parse_from(line).unwrap().command {
            Command::Demo(options) | Command::Nodes(options) => options,
        };
        assert_eq!(options(&["hsakmt", "demo"]).simulated, None);
        assert_eq!(options(&["hsakmt", "demo", "--simulated"]).simulated.as_deref(), Some(DEFAULT_MACHINE));
        assert_eq!(options(&["hsakmt", "nodes", "--simulated=apu"]).simulated.as_deref(), Some("apu"));
        assert_eq!(Cli::try_parse_from(["hsakmt", "nodes", "--simulated=x"]).unwrap_err().exit_code(), 2);
    }
}
