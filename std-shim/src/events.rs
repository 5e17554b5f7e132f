//! Events: made, signalled, waited for, and what a fault or a reset brings.
//!
//! In: numbers of events. Out: what [`Context::wait_events`] was woken by, as node ids. The event page, which GPUs write
//! slots of, is the memory manager's where GPUs are discrete, and the kernel's elsewhere; either is made by the first event
//! of an opening. What never happens: a wait that holds the writer's lock, or one that a close cuts short: the device stays
//! open until the wait ends.
//!
//! A process has one event page as long as it lives, whatever it closes: the kernel neither frees the first nor takes a
//! second. So a close leaves it where it is, and the next opening goes on with it.

use hsakmt_core::driver::Errno;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::{GpuId, NodeId};
use hsakmt_kfd::device::{EventRequest, KfdEvent};
use hsakmt_kfd::topology::Topology;
use hsakmt_kfd::uapi::{
    EventData, HsaSignalEventData, KFD_IOC_EVENT_DEBUG_EVENT, KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_MEMORY,
    KFD_IOC_EVENT_SIGNAL, KFD_IOC_WAIT_RESULT_TIMEOUT, KFD_SIGNAL_EVENT_LIMIT, overlay,
};

use crate::backend::Services;
use crate::context::{Context, ContextManager};
use crate::system::opened_snapshot;

/// The kinds of event are below this.
const KINDS: u32 = KFD_IOC_EVENT_MEMORY + 1;

/// Bytes of a slot on the event page.
const SLOT: usize = 8;

/// Slots of the event page of old kernels, which is one page long.
const FEW_SLOTS: u32 = 256;

/// What a new event is to be.
#[derive(Clone, Copy, Debug)]
pub struct EventSpec {
    /// `KFD_IOC_EVENT_*`.
    pub kind: u32,
    /// For some kinds only.
    pub node: u32,
    /// It stays signalled until it is reset.
    pub manual_reset: bool,
    /// It is signalled from the start; of a signal or debug event only.
    pub signaled: bool,
}

/// A new event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number.
    pub id: u32,
    /// Address of its slot on the event page; 0 if it has none.
    pub slot: usize,
    /// What a GPU writes to signal it.
    pub trigger: u32,
}

/// One event to wait for.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Its number.
    pub id: u32,
    /// `KFD_IOC_EVENT_*`.
    pub kind: u32,
    /// Of a signal event: how often it had been signalled when the caller last looked; 0 does not ask. The wait ends at once
    /// if that was not the last time. Afterwards, how often it has been signalled.
    pub age: u64,
    /// What the wait brought.
    pub news: Option<News>,
}

/// What an event brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A GPU accessed memory that it may not, or memory that is broken.
    MemoryFault {
        /// The GPU's node.
        node: NodeId,
        /// Where.
        address: u64,
        /// Bits of `HsaAccessAttributeFailure`.
        failure: u32,
    },
    /// A GPU was reset.
    HwException {
        /// The GPU's node.
        node: NodeId,
        /// The whole GPU (0) or an engine (1).
        reset_type: u32,
        /// A hang (0) or an ECC error (1).
        reset_cause: u32,
        /// Whether VRAM lost its contents.
        memory_lost: u32,
    },
}

/// A context's event page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventPage {
    /// Of this opening; 0 before the first event.
    address: usize,
    slots: u32,
    /// The manager knows `address` as an object.
    managed: bool,
    /// Of an opening that was closed.
    kept: Option<Kept>,
}

/// Addresses that showed an event page, and go on to.
#[derive(Clone, Copy, Debug)]
struct Kept {
    address: usize,
    slots: u32,
}

impl EventPage {
    /// At the last close: lets go of the page without ending it, so that the next opening can go on with it. `keep` is off for
    /// a context whose kernel process ends with it.
    pub(crate) fn close(&mut self, manager: &mut ContextManager, keep: bool) {
        let address = std::mem::take(&mut self.address);
        if keep && address != 0 && (!self.managed || manager.leave(address).is_ok()) {
            self.kept = Some(Kept { address, slots: self.slots });
        }
    }

    /// Where a slot is.
    fn slot(&self, event: &KfdEvent) -> usize {
        let there = event.page_offset > 0 && event.slot < self.slots && self.address != 0;
        if there { self.address + event.slot as usize * SLOT } else { 0 }
    }
}

