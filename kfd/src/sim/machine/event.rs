//! Events: made, set, reset, waited for. A signal event has a slot on the process's event page; nothing here writes
//! the page, since no simulated GPU signals.
//!
//! A wait that cannot be answered at once becomes a [`Wait`]: whoever carries the calls asks again after every
//! SET_EVENT and at the deadline.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hsakmt_core::driver::Errno;
use zerocopy::IntoBytes;

use super::{Answer, PAGE, Process, ProcessId, World, typed};
use crate::sim::caller::Caller;
use crate::uapi::{
    CreateEventArgs, DestroyEventArgs, EventData, HsaSignalEventData, KFD_IOC_EVENT_SIGNAL,
    KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_FAIL, KFD_IOC_WAIT_RESULT_TIMEOUT, ResetEventArgs, SetEventArgs,
    WaitEventsArgs, from_caller, overlay,
};

/// Slots on an event page.
const SIGNAL_LIMIT: u32 = 4096;
/// Other events are numbered from here.
const FIRST_OTHER: u32 = 0x4000_0000;
/// Where the kfd file shows the event page of a process that did not bring one.
pub(crate) const EVENT_PAGE_AT: u64 = 0x4000_0000;

#[derive(Debug)]
struct Event {
    signal: bool,
    auto_reset: bool,
    set: bool,
    age: u64,
}

/// A process's events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    page: bool,
    list: BTreeMap<u32, Event>,
}

/// A wait that sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub(crate) args: WaitEventsArgs,
    /// When it times out, if ever.
    pub deadline: Option<Instant>,
}

impl World {
    pub(crate) fn create_event(&mut self, p: &mut Process, args: &mut CreateEventArgs) -> Result<(), Errno> {
        if args.event_page_offset != 0 {
            if p.events.page {
                return Err(Errno::INVAL);
            }
            self.gpu((args.event_page_offset >> 32) as u32)?;
            let bo = p.bos.get(&args.event_page_offset).ok_or(Errno::INVAL)?;
            if bo.size < PAGE {
                return Err(Errno::INVAL);
            }
            p.events.page = true;
        }
        let signal = args.event_type == KFD_IOC_EVENT_SIGNAL;
        let (first, last) = if signal { (1, SIGNAL_LIMIT - 1) } else { (FIRST_OTHER, u32::MAX - 1) };
        let taken = &p.events.list;
        let id = (first..=last).find(|id| !taken.contains_key(id)).ok_or(Errno(libc::ENOSPC))?;
        args.event_page_offset = 0;
        if signal {
            // As the kernel: whoever made the page, and for every event.
            p.events.page = true;
            (args.event_page_offset, args.event_slot_index) = (EVENT_PAGE_AT, id);
        }
        (args.event_id, args.event_trigger_data) = (id, id);
        p.events.list.insert(id, Event { signal, auto_reset: args.auto_reset != 0, set: false, age: 1 });
        Ok(())
    }

    pub(crate) fn destroy_event(&mut self, p: &mut Process, args: &mut DestroyEventArgs) -> Result<(), Errno> {
        self.event_changes += 1;
        p.events.list.remove(&args.event_id).map(drop).ok_or(Errno::INVAL)
    }

    pub(crate) fn set_event(&mut self, p: &mut Process, args: &mut SetEventArgs) -> Result<(), Errno> {
        let event = p.events.list.get_mut(&args.event_id).filter(|event| event.signal).ok_or(Errno::INVAL)?;
        event.set = true;
        self.event_changes += 1;
        event.age += 1;
        Ok(())
    }

    pub(crate) fn reset_event(&self, p: &mut Process, args: &mut ResetEventArgs) -> Result<(), Errno> {
        let event = p.events.list.get_mut(&args.event_id).filter(|event| event.signal).ok_or(Errno::INVAL)?;
        event.set = false;
        Ok(())
    }

    pub(crate) fn wait_events(&mut self, p: &mut Process, bytes: &mut [u8], caller: &mut dyn Caller) -> Answer {
        let args: WaitEventsArgs = from_caller(bytes);
        let deadline = match args.timeout {
            u32::MAX => None,
            milliseconds => Some(Instant::now() + Duration::from_millis(milliseconds.into())),
        };
        let mut sleep = false;
        let result = typed(bytes, |args: &mut WaitEventsArgs| {
            let done = look(p, args, args.timeout == 0, caller)?;
            sleep = !done;
            Ok(())
        });
        if sleep { Answer::Sleep(Wait { args, deadline }) } else { Answer::Done(result) }
    }

    pub(crate) fn wait_again(
        &mut self,
        process: ProcessId,
        wait: Wait,
        args: &mut WaitEventsArgs,
        caller: &mut dyn Caller,
    ) -> Answer {
        let Some(p) = self.processes.get_mut(&process) else { return Answer::Done(Err(Errno(libc::EINTR))) };
        let late = wait.deadline.is_some_and(|deadline| deadline <= Instant::now());
        match look(p, args, late, caller) {
            Ok(true) => Answer::Done(Ok(())),
            Ok(false) => Answer::Sleep(wait),
            Err(error) => Answer::Done(Err(error)),
        }
    }
}

/// Looks whether a wait is over; `late` ends it in any case.
fn look(p: &mut Process, args: &mut WaitEventsArgs, late: bool, caller: &mut dyn Caller) -> Result<bool, Errno> {
    args.wait_result = KFD_IOC_WAIT_RESULT_FAIL;
    if args.num_events > SIGNAL_LIMIT * 4 {
        return Err(Errno::NOMEM);
    }
    let mut list = vec![EventData::default(); args.num_events as usize];
    caller.read(args.events_ptr, list.as_mut_slice().as_mut_bytes())?;
    let mut ready = Vec::with_capacity(list.len());
    for data in &list {
        let event = p.events.list.get(&data.event_id).ok_or(Errno::INVAL)?;
        let known = data.signal_event_data().last_event_age;
        ready.push(event.set || (event.signal && known != 0 && known != event.age));
    }
    let over = if args.wait_for_all != 0 { ready.iter().all(|ready| *ready) } else { ready.contains(&true) };
    if !over && !list.is_empty() {
        args.wait_result = KFD_IOC_WAIT_RESULT_TIMEOUT;
        return Ok(late);
    }
    for (data, _) in list.iter_mut().zip(&ready).filter(|(_, ready)| **ready) {
        let Some(event) = p.events.list.get_mut(&data.event_id) else { continue };
        event.set &= !event.auto_reset;
        if event.signal && data.signal_event_data().last_event_age != 0 {
            data.payload = overlay(&HsaSignalEventData { last_event_age: event.age });
        }
    }
    caller.write(args.events_ptr, list.as_slice().as_bytes())?;
    args.wait_result = KFD_IOC_WAIT_RESULT_COMPLETE;
    Ok(true)
}
