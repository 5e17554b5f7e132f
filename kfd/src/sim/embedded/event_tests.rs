//! Waits on the embedded machine: they sleep, they wake, and other calls go on meanwhile.

use std::time::{Duration, Instant};

use hsakmt_core::driver::Errno;
use rustix::mm;

use super::{EmbeddedKfd, EmbeddedMachine, Space};
use crate::device::{Device, EventRequest};
use crate::sim::description::Machine;
use crate::sim::machine::SvmMode;
use crate::uapi::{
    EventData, KFD_IOC_EVENT_SIGNAL, KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_TIMEOUT, KFD_SIGNAL_EVENT_LIMIT,
};

const SIGNAL: EventRequest = EventRequest { kind: KFD_IOC_EVENT_SIGNAL, node: 0, auto_reset: false, page: None };
const FOR_EVER: u32 = u32::MAX;
/// Long enough for a thread to fall asleep.
const NAP: Duration = Duration::from_millis(50);

fn device() -> Device<EmbeddedKfd> {
    let machine = Machine::preset("gfx90a", None).unwrap();
    Device::over(EmbeddedMachine::new(machine, SvmMode::Machine, Space::Host).unwrap().open_kfd().unwrap())
}

/// Waits for all of these events on a thread of its own, does `work` meanwhile; what the wait answered.
fn wait_beside(
    device: &Device<EmbeddedKfd>,
    events: &[u32],
    milliseconds: u32,
    work: impl FnOnce(),
) -> Result<u32, Errno> {
    std::thread::scope(|scope| {
        let wait = scope.spawn(|| {
            let mut data: Vec<_> = events.iter().map(|id| EventData { event_id: *id, ..Default::default() }).collect();
            device.wait_events(&mut data, true, milliseconds)
        });
        std::thread::sleep(NAP);
        assert!(!wait.is_finished(), "it sleeps");
        work();
        wait.join().unwrap()
    })
}

#[test]
fn a_wait_ends_when_its_last_event_is_set() {
    let device = device();
    let [first, second] = [(); 2].map(|()| device.create_event(SIGNAL).unwrap().id);
    let result = wait_beside(&device, &[first, second], FOR_EVER, || {
        device.set_event(first).unwrap();
        std::thread::sleep(NAP);
        device.set_event(second).unwrap();
    });
    assert_eq!(result, Ok(KFD_IOC_WAIT_RESULT_COMPLETE));
    assert!(device.transport().time_inside() < NAP, "sleeping is no time inside");
}

#[test]
fn a_wait_ends_with_its_event() {
    let device = device();
    let event = device.create_event(SIGNAL).unwrap().id;
    let result = wait_beside(&device, &[event], FOR_EVER, || device.destroy_event(event).unwrap());
    assert_eq!(result, Err(Errno(libc::EIO)));
}

#[test]
fn a_wait_ends_at_its_time_whatever_else_happens() {
    let device = device();
    let [awaited, other] = [(); 2].map(|()| device.create_event(SIGNAL).unwrap().id);
    let start = Instant::now();
    let result = wait_beside(&device, &[awaited], 200, || device.set_event(other).unwrap());
    assert_eq!(result, Ok(KFD_IOC_WAIT_RESULT_TIMEOUT));
    assert!(start.elapsed() >= Duration::from_millis(200));
}

/// A wait on one thread that another thread's CREATE_PROCESS leaves without its event.
#[test]
fn a_wait_does_not_outlast_its_kernel_process() {
    let device = device();
    let event = device.create_event(SIGNAL).unwrap().id;
    let result = wait_beside(&device, &[event], FOR_EVER, || device.create_process().unwrap());
    assert_eq!(result, Err(Errno::INVAL));
}

#[test]
fn a_new_event_shows_its_slot_at_rest() {
    let device = device();
    let bytes = KFD_SIGNAL_EVENT_LIMIT as usize * 8;
    let event = device.create_event(SIGNAL).unwrap();
    // SAFETY: nothing is replaced.
    let page = unsafe { device.map_event_page(event.page_offset, bytes, None) }.unwrap();
    let slot: *const u64 = std::ptr::with_exposed_provenance(page + event.slot as usize * 8);
    // SAFETY: mapped above, readable, and no reference leads there.
    assert_eq!(unsafe { slot.read_volatile() }, u64::MAX);
    // SAFETY: the page was mapped above, and nothing uses it any more.
    unsafe { mm::munmap(std::ptr::with_exposed_provenance_mut(page), bytes) }.unwrap();
}
