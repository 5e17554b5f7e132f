//! What the simulated GPU tells the kernel: interrupts, page faults, and packets that end their queue.

use zerocopy::IntoBytes;

use super::bus::{Bus, Place, RESTING};
use super::event::SLOT;
use super::queue::Queue;
use super::{Process, World};
use crate::uapi::{
    ContextSaveAreaHeader, EC_QUEUE_PACKET_UNSUPPORTED, HsaHwExceptionData, HsaMemoryExceptionData,
    KFD_HW_EXCEPTION_GPU_HANG, KFD_HW_EXCEPTION_PER_ENGINE_RESET, KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_MEMORY,
    KFD_SMI_EVENT_VMFAULT, MemoryExceptionFailure, from_caller,
};

/// A GPU access that no page allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageFault {
    pub(crate) va: u64,
    /// A page is there, but read only.
    pub(crate) read_only: bool,
}

impl World {
    /// An interrupt with an event id: sets that event if its slot was written, else every event whose slot was.
    pub(crate) fn interrupt(&mut self, p: &mut Process, id: u32, bus: &mut dyn Bus) {
        self.event_changes += 1;
        if self.acknowledge(p, id, bus) {
            return p.events.set(id);
        }
        let ids: Vec<u32> = p.events.list.iter().filter(|(_, event)| event.has_slot()).map(|(id, _)| *id).collect();
        for id in ids {
            if self.acknowledge(p, id, bus) {
                p.events.set(id);
            }
        }
    }

    /// Whether an event's slot was written; resets it.
    fn acknowledge(&self, p: &Process, id: u32, bus: &mut dyn Bus) -> bool {
        let known = p.events.list.get(&id).is_some_and(|event| event.has_slot());
        let Some(slot) = p.events.slot(id).filter(|_| known) else { return false };
        const RESET: [u8; SLOT as usize] = [RESTING; SLOT as usize];
        let mut now = RESET;
        let written = bus.read(slot, &mut now).is_ok() && now != RESET;
        written && bus.write(slot, &RESET).is_ok()
    }

    /// A page fault: memory events bring it, and the process's queues on that GPU stop.
    pub(crate) fn page_fault(&mut self, p: &mut Process, gpu: usize, fault: PageFault) {
        let gpu_id = self.machine.gpus.get(gpu).map_or(0, |gpu| gpu.gpu_id.0);
        let data = HsaMemoryExceptionData {
            failure: MemoryExceptionFailure {
                not_present: u32::from(!fault.read_only),
                read_only: u32::from(fault.read_only),
                no_execute: 0,
                imprecise: 0,
            },
            va: fault.va & !(super::PAGE - 1),
            gpu_id,
            error_type: 0,
        };
        set_all(p, KFD_IOC_EVENT_MEMORY, |event| event.memory = data);
        p.queues.list.values_mut().filter(|queue| queue.gpu == gpu).for_each(|queue| queue.stopped = true);
        self.event_changes += 1;
        self.smi_event(gpu, KFD_SMI_EVENT_VMFAULT, p, |pid, name| format!("{pid:x}:{name}"));
    }

    /// A packet that the queue cannot go on from. A debugger that wants to hear of it does; else an enabled runtime gets the
    /// error reason that the context save area names; else, unless the queue has told already, a hardware exception.
    pub(crate) fn queue_error(&mut self, p: &mut Process, queue: &mut Queue, told: bool, bus: &mut dyn Bus) {
        let reason = 1u64 << (EC_QUEUE_PACKET_UNSUPPORTED - 1);
        queue.stopped = true;
        if p.debugger.is_some() {
            queue.exceptions |= reason;
        }
        self.event_changes += 1;
        if p.tell_debugger(reason) || told {
            return;
        }
        let mut bytes = [0; size_of::<ContextSaveAreaHeader>()];
        if p.has_runtime() && queue.save_area != 0 && bus.read(Place::Host(queue.save_area), &mut bytes).is_ok() {
            let header: ContextSaveAreaHeader = from_caller(&bytes);
            let mut before = [0; 8];
            let at = Place::Host(header.err_payload_addr);
            if header.err_payload_addr != 0 && bus.read(at, &mut before).is_ok() {
                let all = u64::from_ne_bytes(before) | reason;
                if bus.write(at, all.as_bytes()).is_ok() && p.events.list.contains_key(&header.err_event_id) {
                    return p.events.set(header.err_event_id);
                }
            }
        }
        let data = HsaHwExceptionData {
            reset_type: KFD_HW_EXCEPTION_PER_ENGINE_RESET,
            reset_cause: KFD_HW_EXCEPTION_GPU_HANG,
            memory_lost: 0,
            gpu_id: self.machine.gpus.get(queue.gpu).map_or(0, |gpu| gpu.gpu_id.0),
        };
        set_all(p, KFD_IOC_EVENT_HW_EXCEPTION, |event| event.hardware = data);
    }
}

fn set_all(p: &mut Process, kind: u32, fill: impl Fn(&mut super::event::Event)) {
    let ids: Vec<u32> = p.events.list.iter().filter(|(_, event)| event.kind == kind).map(|(id, _)| *id).collect();
    for id in ids {
        p.events.list.get_mut(&id).into_iter().for_each(&fill);
        p.events.set(id);
    }
}
