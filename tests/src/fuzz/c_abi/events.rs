//! Events: made, set, asked for, waited for without time, ended; on any context, and with what no event is in between.

use std::sync::Mutex;

use hsakmt::ctypes::*;

use super::super::entries::{self, Channel, Place, Room};
use super::super::input::Input;
use super::{Calls, SUCCESS, Said};

/// Events at most.
const MOST_EVENTS: usize = 20;

/// Events that no call has ended. As in C, nothing else frees their structs: they are no leak of the library's.
static NOT_ENDED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl Calls {
    pub(super) fn with_events(&mut self, channel: Channel, input: &mut Input<'_>) -> Said {
        if self.events.is_empty() || (self.events.len() < MOST_EVENTS && input.below(3) == 0) {
            return self.make_event(channel, input);
        }
        let chosen = input.below(self.events.len());
        let known = self.events.get(chosen).copied().unwrap_or(0);
        let event = if input.once_in(8) { Place::null() } else { Place::at(known) };
        match input.below(8) {
            0 | 1 => ("SetEvent", entries::set_event(channel, event)),
            2 => ("ResetEvent", entries::reset_event(channel, event)),
            3 => ("QueryEventState", entries::query_event(channel, event)),
            4 => ("WaitOnEvent", entries::wait_event(channel, event, 0)),
            5 => {
                let mut age = Room::new::<u64>(1, input.below(8));
                age.set(0, &input.word().to_ne_bytes());
                let place = if input.once_in(4) { Place::null() } else { age.place() };
                let said = entries::wait_event_age(channel, event, 0, place);
                age.check("WaitOnEvent_Ext");
                ("WaitOnEvent_Ext", said)
            }
            6 => {
                let mut list = Room::new::<usize>(self.events.len(), input.below(8));
                let bytes: Vec<u8> = self.events.iter().flat_map(|event| event.to_ne_bytes()).collect();
                list.set(0, &bytes);
                let count = self.events.len() as u32;
                let place = if input.once_in(8) { Place::null() } else { list.place() };
                let said = entries::wait_events(channel, place, count, input.below(3) as u8, 0);
                list.check("WaitOnMultipleEvents");
                ("WaitOnMultipleEvents", said)
            }
            _ => {
                let is_known = !event.is_null();
                let said = entries::end_event(channel, event);
                if said == SUCCESS && is_known {
                    self.events.swap_remove(chosen);
                }
                ("DestroyEvent", said)
            }
        }
    }

    /// Keeps the events that are left where a leak detector finds them.
    pub(super) fn keep_events(&mut self) {
        NOT_ENDED.lock().expect("no panic holds it").append(&mut self.events);
    }

    fn make_event(&mut self, channel: Channel, input: &mut Input<'_>) -> Said {
        let mut wanted = Room::new::<HsaEventDescriptor>(1, input.below(8));
        let any = input.word() as u32;
        // Signal, hardware exception, memory fault; then what there is not.
        let kind = input.pick(&[0, 0, 0, 3, 8, any]);
        wanted.set(0, &kind.to_ne_bytes());
        wanted.set(4, &(input.word() as u32).to_ne_bytes());
        let mut made = Room::new::<usize>(1, input.below(8));
        let (manual, set) = (input.below(3) as u8, input.below(3) as u8);
        let description = if input.once_in(8) { Place::null() } else { wanted.place() };
        let place = if input.once_in(8) { Place::null() } else { made.place() };
        let said = entries::make_event(channel, description, manual, set, place);
        wanted.check("CreateEvent");
        made.check("CreateEvent");
        if said == SUCCESS {
            self.events.push(made.long(0) as usize);
        }
        ("CreateEvent", said)
    }
}