/// Whether the kernel alone signals events of this kind.
fn is_system(kind: u32) -> bool {
    kind != KFD_IOC_EVENT_SIGNAL && kind != KFD_IOC_EVENT_DEBUG_EVENT
}

/// Bytes of an event page with so many slots.
fn page_bytes(slots: u32) -> usize {
    (slots as usize * SLOT).next_multiple_of(rustix::param::page_size())
}

/// Shows the kernel's event page: where and as long as an opening before had it, else as long as the kernel has it.
fn show(device: &dyn Services, offset: u64, kept: Option<Kept>) -> Result<(usize, u32), Errno> {
    let map = |slots: u32, place: Option<usize>| {
        // SAFETY: `place` is where an opening of this process has left a page with as many slots (`EventPage::close`); nothing
        // else has got those addresses since.
        let shown = unsafe { device.map_event_page(offset, page_bytes(slots), place) };
        shown.map(|address| (address, slots))
    };
    match kept {
        Some(kept) => map(kept.slots, Some(kept.address)),
        None => map(KFD_SIGNAL_EVENT_LIMIT, None).or_else(|_| map(FEW_SLOTS, None)),
    }
}

/// Makes an event and, if it is the first of this opening, the event page.
fn make(
    device: &dyn Services,
    manager: &mut ContextManager,
    page: &mut EventPage,
    request: EventRequest,
) -> Result<Event> {
    let event = if manager.is_dgpu() && page.address == 0 {
        make_with_page(device, manager, page, request)?
    } else {
        device.create_event(request).map_err(|_| Error::Failed)?
    };
    if page.address == 0 && event.page_offset > 0 {
        let Ok((address, slots)) = show(device, event.page_offset, page.kept) else {
            let _ = device.destroy_event(event.id);
            return Err(Error::Failed);
        };
        *page = EventPage { address, slots, managed: false, kept: None };
    }
    Ok(Event { id: event.id, slot: page.slot(&event), trigger: event.trigger })
}

/// The first event where GPUs are discrete: the kernel is given memory that all GPUs have mapped as the event page. If it
/// has one, of an opening before, that one stays.
fn make_with_page(
    device: &dyn Services,
    manager: &mut ContextManager,
    page: &mut EventPage,
    request: EventRequest,
) -> Result<KfdEvent> {
    let flags = MemFlags::HOST_ACCESS | MemFlags::EXECUTE_ACCESS | MemFlags::NON_PAGED | MemFlags::UNCACHED;
    let bytes = page_bytes(KFD_SIGNAL_EVENT_LIMIT);
    let address = manager.allocate(NodeId(0), bytes, 0, flags, 0).map_err(|_| Error::Failed)?;
    let mapped = manager.map(address, bytes);
    let handle = manager.kernel_handle(address).filter(|_| mapped.is_ok());
    let first = handle.map(|handle| device.create_event(EventRequest { page: Some(handle), ..request }));
    if let Some(Ok(event)) = first {
        // What was kept was of a kernel process that has ended.
        *page = EventPage { address, slots: KFD_SIGNAL_EVENT_LIMIT, managed: true, kept: None };
        return Ok(event);
    }
    let _ = manager.unmap(address);
    let _ = manager.free(address);
    let kept = page.kept.ok_or(Error::Failed)?;
    let event = device.create_event(request).map_err(|_| Error::Failed)?;
    *page = EventPage { address: kept.address, slots: kept.slots, managed: false, kept: None };
    Ok(event)
}

impl Context {
    /// Makes an event. Blocking: it waits for other writers, since the first event of an opening makes the event page.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidParameter`] for a kind that does not exist; [`Error::Failed`] if the kernel
    /// refuses, which has at most 4,096 signal and debug events for a process.
    #[doc(alias = "hsaKmtCreateEvent")]
    pub fn create_event(self, spec: EventSpec) -> Result<Event> {
        let connection = self.connection()?;
        if spec.kind >= KINDS {
            return Err(Error::InvalidParameter);
        }
        let device = connection.device();
        let request = EventRequest { kind: spec.kind, node: spec.node, auto_reset: !spec.manual_reset, page: None };
        let event = self.manage_events(|manager, page| make(device, manager, page, request))?;
        if spec.signaled && !is_system(spec.kind) && device.set_event(event.id).is_err() {
            let _ = device.destroy_event(event.id);
            return Err(Error::Failed);
        }
        Ok(event)
    }

