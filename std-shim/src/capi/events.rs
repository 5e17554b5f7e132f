//! Events. What a caller holds is a `HsaEvent` from the heap: `argument` makes and ends it.

use hsakmt_core::error::{Error, Result};

use super::argument::{EventPointer, In, InOut, Out};
use super::convert::halves;
use super::{opened, twins};
use crate::context::Context;
use crate::ctypes::*;
use crate::events::{EventSpec, News, Wait};

/// `HSA_EVENTID_MEMORY_FATAL_PROCESS`
const FATAL_PROCESS: u32 = 1;

twins! {
    /// Makes an event.
    fn hsaKmtCreateEvent, hsaKmtCreateEventCtx(
        context,
        EventDesc: In<HsaEventDescriptor>,
        ManualReset: CBool,
        IsSignaled: CBool,
        Event: Out<EventPointer>,
    ) {
        let context = opened(context)?;
        let wanted = EventDesc.required()?;
        let mut place = Event.required()?;
        let room = EventPointer::reserve().ok_or(Error::Failed)?;
        let made = context.create_event(EventSpec {
            kind: wanted.EventType,
            node: wanted.NodeId,
            manual_reset: ManualReset != 0,
            signaled: IsSignaled != 0,
        });
        if made == Err(Error::Failed) {
            place.set(EventPointer::NULL);
        }
        let made = made?;
        let HsaSyncVar { SyncVar, SyncVarSize } = wanted.SyncVar;
        let ([a, b], [c, d]) = (halves(SyncVar), halves(SyncVarSize));
        place.set(room.give(HsaEvent {
            EventId: made.id,
            EventData: HsaEventData {
                EventType: wanted.EventType,
                EventData: [a, b, c, d, 0],
                HWData1: made.id.into(),
                HWData2: made.slot as u64,
                HWData3: made.trigger,
            },
        }));
        Ok(())
    }

    /// Ends an event.
    fn hsaKmtDestroyEvent, hsaKmtDestroyEventCtx(context, Event: EventPointer) {
        let context = opened(context)?;
        context.destroy_event(Event.get().ok_or(Error::InvalidHandle)?.EventId)?;
        Event.end();
        Ok(())
    }

    /// Signals an event.
    fn hsaKmtSetEvent, hsaKmtSetEventCtx(context, Event: EventPointer) {
        let context = opened(context)?;
        let event = Event.get().ok_or(Error::InvalidHandle)?;
        context.set_event(event.EventId, event.EventData.EventType)
    }

    /// Makes an event unsignalled.
    fn hsaKmtResetEvent, hsaKmtResetEventCtx(context, Event: EventPointer) {
        let context = opened(context)?;
        let event = Event.get().ok_or(Error::InvalidHandle)?;
        context.reset_event(event.EventId, event.EventData.EventType)
    }

    /// Says that there is an event, as the original does: not which state it is in.
    fn hsaKmtQueryEventState, hsaKmtQueryEventStateCtx(context, Event: EventPointer) {
        opened(context)?;
        if Event.is_null() { Err(Error::InvalidHandle) } else { Ok(()) }
    }

    /// Waits for an event.
    fn hsaKmtWaitOnEvent, hsaKmtWaitOnEventCtx(context, Event: EventPointer, Milliseconds: u32) {
        wait_one(context, Event, Milliseconds, InOut::missing())
    }

    /// Waits for an event, with its age.
    fn hsaKmtWaitOnEvent_Ext, hsaKmtWaitOnEvent_ExtCtx(
        context,
        Event: EventPointer,
        Milliseconds: u32,
        event_age: InOut<u64>,
    ) {
        wait_one(context, Event, Milliseconds, event_age)
    }

    /// Waits for one event or for all of them.
    fn hsaKmtWaitOnMultipleEvents, hsaKmtWaitOnMultipleEventsCtx(
        context,
        Events: In<EventPointer>,
        NumEvents: u32,
        WaitOnAll: CBool,
        Milliseconds: u32,
    ) {
        wait_all(context, Events, NumEvents, WaitOnAll, Milliseconds, InOut::missing())
    }

    /// Waits for one event or for all of them, with their ages.
    fn hsaKmtWaitOnMultipleEvents_Ext, hsaKmtWaitOnMultipleEvents_ExtCtx(
        context,
        Events: In<EventPointer>,
        NumEvents: u32,
        WaitOnAll: CBool,
        Milliseconds: u32,
        event_age: InOut<u64>,
    ) {
        wait_all(context, Events, NumEvents, WaitOnAll, Milliseconds, event_age)
    }
}

fn wait_one(context: Context, event: EventPointer, milliseconds: u32, ages: InOut<u64>) -> Result<()> {
    if event.is_null() {
        return Err(Error::InvalidHandle);
    }
    wait(opened(context)?, &[event], true, milliseconds, ages)
}

fn wait_all(
    context: Context,
    events: In<EventPointer>,
    count: u32,
    all: CBool,
    milliseconds: u32,
    ages: InOut<u64>,
) -> Result<()> {
    let context = opened(context)?;
    if events.is_missing() {
        return Err(Error::InvalidHandle);
    }
    wait(context, &events.copy(count as usize)?, all != 0, milliseconds, ages)
}

fn wait(context: Context, events: &[EventPointer], all: bool, milliseconds: u32, ages: InOut<u64>) -> Result<()> {
    let asked = ages.input().copy(events.len())?;
    let mut waits = Vec::new();
    waits.try_reserve_exact(events.len()).map_err(|_| Error::NoMemory)?;
    for (index, event) in events.iter().enumerate() {
        let event = event.get().ok_or(Error::InvalidHandle)?;
        let age = asked.get(index).copied().unwrap_or_default();
        waits.push(Wait { id: event.EventId, kind: event.EventData.EventType, age, news: None });
    }
    let result = context.wait_events(&mut waits, all, milliseconds);
    for (event, wait) in events.iter().zip(&waits) {
        if let Some(news) = wait.news {
            event.tell(news_words(news, event));
        }
    }
    if let Some(mut place) = ages.out().optional() {
        place.fill(waits.iter().map(|wait| wait.age));
    }
    result
}

/// News as the event's union. Bits that no news sets stay as they were.
fn news_words(news: News, event: &EventPointer) -> [u32; 5] {
    let [.., before, last] = event.get().map_or([0; 5], |event| event.EventData.EventData);
    match news {
        News::MemoryFault { node, address, failure } => {
            let [low, high] = halves(address);
            // GpuAccess and the reserved bits.
            [node.0, low, high, failure | (before & !0x1f7), FATAL_PROCESS]
        }
        News::HwException { node, reset_type, reset_cause, memory_lost } => {
            [node.0, reset_type, memory_lost, reset_cause, last]
        }
    }
}
