//! One suite, three devices: the machine in this process, the same machine behind real system calls, and /dev/kfd if
//! there is one. What holds for one must hold for the others, or the simulation proves nothing.

use hsakmt_core::driver::{Driver, Errno};
use hsakmt_kfd::device::{Device, open_failure};
use hsakmt_kfd::driver::KfdDriver;
use hsakmt_kfd::sim::description::Machine;
use hsakmt_kfd::sim::embedded::{EmbeddedMachine, Space};
use hsakmt_kfd::sim::machine::SvmMode;
use hsakmt_kfd::topology::Topology;
use hsakmt_tests::contract::{CASES, Open, WITHOUT_GPU, gpus};
use hsakmt_tests::sim;

/// Set for this program where it runs itself under kfd-sim: whether that machine has shared virtual memory.
const INSIDE: &str = "HSAKMT_CONTRACT_INSIDE";

/// The case that a machine without shared virtual memory must refuse.
const SVM: &str = "shared_virtual_memory_remembers";

/// Runs the suite on a simulated machine, which refuses what it is told to lack and nothing else.
fn run(device: &str, svm: bool, open: Open<'_>) {
    let bare = gpus(open) == 0;
    for (name, case) in CASES.iter().filter(|(name, _)| !bare || WITHOUT_GPU.contains(name)) {
        let refused = case(open);
        assert_eq!(refused.is_err(), *name == SVM && !svm, "{device}: {name}: {refused:?}");
    }
}

fn embedded(preset: &str, svm: bool) {
    let mut machine = Machine::preset(preset, None).expect("a preset");
    machine.gpus.iter_mut().for_each(|gpu| gpu.svm = svm);
    let machine = EmbeddedMachine::new(machine, SvmMode::Machine, Space::Host).expect("a machine");
    run(preset, svm, &|| Ok(Box::new(machine.open()?) as Box<dyn Driver>));
}

#[test]
fn on_the_embedded_machine() {
    embedded("gfx90a", false);
    embedded("gfx942", true);
    embedded("gfx1100", true);
    embedded("none", false);
}

fn open_kfd() -> Result<Box<dyn Driver>, Errno> {
    let topology = Topology::read_host(true).map_err(|_| Errno::INVAL)?;
    Ok(Box::new(KfdDriver::new(Device::open()?, &topology)?))
}

#[test]
fn on_the_supervised_machine() {
    if let Some(svm) = std::env::var_os(INSIDE) {
        return run("supervised", svm == "on", &open_kfd);
    }
    if let Some(reason) = sim::unavailable() {
        return sim::skip("contract::on_the_supervised_machine", &reason);
    }
    let this = std::env::current_exe().expect("this program");
    for (preset, svm) in [("gfx90a", "off"), ("gfx90a", "on"), ("gfx942", "on"), ("gfx1100", "on"), ("none", "off")] {
        let mut inside = sim::under(&["--preset", preset, "--svm", svm], &this);
        inside.args(["--exact", "on_the_supervised_machine", "--nocapture"]).env(INSIDE, svm);
        let output = inside.output().expect("kfd-sim runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{preset}, SVM {svm}: {}\n{said}\n{errors}", output.status);
    }
}

#[test]
fn on_the_real_device() {
    if !std::path::Path::new("/dev/kfd").exists() || std::env::var_os(INSIDE).is_some() {
        return sim::skip("contract::on_the_real_device", "no /dev/kfd");
    }
    // Since 7.2 the driver refuses to open without a GPU; others may not open for want of rights.
    if let Err(error) = Device::open() {
        return sim::skip("contract::on_the_real_device", &format!("/dev/kfd: {}", open_failure(error)));
    }
    let bare = gpus(&open_kfd) == 0;
    if bare {
        let count = CASES.len() - WITHOUT_GPU.len();
        sim::skip("contract::cases_on_a_gpu", &format!("this machine has none; {count} cases need one"));
    }
    for (name, case) in CASES.iter().filter(|(name, _)| !bare || WITHOUT_GPU.contains(name)) {
        if let Err(reason) = case(&open_kfd) {
            sim::skip(&format!("contract::on_the_real_device::{name}"), &reason);
        }
    }
}
