//! Events: created, set, reset, waited for. A signal event owns one slot of the process's event page.
//!
//! A wait that cannot be answered at once becomes a [`Wait`] and a [`Waiter`]. As in the kernel, setting an event marks
//! every waiter that waits for it at that moment, and an auto-reset event that has a waiter does not stay set. The front
//! end asks again after every change and at the deadline, and abandons the wait if the thread is gone. What the GPU does
//! to events is in `interrupt`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hsakmt_core::driver::Errno;
use hsakmt_core::flags::IocFlags;
use zerocopy::IntoBytes;

use super::bus::{Place, Poke, RESTING};
use super::{Answer, PAGE, PERM, Process, ProcessId, World, typed};
use crate::opcode::Command;
use crate::sim::caller::Caller;
use crate::uapi::{
    CreateEventArgs, DestroyEventArgs, EventData, HsaHwExceptionData, HsaMemoryExceptionData, HsaSignalEventData,
    KFD_IOC_EVENT_DEBUG_EVENT, KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_MEMORY, KFD_IOC_EVENT_SIGNAL,
    KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_FAIL, KFD_IOC_WAIT_RESULT_TIMEOUT, KFD_SIGNAL_EVENT_LIMIT,
    ResetEventArgs, RuntimeEnableArgs, SetEventArgs, WaitEventsArgs, from_caller, overlay,
};

/// Events without a slot are numbered from here.
const FIRST_OTHER: u32 = 0x4000_0000;
/// Where the kfd file shows the event page of a process that did not bring one.
pub(crate) const EVENT_PAGE_AT: u64 = 0x4000_0000;
/// Bytes of a slot.
pub(crate) const SLOT: u64 = 8;
/// Bytes of that page.
pub(crate) const EVENT_PAGE_BYTES: u64 = KFD_SIGNAL_EVENT_LIMIT as u64 * SLOT;
/// More waits in one call than this are more memory than the kernel gives.
const WAITS_LIMIT: u32 = KFD_SIGNAL_EVENT_LIMIT * 4;

/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: u32,
    auto_reset: bool,
    set: bool,
    age: u64,
    pub(crate) memory: HsaMemoryExceptionData,
    pub(crate) hardware: HsaHwExceptionData,
}

impl Event {
    /// Whether it has a slot on the event page, which the GPU writes.
    pub(crate) fn has_slot(&self) -> bool {
        matches!(self.kind, KFD_IOC_EVENT_SIGNAL | KFD_IOC_EVENT_DEBUG_EVENT)
    }
}

/// Where a process's event page is, and how many slots it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) place: Place,
    pub(crate) slots: u32,
}

/// A call that waits.
#[derive(Debug)]
struct Waiter {
    events: Vec<u32>,
    /// Which of them were set since the call began.
    activated: Vec<bool>,
    /// One of them is gone.
    lost: bool,
}

/// A process's events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) page: Option<Page>,
    pub(crate) list: BTreeMap<u32, Event>,
    waiters: BTreeMap<u64, Waiter>,
    next_waiter: u64,
}

impl Events {
    /// Sets an event and marks who waits for it.
    pub(crate) fn set(&mut self, id: u32) {
        let Some(event) = self.list.get_mut(&id) else { return };
        let mut awaited = false;
        for waiter in self.waiters.values_mut() {
            for (mark, _) in waiter.activated.iter_mut().zip(&waiter.events).filter(|(_, event)| **event == id) {
                awaited |= !*mark;
                *mark = true;
            }
        }
        event.age = event.age.checked_add(1).unwrap_or(2);
        event.set = !event.auto_reset || !awaited;
    }

    /// Whether an event is set.
    #[cfg(test)]
    pub(crate) fn is_set(&self, id: u32) -> bool {
        self.list.get(&id).is_some_and(|event| event.set)
    }

    /// Where an event's slot is.
    pub(crate) fn slot(&self, id: u32) -> Option<Place> {
        let page = self.page.filter(|page| id < page.slots)?;
        Some(page.place.offset(u64::from(id) * SLOT))
    }
}

/// A call that sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    call: Sleeping,
    /// When it times out, if ever.
    pub deadline: Option<Instant>,
}

/// Which call, with its argument.
#[derive(Clone, Copy, Debug)]
enum Sleeping {
    Events { args: WaitEventsArgs, waiter: u64 },
    Debugger(RuntimeEnableArgs),
}

impl Wait {
    /// For the debugger's answer.
    pub(super) fn for_debugger(args: RuntimeEnableArgs) -> Wait {
        Wait { call: Sleeping::Debugger(args), deadline: None }
    }

    /// Which ioctl it is, and its argument as it is now.
    pub(crate) fn argument(&self) -> (Command, &[u8]) {
        match &self.call {
            Sleeping::Events { args, .. } => (Command::WaitEvents, args.as_bytes()),
            Sleeping::Debugger(args) => (Command::RuntimeEnable, args.as_bytes()),
        }
    }
}

