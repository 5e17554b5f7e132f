//! Runs `benches/lookups.rs` under callgrind and reads what it counted.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::expected::Numbers;
use crate::package;

/// The compiler that builds here, and for what machine.
pub(crate) fn compiler() -> Result<String, String> {
    compiler_of(&std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// What a compiler is.
pub(crate) fn compiler_of(rustc: &OsStr) -> Result<String, String> {
    let output = Command::new(rustc).arg("-vV").output().map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match (field("release:"), field("commit-hash:"), field("host:")) {
        (Some(release), Some(commit), Some(host)) => Ok(format!("rustc {release} {commit} {host}")),
        _ => Err(format!("rustc -vV does not say what it is: {text}")),
    }
}

/// Counts everything: name -> instructions of one look-up.
pub(crate) fn count() -> Result<Numbers, String> {
    needs()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["bench", "--quiet", "-p", "hsakmt-perf", "--bench", "lookups", "--target-dir"]);
    command.arg(target_folder()?).args(["--", "--output-format=json"]);
    command.current_dir(package()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("counting failed ({}); why stands above\n{text}", output.status));
    }
    let counted: Result<Numbers, String> = text.lines().filter(|line| line.starts_with('{')).map(read).collect();
    counted
        .and_then(|counted| if counted.is_empty() { Err(format!("nothing was counted:\n{text}")) } else { Ok(counted) })
}

/// Names everything that is missing here, and how to get it.
fn needs() -> Result<(), String> {
    let lock = package().join("../Cargo.lock");
    let lock = std::fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    let version = locked(&lock, "iai-callgrind").ok_or("Cargo.lock has no iai-callgrind")?;
    let runner = std::env::var_os("IAI_CALLGRIND_RUNNER").unwrap_or_else(|| "iai-callgrind-runner".into());
    let mut missing = String::new();
    if version_of("valgrind".as_ref()).is_none() {
        missing += "\n  valgrind: apt-get install valgrind";
    }
    if let Some(wrong) = wrong_runner(version_of(&runner).as_deref(), version) {
        missing += &format!("\n  {wrong}: cargo install --locked iai-callgrind-runner@{version}");
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("missing here:{missing}")) }
}

/// What a tool says of its version; `None` if it is not there.
fn version_of(tool: &OsStr) -> Option<String> {
    let output = Command::new(tool).arg("--version").stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

/// What is wrong with the runner, which must have the version of the crate. It has no option that prints its version, but
/// names it, in brackets, when it refuses one.
fn wrong_runner(said: Option<&str>, version: &str) -> Option<String> {
    let Some(said) = said else { return Some(format!("iai-callgrind-runner {version}")) };
    let (_, rest) = said.split_once("iai-callgrind-runner (")?;
    let (found, _) = rest.split_once(')')?;
    (found != version).then(|| format!("iai-callgrind-runner {version} (there is {found})"))
}

/// The version of a crate in the text of a Cargo.lock.
fn locked<'lock>(lock: &'lock str, name: &str) -> Option<&'lock str> {
    let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    rest.split_once('"').map(|(version, _)| version)
}

/// One line of the runner's report: `function/id`, and its instructions over the number of look-ups.
fn read(line: &str) -> Result<(String, f64), String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
    let name = (value["function_name"].as_str(), value["id"].as_str());
    let metrics = &value["profiles"][0]["summaries"]["total"]["summary"]["Callgrind"]["Ir"]["metrics"];
    // "Left" without a run before, "Both" (new, old) with one.
    let metric = if metrics["Both"].is_null() { &metrics["Left"] } else { &metrics["Both"][0] };
    match (name, metric["Int"].as_f64()) {
        ((Some(function), Some(id)), Some(instructions)) => Ok((format!("{function}/{id}"), instructions / LOOK_UPS)),
        _ => Err(format!("the runner's report is not as known: {line}")),
    }
}

/// Look-ups in each counted function of `benches/lookups.rs`.
const LOOK_UPS: f64 = 1_000.0;

/// Where cargo builds: this program is in `<target>/<profile>` or `<target>/<profile>/deps`.
pub(crate) fn target_folder() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    let folder = program.parent().unwrap_or(&program);
    let profile = if folder.ends_with("deps") { folder.parent() } else { Some(folder) };
    profile
        .and_then(Path::parent)
        .map(Path::to_owned)
        .ok_or_else(|| format!("{}: not built by cargo", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_with_and_without_an_older_run_are_read() {
        let report = |metrics: &str| {
            let total = format!(r#"{{"summary":{{"Callgrind":{{"Ir":{{"diffs":null,"metrics":{metrics}}}}}}}}}"#);
            format!(r#"{{"function_name":"session","id":"of_1k","profiles":[{{"summaries":{{"total":{total}}}}}]}}"#)
        };
        let expected = ("session/of_1k".to_owned(), 61.5);
        assert_eq!(read(&report(r#"{"Left":{"Int":61500}}"#)), Ok(expected.clone()));
        assert_eq!(read(&report(r#"{"Both":[{"Int":61500},{"Int":1}]}"#)), Ok(expected));
        assert!(read("{}").is_err());
    }

    #[test]
    fn the_runner_must_have_the_version_of_the_crate() {
        let lock = "[[package]]\nname = \"iai-callgrind\"\nversion = \"0.16.1\"\nsource = \"x\"\n";
        assert_eq!((locked(lock, "iai-callgrind"), locked(lock, "iai")), (Some("0.16.1"), None));
        let said =
            "iai_callgrind_runner: Error: No version information, but iai-callgrind-runner (0.16.1) is >= '0.3.0'";
        assert_eq!(wrong_runner(Some(said), "0.16.1"), None);
        assert_eq!(wrong_runner(Some("2.0"), "0.16.1"), None, "unknown: it says by itself what it does not like");
        assert!(wrong_runner(Some(said), "0.17.0").unwrap().contains("0.17.0 (there is 0.16.1)"));
        assert!(wrong_runner(None, "0.16.1").is_some());
    }
}