    /// Ends an event. A wait for it ends with an error.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::Failed`] for an unknown event.
    #[doc(alias = "hsaKmtDestroyEvent")]
    pub fn destroy_event(self, event: u32) -> Result<()> {
        self.connection()?.device().destroy_event(event).map_err(|_| Error::Failed)
    }

    /// Signals an event.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::Failed`] for an unknown event, and for one that only the kernel signals.
    #[doc(alias = "hsaKmtSetEvent")]
    pub fn set_event(self, event: u32, kind: u32) -> Result<()> {
        let connection = self.connection()?;
        if is_system(kind) {
            return Err(Error::Failed);
        }
        connection.device().set_event(event).map_err(|_| Error::Failed)
    }

    /// Makes an event unsignalled.
    ///
    /// # Errors
    /// As [`Context::set_event`].
    #[doc(alias = "hsaKmtResetEvent")]
    pub fn reset_event(self, event: u32, kind: u32) -> Result<()> {
        let connection = self.connection()?;
        if is_system(kind) {
            return Err(Error::Failed);
        }
        connection.device().reset_event(event).map_err(|_| Error::Failed)
    }

    /// Waits until one event, or all of them, are signalled, at most `milliseconds`; `u32::MAX` is for ever. Blocking, without
    /// any lock: other calls, a close too, go on meanwhile. Signals do not end it.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::TimedOut`]; [`Error::Failed`] for an unknown event; [`Error::NoMemory`];
    /// [`Error::InvalidNode`] for news of a GPU that is not in the topology snapshot.
    #[doc(alias = "hsaKmtWaitOnMultipleEvents_Ext")]
    pub fn wait_events(self, events: &mut [Wait], all: bool, milliseconds: u32) -> Result<()> {
        let connection = self.connection()?;
        let mut data = Vec::new();
        data.try_reserve_exact(events.len()).map_err(|_| Error::NoMemory)?;
        data.extend(events.iter().map(request));
        let result = connection.device().wait_events(&mut data, all, milliseconds).map_err(|_| Error::Failed);
        let result = result.and_then(|result| match result {
            KFD_IOC_WAIT_RESULT_TIMEOUT => Err(Error::TimedOut),
            _ => self.take_news(events, &data),
        });
        for (event, data) in events.iter_mut().zip(&data).filter(|(event, _)| event.kind == KFD_IOC_EVENT_SIGNAL) {
            event.age = data.signal_event_data().last_event_age;
        }
        result
    }

    /// Notes what the events brought, up to the first of a GPU without a node.
    fn take_news(self, events: &mut [Wait], data: &[EventData]) -> Result<()> {
        let mut topology = None;
        for (event, data) in events.iter_mut().zip(data).filter(|(event, data)| brings(event.kind, data) != 0) {
            let topology = match &topology {
                Some(topology) => topology,
                None => topology.insert(opened_snapshot(self)?),
            };
            event.news = Some(news(event.kind, data, topology)?);
            if let Some(News::MemoryFault { node, address, failure }) = event.news {
                self.log_fault(node, address, failure);
            }
        }
        Ok(())
    }

    /// Says what is at the address of a fault.
    fn log_fault(self, node: NodeId, address: u64, failure: u32) {
        if !log::log_enabled!(log::Level::Error) {
            return;
        }
        let why = match failure & 7 {
            failure if failure & 1 != 0 => "there is no page",
            failure if failure & 2 != 0 => "the page is read-only",
            failure if failure & 4 != 0 => "the page is not executable",
            _ => "the memory is broken",
        };
        let object = self.query_pointer(address as usize, |info| (info.kind, info.gpu_address, info.size));
        match object {
            Ok((kind, start, size)) => log::error!(
                "memory fault of node {} at {address:#x}: {why}; the address is in {kind:?}, {size} bytes at {start:#x}",
                node.0
            ),
            Err(_) => log::error!("memory fault of node {} at {address:#x}: {why}; no object is there", node.0),
        }
    }
}

/// What the kernel is asked about an event.
fn request(wait: &Wait) -> EventData {
    let mut data = EventData { event_id: wait.id, ..Default::default() };
    if wait.kind == KFD_IOC_EVENT_SIGNAL {
        data.payload = overlay(&HsaSignalEventData { last_event_age: wait.age });
    }
    data
}

/// The GPU that an event has news of; 0 for none.
fn brings(kind: u32, data: &EventData) -> u32 {
    match kind {
        KFD_IOC_EVENT_MEMORY => data.memory_exception_data().gpu_id,
        KFD_IOC_EVENT_HW_EXCEPTION => data.hw_exception_data().gpu_id,
        _ => 0,
    }
}