impl World {
    pub(crate) fn create_event(&mut self, p: &mut Process, args: &mut CreateEventArgs) -> Result<(), Errno> {
        if args.event_page_offset != 0 {
            self.bring_page(p, args.event_page_offset)?;
        }
        let event = Event {
            kind: args.event_type,
            auto_reset: args.auto_reset != 0,
            set: false,
            age: 1,
            memory: HsaMemoryExceptionData::default(),
            hardware: HsaHwExceptionData::default(),
        };
        args.event_page_offset = 0;
        let taken = &p.events.list;
        let id = if event.has_slot() {
            let own = Page { place: Place::Kfd(EVENT_PAGE_AT), slots: KFD_SIGNAL_EVENT_LIMIT };
            let page = *p.events.page.get_or_insert(own);
            let id = (1..page.slots).find(|id| !taken.contains_key(id)).ok_or(Errno(libc::ENOSPC))?;
            let place = page.place.offset(u64::from(id) * SLOT);
            self.pokes.push(Poke { place, bytes: vec![RESTING; SLOT as usize] });
            (args.event_page_offset, args.event_slot_index) = (EVENT_PAGE_AT, id);
            id
        } else {
            (FIRST_OTHER..u32::MAX).find(|id| !taken.contains_key(id)).ok_or(Errno(libc::ENOSPC))?
        };
        (args.event_id, args.event_trigger_data) = (id, id);
        p.events.list.insert(id, event);
        Ok(())
    }

    /// Takes a buffer object of the process as its event page, and resets every slot.
    fn bring_page(&mut self, p: &mut Process, handle: u64) -> Result<(), Errno> {
        if p.events.page.is_some() {
            return Err(Errno::INVAL);
        }
        let gpu = self.gpu((handle >> 32) as u32)?;
        p.bound(gpu)?;
        let bo = p.bos.get(&handle).ok_or(Errno::INVAL)?;
        let memory = self.memories.get(&bo.memory).ok_or(Errno::INVAL)?;
        if !memory.flags.intersects(IocFlags::VRAM | IocFlags::GTT) {
            return Err(PERM);
        }
        if memory.size < PAGE {
            return Err(Errno::INVAL);
        }
        let place = Place::Device { gpu: memory.gpu, offset: memory.offset };
        let slots = (memory.size / SLOT).min(KFD_SIGNAL_EVENT_LIMIT.into()) as u32;
        self.pokes.push(Poke { place, bytes: vec![RESTING; slots as usize * SLOT as usize] });
        p.events.page = Some(Page { place, slots });
        Ok(())
    }

    pub(crate) fn destroy_event(&mut self, p: &mut Process, args: &mut DestroyEventArgs) -> Result<(), Errno> {
        p.events.list.remove(&args.event_id).ok_or(Errno::INVAL)?;
        for waiter in p.events.waiters.values_mut() {
            waiter.lost |= waiter.events.contains(&args.event_id);
        }
        self.event_changes += 1;
        Ok(())
    }

    pub(crate) fn set_event(&mut self, p: &mut Process, args: &mut SetEventArgs) -> Result<(), Errno> {
        signal(p, args.event_id)?;
        p.events.set(args.event_id);
        self.event_changes += 1;
        Ok(())
    }

    pub(crate) fn reset_event(&self, p: &mut Process, args: &mut ResetEventArgs) -> Result<(), Errno> {
        signal(p, args.event_id)?.set = false;
        Ok(())
    }

    pub(crate) fn wait_events(&mut self, p: &mut Process, bytes: &mut [u8], caller: &mut dyn Caller) -> Answer {
        let args: WaitEventsArgs = from_caller(bytes);
        let deadline = match args.timeout {
            u32::MAX => None,
            milliseconds => Some(Instant::now() + Duration::from_millis(milliseconds.into())),
        };
        let mut waiter = 0;
        let result = typed(bytes, |args: &mut WaitEventsArgs| {
            args.wait_result = KFD_IOC_WAIT_RESULT_FAIL;
            waiter = begin(p, args, caller)?;
            finish(p, waiter, args, args.timeout == 0, caller)
        });
        match result {
            Ok(()) if p.events.waiters.contains_key(&waiter) => {
                Answer::Sleep(Wait { call: Sleeping::Events { args, waiter }, deadline })
            }
            result => Answer::Done(result),
        }
    }

    /// Answers a sleeping call if it is over. Its argument is then what the caller gets back.
    pub(crate) fn wait_again(&mut self, process: ProcessId, wait: &mut Wait, caller: &mut dyn Caller) -> Answer {
        let Some(mut p) = self.processes.remove(&process) else { return Answer::Done(Err(Errno(libc::EINTR))) };
        let asleep = *wait;
        let late = wait.deadline.is_some_and(|deadline| deadline <= Instant::now());
        let answer = match &mut wait.call {
            Sleeping::Events { args, waiter } => match finish(&mut p, *waiter, args, late, caller) {
                Ok(()) if p.events.waiters.contains_key(waiter) => Answer::Sleep(asleep),
                result => Answer::Done(result),
            },
            Sleeping::Debugger(_) => self.runtime_answered(&mut p, asleep),
        };
        self.processes.insert(process, p);
        answer
    }

