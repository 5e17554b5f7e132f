//! One library at work: `kfd-sim -- workload`, commanded through pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use rustix::thread::{CpuSet, sched_getaffinity};

use super::programs::Program;
use super::rows::Objects;

/// Where children run.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// The simulator.
    pub(super) kfd_sim: PathBuf,
    /// The CPU for everything, and a second one for a second thread; the same if there is only one.
    pub(super) cpus: [usize; 2],
}

/// The CPU asked for, or the last allowed one, and another.
pub(super) fn cpus(wanted: Option<usize>) -> Result<[usize; 2], String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("which CPUs may be used: {error}"))?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let last = *allowed.last().ok_or("no CPU may be used")?;
    let first = wanted.unwrap_or(last);
    if !allowed.contains(&first) {
        return Err(format!("CPU {first} may not be used; {allowed:?} may"));
    }
    Ok([first, allowed.iter().copied().rev().find(|cpu| *cpu != first).unwrap_or(first)])
}

/// A running workload.
pub(super) struct Child {
    name: String,
    process: std::process::Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Child {
    /// Starts it and waits until its objects are made and its answers checked.
    pub(super) fn start(program: &Program, machine: &Machine, objects: Objects) -> Result<Child, String> {
        let [cpu, other] = machine.cpus.map(|cpu| cpu.to_string());
        let mut command = Command::new(&machine.kfd_sim);
        command.args(["--svm", "off", "--vram", "65536", "--cpu", &cpu, "--"]).arg(&program.path);
        command.args([&objects.buffers.to_string(), &objects.userptrs.to_string(), &cpu, &other]);
        settings(&mut command, objects);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.map_err(|error| format!("{}: {error}", machine.kfd_sim.display()))?;
        let (Some(commands), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("a child without pipes".into());
        };
        let mut child = Child { name: program.name.clone(), process, commands, answers: BufReader::new(answers) };
        match child.answer()?.as_str() {
            "ready" => Ok(child),
            other => Err(format!("{} says {other:?} instead of \"ready\"", child.name)),
        }
    }

    /// Gives a command and waits for the numbers that answer it.
    pub(super) fn ask(&mut self, command: &str) -> Result<Vec<f64>, String> {
        writeln!(self.commands, "{command}").map_err(|error| format!("{}: {error}", self.name))?;
        let answer = self.answer()?;
        let numbers: Result<Vec<f64>, _> = answer.split_whitespace().map(str::parse).collect();
        numbers.map_err(|_| format!("{} answers {command:?} with {answer:?}", self.name))
    }

    /// Ends it.
    pub(super) fn quit(mut self) -> Result<(), String> {
        let _ = writeln!(self.commands, "quit");
        let status = self.process.wait().map_err(|error| format!("{}: {error}", self.name))?;
        if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", self.name)) }
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).map_err(|error| format!("{}: {error}", self.name))?;
        if read > 0 {
            return Ok(line.trim().to_owned());
        }
        let status = self.process.wait().map_err(|error| format!("{}: {error}", self.name))?;
        Err(format!("the program on {} ended early ({status}); what it said stands above", self.name))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Already ended after `quit`; after an error nobody waits for it any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Both libraries get the same settings, and nobody's own.
fn settings(command: &mut Command, objects: Objects) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("HSA_") || text.starts_with("HSAKMT_") || text.starts_with("LD_") {
            command.env_remove(&name);
        }
    }
    command.env("HSA_USE_SVM", "0");
    if objects.buffers > 60_000 {
        // With guard pages each buffer is a mapping of its own, and vm.max_map_count (65,530) ends the making.
        command.env("HSA_SVM_GUARD_PAGES", "0");
    }
}
