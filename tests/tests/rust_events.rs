//! Events through the Rust API on the simulated machine in this process: waits sleep, wake, and outlast a close.

use std::time::Duration;

use hsakmt::Context;
use hsakmt::events::{Event, EventSpec, Wait};
use hsakmt_core::error::{Error, Result};
use hsakmt_kfd::sim::embedded::EmbeddedMachine;
use hsakmt_kfd::uapi::KFD_IOC_EVENT_SIGNAL;

const FOR_EVER: u32 = u32::MAX;
/// Long enough for a thread to fall asleep.
const NAP: Duration = Duration::from_millis(50);

fn make(context: Context, manual_reset: bool) -> Event {
    let spec = EventSpec { kind: KFD_IOC_EVENT_SIGNAL, node: 0, manual_reset, signaled: false };
    context.create_event(spec).unwrap()
}

/// Waits on a thread of its own, does `work` meanwhile; how the wait ended.
fn wait_beside(context: Context, event: Event, milliseconds: u32, work: impl FnOnce()) -> Result<()> {
    std::thread::scope(|scope| {
        let wait = scope.spawn(move || {
            let mut waits = [Wait { id: event.id, kind: KFD_IOC_EVENT_SIGNAL, age: 0, news: None }];
            context.wait_events(&mut waits, true, milliseconds)
        });
        std::thread::sleep(NAP);
        assert!(!wait.is_finished(), "it sleeps");
        work();
        wait.join().unwrap()
    })
}

/// One test, since all is about the one primary context.
#[test]
fn waits_sleep_wake_and_outlast_a_close() {
    for preset in ["gfx90a", "apu"] {
        let machine = EmbeddedMachine::preset(preset).unwrap();
        let context = Context::primary();
        let open = || {
            context.try_open_with(|| Ok(Box::new(machine.open()?))).unwrap();
            context.acquire_system_properties().unwrap();
        };
        open();
        let event = make(context, false);
        let slot: *const u64 = std::ptr::with_exposed_provenance(event.slot);
        // SAFETY: a slot of the event page, which is mapped until the process ends.
        assert_eq!(unsafe { slot.read_volatile() }, u64::MAX, "{preset}: nothing has written it");

        let set = || context.set_event(event.id, KFD_IOC_EVENT_SIGNAL).unwrap();
        assert_eq!(wait_beside(context, event, FOR_EVER, set), Ok(()), "{preset}");
        assert_eq!(wait_beside(context, event, 100, || ()), Err(Error::TimedOut), "{preset}");
        let destroy = || context.destroy_event(event.id).unwrap();
        assert_eq!(wait_beside(context, event, FOR_EVER, destroy), Err(Error::Failed), "{preset}");

        let event = make(context, true);
        assert_eq!(wait_beside(context, event, 200, || context.close().unwrap()), Err(Error::TimedOut), "{preset}");
        open();
        make(context, true);
        context.close().unwrap();
        context.release_system_properties();
    }
}
