//! kfd-sim as a user meets it: what programs under it see of one another, how it ends, what it injects and logs, and
//! what it says when it cannot.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hsakmt_tests::install::{succeed, workspace};
use hsakmt_tests::sim;

/// Skips a test where nothing can run under kfd-sim.
macro_rules! need_supervisor {
    ($name:literal) => {
        if let Some(reason) = sim::unavailable() {
            return sim::skip(concat!("sim_supervisor::", $name), &reason);
        }
    };
}

/// The C program of raw ioctls, built.
fn life(folder: &Path) -> PathBuf {
    let program = folder.join("life");
    let sources = workspace().join("tests/sim");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Werror", "-idirafter"]).arg(sources.join("include")).arg(sources.join("life.c"));
    succeed(cc.arg("-o").arg(&program).arg("-lpthread"));
    program
}

fn run(options: &[&str], program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Output {
    sim::under(options, program).args(arguments).output().expect("kfd-sim runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn processes_threads_children_and_successors() {
    need_supervisor!("processes_threads_children_and_successors");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = life(folder.path());
    for part in ["inherit", "death", "exec", "share", "secondary", "files", "events", "crowd", "ranges"] {
        let options: &[&str] = if part == "ranges" { &["--svm", "on"] } else { &[] };
        let output = run(options, &program, &[part]);
        assert!(output.status.success(), "{part}: {}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn exit_codes_are_the_programs() {
    need_supervisor!("exit_codes_are_the_programs");
    let code = |options: &[&str], script: &str| run(options, "sh", &["-c", script]).status.code();
    assert_eq!(code(&[], "exit 7"), Some(7));
    assert_eq!(code(&[], "kill -TERM $$"), Some(128 + 15));
    assert_eq!(code(&[], "kill -KILL $$"), Some(128 + 9));
    assert_eq!(code(&["--preset", "none"], "test -e /dev/kfd && ! test -e /dev/dri/renderD128"), Some(0));
    // The program's streams are its own.
    let mut cat = sim::under(&[], "cat");
    let mut child = cat.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().expect("cat");
    std::io::Write::write_all(&mut child.stdin.take().expect("stdin"), b"through").expect("cat reads");
    assert_eq!(child.wait_with_output().expect("cat ends").stdout, b"through");
}

#[test]
fn signals_to_the_supervisor_reach_the_program() {
    need_supervisor!("signals_to_the_supervisor_reach_the_program");
    let script = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let mut command = sim::under(&[], "sh");
    let mut child = command.args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().expect("kfd-sim starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("stdout")));
    assert_eq!(lines.next().expect("a line").expect("read"), "ready");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("the signal is sent");
    assert_eq!(lines.next().expect("a line").expect("read"), "caught");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
}

#[test]
fn own_errors_are_125_and_one_line() {
    let own = |arguments: &[&str]| {
        let output = Command::new(sim::kfd_sim()).args(arguments).output().expect("kfd-sim runs");
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    assert!(own(&["--preset", "gfx9", "--", "true"]).contains("gfx90a"));
    assert!(own(&["--fault", "alloc:1=EWHAT", "--", "true"]).contains("EWHAT"));
    assert!(own(&["--svm", "maybe", "--", "true"]).contains("accept-all"));
    assert!(own(&["--gpus", "65", "--", "true"]).contains("64"));
    assert!(own(&["--cpu", "99999", "--", "true"]).contains("CPU"));
    assert!(own(&[]).contains("PROGRAM"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("machine.json");
    std::fs::write(&file, "{\n  \"gpus\": [{\"preset\": \"gfx90a\", \"vram\": 1}]\n}").expect("the file is written");
    let message = own(&["--machine", &file.to_string_lossy(), "--", "true"]);
    assert!(message.contains("machine.json") && message.contains("line 2") && message.contains("`vram`"), "{message}");
    assert!(own(&["--machine", "/nonexistent.json", "--", "true"]).contains("/nonexistent.json"));
    need_supervisor!("own_errors_are_125_and_one_line");
    let message = own(&["--", "/nonexistent/program"]);
    assert_eq!(message.lines().count(), 1, "{message}");
    let nested = own(&["--", &sim::kfd_sim().to_string_lossy(), "--", "true"]);
    assert!(nested.contains("user notification"), "{nested}");
}

#[test]
fn help_teaches() {
    let output = Command::new(sim::kfd_sim()).arg("--help").output().expect("kfd-sim runs");
    let help = text(&output.stdout);
    assert!(output.status.success());
    for word in ["Examples:", "--machine lab.json", "128 + signal", "accept-all", "n_success"] {
        assert!(help.contains(word), "{word}");
    }
}

/// Lines of the log that are about one call.
fn logged(log: &Path, call: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(log).expect("the log");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
    lines.filter(|line: &serde_json::Value| line["call"] == call).collect()
}

#[test]
fn faults_strike_and_are_logged() {
    need_supervisor!("faults_strike_and_are_logged");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = life(folder.path());
    let log = folder.path().join("calls.jsonl");
    let options = ["--log", &log.to_string_lossy(), "--fault", "alloc:1=ENOSPC"];
    let output = run(&options, &program, &["inherit"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("errno 28"), "{}", text(&output.stdout));
    let allocs = logged(&log, "alloc");
    assert_eq!((allocs.len(), &allocs[0]["result"]), (1, &"ENOSPC".into()));

    assert_eq!(run(&options[..2], &program, &["inherit"]).status.code(), Some(0));
    let allocs = logged(&log, "alloc");
    assert_eq!(allocs[0]["in"]["va_addr"], "0x700000000000");
    assert_eq!(allocs[0]["in"]["size"], "0x100000");
    assert_ne!(allocs[0]["out"]["handle"], serde_json::Value::Null);
    assert_eq!(logged(&log, "open")[0]["device"], "Kfd");
    assert!(logged(&log, "version").len() >= 3);

    let opened = run(&["--fault", "open:1=EINTR"], &program, &["inherit"]);
    assert!(text(&opened.stdout).contains("errno 4"), "{}", text(&opened.stdout));
    let mapped = run(&["--log", &log.to_string_lossy(), "--fault", "map:1:n_success=0"], &program, &["crowd"]);
    assert_eq!(mapped.status.code(), Some(1));
    assert!(logged(&log, "map").iter().any(|line| line["result"] == "ENOMEM" && line["gpus"][0] == "0xa001"));
    let mmap = run(&["--fault", "mmap:1=ENOMEM"], &program, &["share"]);
    assert!(text(&mmap.stdout).contains("MAP_FAILED"), "{}", text(&mmap.stdout));
}

#[test]
fn nothing_is_left_behind() {
    need_supervisor!("nothing_is_left_behind");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = sim::under(&[], "true");
    assert!(command.env("TMPDIR", folder.path()).status().expect("kfd-sim runs").success());
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

#[test]
fn amds_own_tool_sees_each_machine() {
    const NAME: &str = "sim_supervisor::amds_own_tool_sees_each_machine";
    need_supervisor!("amds_own_tool_sees_each_machine");
    if Command::new("rocminfo").arg("--version").output().is_err() {
        return sim::skip(NAME, "no rocminfo");
    }
    // Debian's is from 2022: it does not know the newer GPUs.
    for (options, agent, count) in [
        (&["--gpus", "3", "--vram", "2048"][..], "gfx90a", 3),
        (&["--preset", "apu"][..], "gfx801", 1),
        (&["--preset", "none"][..], "gfx90a", 0),
    ] {
        let output = run(options, "rocminfo", &[]);
        assert!(output.status.success(), "{options:?}: {}{}", text(&output.stdout), text(&output.stderr));
        let agents = text(&output.stdout);
        let found =
            agents.lines().filter(|line| line.trim_start().starts_with("Name:") && line.trim().ends_with(agent));
        assert_eq!(found.count(), count, "{options:?}");
    }
}

#[test]
fn graphics_buffers_come_over_with_their_metadata() {
    const NAME: &str = "sim_supervisor::graphics_buffers_come_over_with_their_metadata";
    need_supervisor!("graphics_buffers_come_over_with_their_metadata");
    if let Err(reason) = sim::debian_library() {
        return sim::skip(NAME, &reason);
    }
    if !Path::new("/usr/include/libdrm/amdgpu.h").exists() {
        return sim::skip(NAME, "no libdrm-dev");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("graphics");
    let flags = ["-DHSAKMT_H=\"hsakmt.h\"", "-I/usr/include/libdrm", "-Wl,--no-as-needed", "-ldrm_amdgpu"];
    sim::build_on_debian(&workspace().join("tests/sim/graphics.c"), &program, &flags);
    let lines = sim::lines(&run(&[], &program, &[]));
    assert_eq!(lines[0], "drm 3.57");
    for (at, metadata) in [(1, 16), (3, 256), (5, 0)] {
        assert_eq!(lines[at], format!("size 0x400000 metadata {metadata}"));
        assert!(lines[at + 1].starts_with("type 3 node 1 "), "{}", lines[at + 1]);
    }
}

#[test]
fn a_killed_supervisor_leaves_nothing_behind() {
    need_supervisor!("a_killed_supervisor_leaves_nothing_behind");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = sim::under(&[], "sh");
    command.args(["-c", "echo ready; read never"]).env("TMPDIR", folder.path());
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("kfd-sim starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("stdout")));
    assert_eq!(lines.next().expect("a line").expect("read"), "ready");
    let left = || std::fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left(), 1);
    child.kill().expect("SIGKILL is sent");
    child.wait().expect("it ends");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while left() > 0 && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(left(), 0);
}

#[test]
fn the_log_names_an_unknown_ioctl_by_its_number() {
    need_supervisor!("the_log_names_an_unknown_ioctl_by_its_number");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = life(folder.path());
    let log = folder.path().join("calls.jsonl");
    let output = run(&["--log", &log.to_string_lossy()], &program, &["unknown"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    let unknown = logged(&log, "unknown");
    assert_eq!((unknown.len(), &unknown[0]["result"]), (1, &"ENOTTY".into()));
    assert_eq!(unknown[0]["request"], "0x4b7f");
    assert_eq!(logged(&log, "version").len(), 2, "no other line repeats the call before");
}

#[test]
fn queues_run_for_amds_runtime_and_a_dispatch_fails_clearly() {
    const NAME: &str = "sim_supervisor::queues_run_for_amds_runtime_and_a_dispatch_fails_clearly";
    need_supervisor!("queues_run_for_amds_runtime_and_a_dispatch_fails_clearly");
    if !Path::new("/usr/include/hsa/hsa_ext_amd.h").exists() {
        return sim::skip(NAME, "no libhsa-runtime-dev");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("queues");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-w"]).arg(workspace().join("tests/sim/queues.c")).arg("-o").arg(&program);
    succeed(cc.arg("-lhsa-runtime64"));
    let output = run(&[], "timeout", &["60", &program.to_string_lossy(), "dispatch"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.ends_with("fine\n"), "{}: {out}{err}", output.status);
    let lines = err.lines().filter(|line| line.contains("shader execution is not simulated"));
    assert_eq!(lines.count(), 1, "{err}");
}
