//! A player under kfd-sim: one process that plays any number of sequences on one library.
//!
//! In: a script. Out: the lines it answered. What never happens: a sequence that finds something an earlier one left,
//! since the player forks for each. A player that dies is started again for the next one.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The dynamic linker that a library brings along where it needs a newer libc than this machine's.
const LOADER: &str = "ld-linux-x86-64.so.2";

/// Which library, and how to start the player on it.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// The player, built against the library's header.
    pub(crate) program: PathBuf,
    /// Where its library lies, if the dynamic linker does not find it by itself.
    pub(crate) library: Option<PathBuf>,
}

/// A running player.
#[derive(Debug)]
pub(crate) struct Player {
    side: Side,
    simulator: Vec<OsString>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Player {
    /// Starts nothing yet. `simulator` is kfd-sim with its options.
    pub(crate) fn new(side: Side, simulator: Vec<OsString>) -> Player {
        Player { side, simulator, running: None }
    }

    /// Gives the player a script to play.
    pub(crate) fn play(&mut self, script: &str) {
        let mut running = self.running.take().unwrap_or_else(|| self.start());
        let input = running.input.as_mut().expect("the player's input is open");
        // One that has died is noticed by what it answers.
        let _ = input.write_all(script.as_bytes()).and_then(|()| input.flush());
        self.running = Some(running);
    }

    /// What it answered, line by line.
    pub(crate) fn answers(&mut self) -> Vec<String> {
        let Some(running) = self.running.as_mut() else { return vec!["not started".into()] };
        let mut answers = Vec::new();
        loop {
            let mut line = String::new();
            match running.output.read_line(&mut line) {
                Ok(1..) if line == "done\n" => return answers,
                Ok(1..) => answers.push(line.trim_end().to_owned()),
                _ => {
                    let status = running.child.wait().map_or_else(|error| error.to_string(), |it| it.to_string());
                    answers.push(format!("the player ended: {status}"));
                    self.running = None;
                    return answers;
                }
            }
        }
    }

    fn start(&self) -> Running {
        let (simulator, options) = self.simulator.split_first().expect("a simulator");
        let mut command = Command::new(simulator);
        command.args(options).arg("--");
        let loader = self.side.library.as_ref().map(|library| library.join(LOADER)).filter(|loader| loader.exists());
        match (&self.side.library, loader) {
            (Some(library), Some(loader)) => {
                command.arg(loader).arg("--library-path").arg(library);
            }
            (Some(library), None) => {
                let mut path = OsString::from("LD_LIBRARY_PATH=");
                path.push(library);
                command.arg("env").arg(path);
            }
            (None, _) => {}
        }
        command.arg(&self.side.program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HSA")) {
            command.env_remove(name);
        }
        let mut child = command.spawn().expect("kfd-sim starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("the player's output"));
        Running { child, input, output: BufReader::new(output) }
    }
}

impl Drop for Player {
    /// Its input ends, and so does it.
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.input = None;
            let _ = running.child.wait();
        }
    }
}

/// A C library's version, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Of5_2_3,
    Of6_2_4,
    Of2025,
}

impl Version {
    /// Whether it has the calls and flags that came after 5.2.3.
    pub(crate) fn is_newer(self) -> bool {
        self != Version::Of5_2_3
    }

    fn of(types: &str) -> Version {
        match (types.contains("OnlyAddress"), types.contains("NumNeuralCores")) {
            (false, _) => Version::Of5_2_3,
            (true, false) => Version::Of6_2_4,
            (true, true) => Version::Of2025,
        }
    }
}

/// Builds the player in `folder` against a header and a library, whose version it returns.
pub(crate) fn build(folder: &Path, prefix: Option<&Path>, binary: &Path) -> Result<Version, String> {
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror"]);
    let version = match prefix {
        None => {
            cc.arg("-DHSAKMT_H=\"hsakmt.h\"");
            Version::Of5_2_3
        }
        Some(prefix) => {
            let (include, library) = (prefix.join("include"), prefix.join("lib"));
            let types = std::fs::read_to_string(include.join("hsakmt/hsakmttypes.h"));
            let version = Version::of(&types.map_err(|error| error.to_string())?);
            cc.arg("-DHSAKMT_H=\"hsakmt/hsakmt.h\"").args(version.is_newer().then_some("-DNEWTHUNK"));
            cc.arg("-I").arg(include).arg("-L").arg(library);
            version
        }
    };
    cc.args(["player.c", "names.c", "calls.c"].map(|source| folder.join(source))).arg("-o").arg(binary).args([
        "-l:libhsakmt.so.1",
        "-lpthread",
        "-Wl,--allow-shlib-undefined",
    ]);
    let output = cc.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(version) } else { Err(said) }
}