/// The kernel's words for what happened, in the C library's.
fn news(kind: u32, data: &EventData, topology: &Topology) -> Result<News> {
    let node = topology.node_of(GpuId(brings(kind, data))).ok_or(Error::InvalidNode)?;
    if kind == KFD_IOC_EVENT_HW_EXCEPTION {
        let it = data.hw_exception_data();
        let (reset_type, reset_cause, memory_lost) = (it.reset_type, it.reset_cause, it.memory_lost);
        return Ok(News::HwException { node, reset_type, reset_cause, memory_lost });
    }
    let it = data.memory_exception_data();
    let bit = |value: u32, bit: u32| (value & 1) << bit;
    let ecc = u32::from(matches!(it.error_type, 1 | 2));
    let failure = bit(it.failure.not_present, 0)
        | bit(it.failure.read_only, 1)
        | bit(it.failure.no_execute, 2)
        | bit(ecc, 4)
        | bit(it.failure.imprecise, 5)
        | (it.error_type & 7) << 6;
    Ok(News::MemoryFault { node, address: it.va, failure })
}

#[cfg(test)]
mod tests {
    use hsakmt_kfd::topology::Node;
    use hsakmt_kfd::uapi::{HsaHwExceptionData, HsaMemoryExceptionData, MemoryExceptionFailure};

    use super::*;

    fn topology() -> Topology {
        let node = |gpu_id| Node { gpu_id, ..Node::default() };
        Topology { nodes: vec![node(0), node(0xa1), node(0xa2)], ..Topology::default() }
    }

    #[test]
    fn a_memory_fault_is_told_bit_by_bit() {
        let fault = |failure: [u32; 4], error_type, gpu_id| {
            let [not_present, read_only, no_execute, imprecise] = failure;
            let failure = MemoryExceptionFailure { not_present, read_only, no_execute, imprecise };
            let data = HsaMemoryExceptionData { failure, va: 0x7000_1000, gpu_id, error_type };
            EventData { payload: overlay(&data), ..Default::default() }
        };
        let told = |data: EventData| match news(KFD_IOC_EVENT_MEMORY, &data, &topology()) {
            Ok(News::MemoryFault { node: NodeId(2), address: 0x7000_1000, failure }) => failure,
            other => panic!("{other:?}"),
        };
        assert_eq!(told(fault([1, 0, 0, 0], 0, 0xa2)), 1);
        assert_eq!(told(fault([0, 1, 0, 0], 0, 0xa2)), 1 << 1);
        assert_eq!(told(fault([0, 0, 1, 0], 0, 0xa2)), 1 << 2);
        assert_eq!(told(fault([0, 0, 0, 1], 0, 0xa2)), 1 << 5);
        // SRAM ECC and consumed poison are ECC errors; a hang is not.
        assert_eq!([1, 2, 3].map(|kind| told(fault([0; 4], kind, 0xa2))), [1 << 4 | 1 << 6, 1 << 4 | 2 << 6, 3 << 6]);
        let unknown = fault([1, 0, 0, 0], 0, 0xb0);
        assert_eq!(news(KFD_IOC_EVENT_MEMORY, &unknown, &topology()), Err(Error::InvalidNode));
        assert_eq!(brings(KFD_IOC_EVENT_SIGNAL, &unknown), 0, "only events of these kinds have news");
    }

    #[test]
    fn a_reset_is_told_as_it_is() {
        let data = HsaHwExceptionData { reset_type: 1, reset_cause: 2, memory_lost: 3, gpu_id: 0xa1 };
        let data = EventData { payload: overlay(&data), ..Default::default() };
        let want = News::HwException { node: NodeId(1), reset_type: 1, reset_cause: 2, memory_lost: 3 };
        assert_eq!(news(KFD_IOC_EVENT_HW_EXCEPTION, &data, &topology()), Ok(want));
    }

    #[test]
    fn only_signal_events_have_an_age() {
        let wait = |kind| Wait { id: 5, kind, age: 9, news: None };
        assert_eq!(request(&wait(KFD_IOC_EVENT_SIGNAL)).signal_event_data().last_event_age, 9);
        assert_eq!(request(&wait(KFD_IOC_EVENT_MEMORY)).payload, [0; 4]);
    }
}
