//! `kfd-sim -- PROGRAM ARGS`: runs any program as if the machine had AMD GPUs.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

use clap::Parser;
use hsakmt_core::node::GpuId;
use hsakmt_kfd::sim::description::Machine;
use hsakmt_kfd::sim::machine::{Faults, SvmMode, errno_from_name};
use hsakmt_kfd::sim::supervisor::{self, Config};
use hsakmt_kfd::sim::sysfs::Given;

/// What the tool's own errors end with.
const OWN_ERROR: u8 = 125;

/// Runs any program, unmodified, as if the machine had AMD GPUs.
///
/// The kernel driver KFD is simulated behind the program's system calls: /dev/kfd, the render nodes and the topology
/// in /sys appear, ioctls are answered with the kernel's own checks, buffers have real memory, queues run
/// copies, fills, barriers, waits, atomics and interrupts. Shaders are not executed: a dispatch ends its queue with an
/// error and one line on stderr.
#[derive(Parser, Debug)]
#[command(version, after_long_help = EXAMPLES)]
struct Arguments {
    /// A known machine: gfx90a (1 CPU node, 2 GPUs), gfx942 (8 GPUs), gfx1100, apu, none.
    #[arg(long, value_name = "NAME", default_value = "gfx90a", conflicts_with = "machine")]
    preset: String,

    /// A machine described by a JSON file; see the examples.
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,

    /// So many GPUs of the preset's kind.
    #[arg(long, value_name = "N", conflicts_with = "machine")]
    gpus: Option<usize>,

    /// VRAM of every GPU, in MiB.
    #[arg(long, value_name = "MIB")]
    vram: Option<u64>,

    /// Shared virtual memory: off, on, accept-all (every attribute call is accepted, even of nothing), or fail=ERRNO
    /// (the topology promises it, the ioctl refuses). Left out: as the machine says.
    #[arg(long, value_name = "off|on|accept-all|fail=ERRNO", value_parser = svm)]
    svm: Option<Svm>,

    /// Faults to inject: a comma list of verb:k=ERRNO (the k-th call; * for every) and map:k:n_success=M (the k-th map
    /// does M GPUs, then fails). Verbs: open, mmap, alloc, free, map, unmap, svm, ...: a wrong one lists them all.
    #[arg(long, value_name = "SPEC", value_parser = Faults::parse)]
    fault: Option<Faults>,

    /// Change what GPUs the kernel shows: gpu ids in node order, such as 0xa001,0xa203 (0 for none). It takes effect when
    /// the program looks for /dev/kfd-sim/next, for instance with access(2). Given several times, one is taken each time;
    /// after the last one the answer is ENOENT.
    #[arg(long, value_name = "GPUS", value_parser = gpu_list)]
    next: Vec<GpuIds>,

    /// Show a copy of DIR as the kernel's topology, such as one taken from a real machine. Its GPUs are those of the machine
    /// by their gpu ids and render minors: the n-th GPU of a preset has the id 0xa001 + n * 0x101 and the minor 128 + n.
    #[arg(long, value_name = "DIR", conflicts_with = "next")]
    topology: Option<PathBuf>,

    /// Show FILE as /proc/cpuinfo.
    #[arg(long, value_name = "FILE")]
    cpuinfo: Option<PathBuf>,

