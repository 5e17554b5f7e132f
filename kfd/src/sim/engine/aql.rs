//! AQL packets (HSA runtime specification): barrier-AND, barrier-OR, and AMD's own barrier-value and PM4 packets.
//!
//! A packet is 64 bytes. The processor takes it once its type is no longer INVALID, waits for its signals, subtracts 1
//! from its completion signal, and makes the packet INVALID again.

use super::{Engine, Halt, NO_SHADERS, wide};
use crate::sim::machine::queue::{Kind, Queue};

const PACKET: u64 = 64;
const VENDOR: u32 = 0;
const INVALID: u32 = 1;
const DISPATCH: u32 = 2;
const BARRIER_AND: u32 = 3;
const AGENT_DISPATCH: u32 = 4;
const BARRIER_OR: u32 = 5;

/// AMD's formats of a vendor packet.
const PM4_IB: u32 = 1;
const BARRIER_VALUE: u32 = 2;

/// Offsets in a signal: value, mailbox address, event id, start and end of what it stands for.
const VALUE: u64 = 8;
const MAILBOX: u64 = 16;
const EVENT: u64 = 24;
const STARTED: u64 = 32;
const ENDED: u64 = 40;

/// Offsets in AMD's queue: the read index, and the signal that tells why the queue became inactive. Behind the read
/// index stands where it is itself.
const READ_INDEX: u64 = 128;
const INACTIVE: u64 = 192;
/// What that signal says of a packet that cannot be run.
const UNSUPPORTED: u64 = 256;

impl Engine<'_> {
    /// Runs the next packet of an AQL queue; false: there is none yet.
    pub(super) fn aql_packet(&mut self, queue: &mut Queue, rung: u64) -> Result<bool, Halt> {
        if queue.done >= rung || queue.size < PACKET {
            return Ok(false);
        }
        let words = self.fetch(queue, queue.done * (PACKET / 4), (PACKET / 4) as usize)?;
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let address = |index: usize| wide(word(index), word(index + 1));
        let header = word(0);
        let started = self.clock();
        match header & 0xff {
            INVALID => return Ok(false),
            DISPATCH => return Err(Halt::Error(NO_SHADERS.into())),
            BARRIER_AND | BARRIER_OR => {
                let signals: Vec<u64> = (0..5).map(|index| address(2 + 2 * index)).filter(|it| *it != 0).collect();
                let mut zero = Vec::with_capacity(signals.len());
                for signal in &signals {
                    zero.push(self.read_u64(signal + VALUE)? == 0);
                }
                let over = match header & 0xff {
                    BARRIER_AND => zero.iter().all(|zero| *zero),
                    _ => zero.is_empty() || zero.contains(&true),
                };
                if !over {
                    return Err(Halt::Wait);
                }
            }
            VENDOR if header >> 16 & 0xff == BARRIER_VALUE => {
                let (signal, value, mask) = (address(2), address(4), address(6));
                if signal != 0 {
                    let now = self.read_u64(signal + VALUE)? & mask;
                    let (now, value) = (now as i64, value as i64);
                    // hsa_signal_condition_t: equal, not equal, less, at least.
                    let over = [now == value, now != value, now < value, now >= value];
                    if !over.get(word(8) as usize).copied().unwrap_or(true) {
                        return Err(Halt::Wait);
                    }
                }
            }
            VENDOR if header >> 16 & 0xff == PM4_IB => {
                if queue.indirect.is_none() {
                    self.pm4_run(queue, words.get(1..5).unwrap_or(&[]))?;
                }
                while queue.indirect.is_some() {
                    self.pm4_indirect(queue)?;
                }
            }
            AGENT_DISPATCH => return Err(Halt::Error("agent dispatch packets are not for a GPU".into())),
            kind => return Err(Halt::Error(format!("AQL packet type {kind}, header {header:#x} is not simulated"))),
        }
        self.complete(address(14), started)?;
        let at = queue.ring + queue.done * PACKET % queue.size;
        self.write(at, &(INVALID as u16).to_le_bytes())?;
        queue.done += 1;
        Ok(true)
    }

    /// Subtracts 1 from a completion signal and raises its event.
    fn complete(&mut self, signal: u64, started: u64) -> Result<(), Halt> {
        if signal == 0 {
            return Ok(());
        }
        let ended = self.clock();
        self.write(signal + STARTED, &started.to_le_bytes())?;
        self.write(signal + ENDED, &ended.to_le_bytes())?;
        let value = self.read_u64(signal + VALUE)?;
        self.write(signal + VALUE, &value.wrapping_sub(1).to_le_bytes())?;
        let mailbox = self.read_u64(signal + MAILBOX)?;
        if mailbox != 0 {
            let event = self.read_u32(signal + EVENT)?;
            self.write(mailbox, &u64::from(event).to_le_bytes())?;
            self.interrupt(event);
        }
        Ok(())
    }

    /// Tells a runtime without exceptions that its queue is inactive: true if the queue names a signal for that.
    pub(super) fn report_inactive(&mut self, queue: &Queue) -> bool {
        if queue.kind != Kind::Aql
            || self.p.has_runtime()
            || self.read_u32(queue.read_pointer + 8) != Ok(READ_INDEX as u32)
        {
            return false;
        }
        let Ok(signal) = self.read_u64(queue.read_pointer - READ_INDEX + INACTIVE) else { return false };
        signal != 0
            && self.write(signal + VALUE, &(UNSUPPORTED + 1).to_le_bytes()).is_ok()
            && self.complete(signal, self.clock()).is_ok()
    }
}
