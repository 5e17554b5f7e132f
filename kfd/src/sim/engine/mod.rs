//! The simulated command processors: [`World::run_queues`] runs what a process's queues hold.
//!
//! ```text
//! doorbell -> ring -> aql | sdma | pm4 -> memory (GPU address -> place) -> Bus
//!                                      '-> World (interrupts, faults, errors)
//! ```
//! The front end calls it again and again; each call runs every active queue until the queue is empty, waits, has used
//! up its share, or stopped. Queues take turns, so one may wait for another. A packet that waits is looked at again in
//! the next call. Shaders are not simulated: a dispatch stops its queue, raises the queue's error, and leaves a
//! [`Note`]. No lock, no system call but through [`Bus`].

use super::machine::bus::{Bus, Place, RESTING};
use super::machine::interrupt::PageFault;
use super::machine::queue::{Kind, Queue};
use super::machine::{Process, ProcessId, World};

mod aql;
mod atomic;
mod memory;
mod pm4;
mod sdma;

#[cfg(test)]
mod tests;

/// Packets that one queue runs before the next one has its turn.
const TURN: usize = 256;

/// Dwords of a ring that are read at once.
const AHEAD: usize = 1024;

/// Why a queue does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The packet's condition does not hold yet.
    Wait,
    /// No page allows the access.
    Fault(PageFault),
    /// A packet that cannot be run, and why.
    Error(String),
}

/// What a dispatch ends with.
const NO_SHADERS: &str = "shader execution is not simulated";

/// A line for the log: a queue stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The queue's id.
    pub queue: u32,
    /// The id of its GPU.
    pub gpu: u32,
    /// Why.
    pub text: String,
}

/// One queue of one process, while it runs.
struct Engine<'a> {
    world: &'a mut World,
    p: &'a mut Process,
    gpu: usize,
    /// `gfx_target_version` of the GPU.
    version: u32,
    bus: &'a mut dyn Bus,
    /// Dwords of the ring, read ahead for this turn, and where they begin.
    ahead: (u64, Vec<u32>),
}

impl World {
    /// Whether a process has a queue that the GPU would run.
    pub fn has_active_queues(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_some_and(|p| p.queues.list.values().any(Queue::is_active))
    }

    /// Gives each queue of a process one turn. Tells whether some packet ran.
    pub fn run_queues(&mut self, process: ProcessId, bus: &mut dyn Bus) -> bool {
        let Some(mut p) = self.processes.remove(&process) else { return false };
        let ids: Vec<u32> = p.queues.list.keys().copied().collect();
        let mut ran = false;
        for id in ids {
            let Some(mut queue) = p.queues.list.get(&id).filter(|queue| queue.is_active()).cloned() else { continue };
            let gpu = queue.gpu;
            let version = self.machine.gpus.get(gpu).map_or(0, |gpu| gpu.gfx_target_version);
            let mut engine = Engine { world: self, p: &mut p, gpu, version, bus, ahead: (0, Vec::new()) };
            ran |= engine.turn(id, &mut queue);
            p.queues.list.insert(id, queue);
        }
        self.processes.insert(process, p);
        ran
    }
}