    /// Log every answered call as one JSON line.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Pin program and simulator to this CPU: a call then costs about a fifth.
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

const EXAMPLES: &str = r#"Examples:
  kfd-sim -- rocminfo
      What AMD's own tool sees on a machine with two MI210.
  kfd-sim --gpus 4 --vram 1024 -- ./my-test
      Four GPUs of 1 GiB each.
  kfd-sim --fault alloc:3=ENOMEM,map:1:n_success=1 --log calls.jsonl -- ./my-test
      The third allocation fails, the first map stops after one GPU; every call is logged.
  kfd-sim --machine lab.json -- ./my-test
      with lab.json:  {"kfd_version": "1.14", "gpus": [{"preset": "gfx90a", "count": 2},
                       {"preset": "gfx1100", "vram_mib": 1024, "svm": true}]}
      A GPU starts from its preset (gfx90a, gfx942, gfx1100, gfx801) and may change count, gpu_id, vram_mib,
      large_bar, svm, xgmi, device_id, gfx_version, simds, and lds, scratch, gpuvm as ["0xBASE", "0xLIMIT"].

Exit code: the program's; 128 + signal if a signal ended it; 125 if kfd-sim itself failed."#;

#[derive(Clone, Debug)]
struct GpuIds(Vec<GpuId>);

fn gpu_list(text: &str) -> Result<GpuIds, String> {
    let number = |text: &str| text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u32::from_str_radix(hex, 16));
    let ids = text.split(',').map(|part| number(part.trim()).map_err(|_| format!("{part:?} is no gpu id")));
    let ids: Vec<u32> = ids.collect::<Result<_, _>>()?;
    Ok(GpuIds(ids.into_iter().filter(|id| *id != 0).map(GpuId).collect()))
}

#[derive(Clone, Copy, Debug)]
enum Svm {
    Off,
    On,
    Mode(SvmMode),
}

fn svm(text: &str) -> Result<Svm, String> {
    match text {
        "off" => Ok(Svm::Off),
        "on" => Ok(Svm::On),
        "accept-all" => Ok(Svm::Mode(SvmMode::AcceptAll)),
        _ => {
            let error = text.strip_prefix("fail=").and_then(errno_from_name);
            error.map(|error| Svm::Mode(SvmMode::Fail(error))).ok_or_else(|| "off, on, accept-all or fail=ERRNO".into())
        }
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(message) => {
            let _ = message.print();
            return if message.use_stderr() { ExitCode::from(OWN_ERROR) } else { ExitCode::SUCCESS };
        }
    };
    match run(arguments) {
        Ok(status) => ExitCode::from(code(status)),
        Err(message) => {
            eprintln!("kfd-sim: {message}");
            ExitCode::from(OWN_ERROR)
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(OWN_ERROR)
}

fn run(arguments: Arguments) -> Result<ExitStatus, Box<dyn std::error::Error>> {
    let mut machine = match &arguments.machine {
        Some(file) => Machine::from_file(file)?,
        None => Machine::preset(&arguments.preset, arguments.gpus).ok_or_else(|| {
            let names: Vec<&str> = Machine::PRESETS.iter().map(|(name, _)| *name).collect();
            format!("no preset {:?}; there are {}", arguments.preset, names.join(", "))
        })?,
    };
    if machine.gpus.len() > 64 {
        return Err("64 GPUs are the most".into());
    }
    let vram = arguments.vram.map(|mib| mib.checked_mul(1 << 20).ok_or("--vram is too large")).transpose()?;
    for gpu in &mut machine.gpus {
        gpu.vram = vram.unwrap_or(gpu.vram);
        gpu.svm = arguments.svm.map_or(gpu.svm, |svm| !matches!(svm, Svm::Off));
    }
    if let Some(cpu) = arguments.cpu {
        pin(cpu)?;
    }
    let mut words = arguments.program.iter();
    let mut command = Command::new(words.next().ok_or("no program")?);
    command.args(words);
    let svm = match arguments.svm {
        Some(Svm::Mode(mode)) => mode,
        _ => SvmMode::Machine,
    };
    let faults = arguments.fault.unwrap_or_default();
    let next: Vec<Vec<GpuId>> = arguments.next.into_iter().map(|ids| ids.0).collect();
    let given = Given { topology: arguments.topology, cpuinfo: arguments.cpuinfo };
    next.iter().try_for_each(|gpus| machine.clone().show(gpus)).map_err(|error| format!("--next: {error}"))?;
    Ok(supervisor::run(command, Config { machine, svm, faults, next, given, log: arguments.log })?)
}

/// Keeps this process, and what it starts, on one CPU.
fn pin(cpu: usize) -> Result<(), String> {
    if cpu >= rustix::thread::CpuSet::MAX_CPU {
        return Err(format!("no CPU {cpu}"));
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| format!("cannot use CPU {cpu}: {error}"))
}
