//! What a verb is tried on: a machine and an environment, by name; and this program run again for each of them.
//!
//! The environment is read where a channel opens, and the memory allocator of a test program maps memory when it likes.
//! So each setting gets a process of its own, told its name by a variable, in which the allocator only moves the break.

use std::process::{Command, Output};

use hsakmt_core::driver::Errno;
use hsakmt_kfd::sim::description::Machine;
use hsakmt_kfd::sim::embedded::{EmbeddedMachine, Space};
use hsakmt_kfd::sim::machine::SvmMode;

/// Set for this program where it runs itself: the setting's name.
const INSIDE: &str = "HSAKMT_ALL_OR_NOTHING";

/// Keeps the C library's allocator out of the address space: one arena, no mapping of its own, nothing given back.
const QUIET: &str = "glibc.malloc.arena_max=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1073741824";

/// A machine and its environment.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What to call it.
    pub name: &'static str,
    /// The machine, as [`Machine::preset`] names it.
    pub preset: &'static str,
    /// How many GPUs it has.
    pub gpus: usize,
    /// Whether the GPUs share a node with the CPU cores, whatever the preset says.
    pub apu: bool,
    /// Whether they report the SVM API.
    pub svm: bool,
    /// The SVM ioctl fails although they do.
    pub svm_fails: bool,
    /// Whether every verb is worth a try here. If not, only those are that the setting changes: with the SVM API what
    /// concerns registered memory, else what makes memory.
    pub whole: bool,
    /// The environment.
    pub variables: &'static [(&'static str, &'static str)],
}

const TWO: Setting = Setting {
    name: "",
    preset: "gfx90a",
    gpus: 2,
    apu: false,
    svm: false,
    svm_fails: false,
    whole: true,
    variables: &[],
};

/// All that differ in which steps a verb takes.
pub const SETTINGS: &[Setting] = &[
    Setting { name: "mmap", ..TWO },
    Setting { name: "reserved", variables: &[("HSA_RESERVE_SVM", "1")], ..TWO },
    Setting { name: "svm", preset: "gfx942", svm: true, whole: false, ..TWO },
    Setting { name: "svm-fails", preset: "gfx942", svm: true, svm_fails: true, whole: false, ..TWO },
    Setting { name: "gtt-paged", whole: false, variables: &[("HSA_USERPTR_FOR_PAGED_MEM", "0")], ..TWO },
    Setting { name: "old-apu", preset: "apu", gpus: 1, apu: true, ..TWO },
    Setting { name: "new-apu", gpus: 1, apu: true, ..TWO },
    Setting { name: "no-gpu", preset: "none", gpus: 0, ..TWO },
];

impl Setting {
    /// Whether SVM addresses are cut from a reserved range.
    pub fn reserved(&self) -> bool {
        self.variables.contains(&("HSA_RESERVE_SVM", "1"))
    }

    /// Whether there is a GPU without CPU cores.
    pub fn dgpu(&self) -> bool {
        self.gpus > 0 && !self.apu
    }

    /// Whether a GPU has addresses of its own, which the CPU does not reach.
    pub fn old_apu(&self) -> bool {
        self.preset == "apu"
    }

    /// The machine it says, in this process.
    pub fn machine(&self) -> Result<EmbeddedMachine, Errno> {
        let mut machine = Machine::preset(self.preset, Some(self.gpus)).ok_or(Errno::INVAL)?;
        for gpu in &mut machine.gpus {
            gpu.apu = self.apu;
            gpu.svm = self.svm;
        }
        let mode = if self.svm_fails { SvmMode::Fail(Errno(1)) } else { SvmMode::Machine };
        EmbeddedMachine::new(machine, mode, Space::Host)
    }

    /// Its name by name.
    pub fn named(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }
}

/// The setting that this process was started for; `None` in the process that starts the others.
pub fn inside() -> Option<&'static Setting> {
    let name = std::env::var(INSIDE).ok()?;
    Some(Setting::named(&name).expect("a setting"))
}

/// Runs the test `test` of this program again, in the setting.
pub fn run_again(setting: &Setting, test: &str) -> Output {
    finish(setting, test, Command::new(this()))
}

/// The same under kfd-sim, with one variable more.
pub fn run_under(setting: &Setting, test: &str, options: &[&str], (name, value): (&str, String)) -> Output {
    let mut command = crate::sim::under(options, this());
    command.env(name, value);
    finish(setting, test, command)
}

fn this() -> std::path::PathBuf {
    std::env::current_exe().expect("this program")
}

fn finish(setting: &Setting, test: &str, mut command: Command) -> Output {
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(INSIDE, setting.name).env("GLIBC_TUNABLES", QUIET).envs(setting.variables.iter().copied());
    command.output().expect("it starts")
}