impl Engine<'_> {
    /// Runs a queue until it is empty, waits, stops, or its turn is over. Tells whether some packet ran.
    fn turn(&mut self, id: u32, queue: &mut Queue) -> bool {
        self.look_at_doorbell(queue);
        let Some(rung) = queue.rung else { return false };
        let before = queue.done;
        let mut halt = None;
        let mut packets = 0;
        while packets < TURN && halt.is_none() {
            let step = match queue.kind {
                Kind::Aql => self.aql_packet(queue, rung),
                Kind::Pm4 => self.pm4_packet(queue, rung),
                Kind::Sdma { .. } => self.sdma_packet(queue, rung),
            };
            match step {
                Ok(true) => packets += 1,
                Ok(false) => break,
                Err(stop) => halt = Some(stop),
            }
        }
        if queue.done != before
            && let Err(stop) = self.write_read_pointer(queue)
        {
            halt = Some(stop);
        }
        let text = match halt {
            None | Some(Halt::Wait) => None,
            Some(Halt::Fault(fault)) => {
                queue.stopped = true;
                self.world.page_fault(self.p, self.gpu, fault);
                let what = if fault.read_only { "is read only" } else { "is not mapped" };
                Some(format!("page fault: GPU address {:#x} {what}", fault.va))
            }
            Some(Halt::Error(text)) => {
                let told = self.report_inactive(queue);
                self.world.queue_error(self.p, queue, told, self.bus);
                Some(text)
            }
        };
        if let Some(text) = text {
            let gpu = self.world.machine.gpus.get(self.gpu).map_or(0, |gpu| gpu.gpu_id.0);
            self.world.notes.push(Note { queue: id, gpu, text });
        }
        packets > 0
    }

    /// Takes over what the process wrote to the doorbell. An AQL doorbell names the last packet, the others the first
    /// free place.
    fn look_at_doorbell(&mut self, queue: &mut Queue) {
        let mut bytes = [RESTING; 8];
        let narrow = self.version < 90000;
        let word = if narrow { &mut bytes[..4] } else { &mut bytes[..] };
        if self.bus.read(Place::Kfd(queue.doorbell), word).is_err() || word.iter().all(|byte| *byte == RESTING) {
            return;
        }
        let value = if narrow {
            let low = u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
            widen(queue, low)
        } else {
            u64::from_le_bytes(bytes)
        };
        let end = if queue.kind == Kind::Aql { value.wrapping_add(1) } else { value };
        queue.rung = Some(queue.rung.map_or(end, |before| before.max(end)));
    }

    fn write_read_pointer(&mut self, queue: &Queue) -> Result<(), Halt> {
        match queue.kind {
            Kind::Aql => self.write(queue.read_pointer, &queue.done.to_le_bytes()),
            // Dwords, and inside the ring.
            Kind::Pm4 => self.write(queue.read_pointer, &((queue.done % (queue.size / 4)) as u32).to_le_bytes()),
            Kind::Sdma { .. } if self.version < 90000 => {
                self.write(queue.read_pointer, &((queue.done % queue.size) as u32).to_le_bytes())
            }
            Kind::Sdma { .. } => self.write(queue.read_pointer, &queue.done.to_le_bytes()),
        }
    }

    /// `count` dwords of the ring from `at` on, counted in dwords; it goes on at its start. Reads ahead: what lies
    /// before the doorbell's value belongs to the GPU, and what lies behind it is not used in this turn.
    fn fetch(&mut self, queue: &Queue, at: u64, count: usize) -> Result<Vec<u32>, Halt> {
        let known = |(from, words): &(u64, Vec<u32>)| {
            let start = usize::try_from(at.checked_sub(*from)?).ok()?;
            words.get(start..start.checked_add(count)?).map(<[u32]>::to_vec)
        };
        if let Some(words) = known(&self.ahead) {
            return Ok(words);
        }
        let all = (queue.size / 4).max(1);
        let wanted = count.max(AHEAD.min(all as usize));
        let mut words = Vec::with_capacity(wanted);
        while words.len() < wanted {
            let from = (at + words.len() as u64) % all;
            let some = (wanted - words.len()).min((all - from) as usize);
            words.extend(self.read_words(queue.ring + from * 4, some)?);
        }
        self.ahead = (at, words);
        Ok(known(&self.ahead).unwrap_or_default())
    }

    /// The GPU's clock: 100 MHz.
    fn clock(&self) -> u64 {
        self.world.uptime().as_nanos() as u64 / 10
    }

    fn interrupt(&mut self, id: u32) {
        self.world.interrupt(self.p, id, self.bus);
    }
}

/// The full value of a doorbell that shows a place inside the ring only.
fn widen(queue: &Queue, low: u64) -> u64 {
    let ring = match queue.kind {
        Kind::Pm4 => queue.size / 4,
        Kind::Sdma { .. } => queue.size,
        Kind::Aql => return low,
    };
    let ring = ring.max(1);
    queue.done + (low + ring - queue.done % ring) % ring
}

/// Two dwords as an address or a value.
fn wide(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Compares as `POLL_REGMEM` and `WAIT_REG_MEM` number it.
fn holds(function: u32, value: u32, reference: u32) -> bool {
    match function {
        1 => value < reference,
        2 => value <= reference,
        3 => value == reference,
        4 => value != reference,
        5 => value >= reference,
        6 => value > reference,
        _ => true,
    }
}