    /// Ends a sleeping wait whose thread is gone: it no longer takes part in what an event does.
    pub fn abandon(&mut self, process: ProcessId, mut wait: Wait) {
        self.wait_interrupted(process, &mut wait);
    }

    /// Ends a sleeping wait; a repeated call goes on with what is left of its time.
    pub(crate) fn wait_interrupted(&mut self, process: ProcessId, wait: &mut Wait) {
        let Some(p) = self.processes.get_mut(&process) else { return };
        match &mut wait.call {
            Sleeping::Events { args, waiter } => {
                p.events.waiters.remove(waiter);
                args.wait_result = KFD_IOC_WAIT_RESULT_FAIL;
                if let Some(deadline) = wait.deadline {
                    let left = deadline.saturating_duration_since(Instant::now()).as_millis();
                    args.timeout = u32::try_from(left).unwrap_or(u32::MAX - 1);
                }
            }
            Sleeping::Debugger(_) => p.interrupt_runtime(),
        }
    }
}

/// An event that a process may set: others are the GPU's.
fn signal(p: &mut Process, id: u32) -> Result<&mut Event, Errno> {
    p.events.list.get_mut(&id).filter(|event| event.kind == KFD_IOC_EVENT_SIGNAL).ok_or(Errno::INVAL)
}

fn read_list(args: &WaitEventsArgs, caller: &mut dyn Caller) -> Result<Vec<EventData>, Errno> {
    if args.num_events > WAITS_LIMIT {
        return Err(Errno::NOMEM);
    }
    let mut list = vec![EventData::default(); args.num_events as usize];
    caller.read(args.events_ptr, list.as_mut_slice().as_mut_bytes())?;
    Ok(list)
}

/// A new waiter, marked with what is set already. An auto-reset event ends being set here.
fn begin(p: &mut Process, args: &WaitEventsArgs, caller: &mut dyn Caller) -> Result<u64, Errno> {
    let list = read_list(args, caller)?;
    let mut waiter = Waiter { events: Vec::new(), activated: Vec::new(), lost: false };
    for data in &list {
        let event = p.events.list.get_mut(&data.event_id).ok_or(Errno::INVAL)?;
        let known = data.signal_event_data().last_event_age;
        let aged = event.kind == KFD_IOC_EVENT_SIGNAL && known != 0 && known != event.age;
        waiter.events.push(data.event_id);
        waiter.activated.push(event.set || aged);
        event.set &= !event.auto_reset;
    }
    p.events.next_waiter += 1;
    p.events.waiters.insert(p.events.next_waiter, waiter);
    Ok(p.events.next_waiter)
}

/// Ends a wait that is over, or, `late`, in any case; the waiter is then gone. Otherwise changes nothing.
fn finish(
    p: &mut Process,
    id: u64,
    args: &mut WaitEventsArgs,
    late: bool,
    caller: &mut dyn Caller,
) -> Result<(), Errno> {
    let waiter = p.events.waiters.get(&id).ok_or(Errno(libc::EINTR))?;
    let complete = match args.wait_for_all {
        0 => waiter.events.is_empty() || waiter.activated.contains(&true),
        _ => !waiter.activated.contains(&false),
    };
    args.wait_result = KFD_IOC_WAIT_RESULT_TIMEOUT;
    if !(waiter.lost || complete || late) {
        return Ok(());
    }
    let Some(waiter) = p.events.waiters.remove(&id) else { return Ok(()) };
    args.wait_result = KFD_IOC_WAIT_RESULT_FAIL;
    if waiter.lost {
        return Err(Errno(libc::EIO));
    }
    if complete {
        copy_data(p, &waiter, args, caller)?;
    }
    args.wait_result = if complete { KFD_IOC_WAIT_RESULT_COMPLETE } else { KFD_IOC_WAIT_RESULT_TIMEOUT };
    Ok(())
}

/// Writes what the events brought into the caller's list.
fn copy_data(p: &Process, waiter: &Waiter, args: &WaitEventsArgs, caller: &mut dyn Caller) -> Result<(), Errno> {
    let mut list = read_list(args, caller)?;
    for ((data, id), _) in list.iter_mut().zip(&waiter.events).zip(&waiter.activated).filter(|(_, mark)| **mark) {
        let event = p.events.list.get(id).ok_or(Errno::INVAL)?;
        data.payload = match event.kind {
            KFD_IOC_EVENT_MEMORY => overlay(&event.memory),
            KFD_IOC_EVENT_HW_EXCEPTION => overlay(&event.hardware),
            KFD_IOC_EVENT_SIGNAL if data.signal_event_data().last_event_age != 0 => {
                overlay(&HsaSignalEventData { last_event_age: event.age })
            }
            _ => data.payload,
        };
    }
    caller.write(args.events_ptr, list.as_slice().as_bytes())
}
