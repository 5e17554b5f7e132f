//! PM4 packets of a compute queue: those that move data, wait, and tell. Registers are not simulated: writes to them are
//! dropped, reads give 0.

use super::{Engine, Halt, NO_SHADERS, holds, wide};
use crate::sim::machine::queue::{Indirect, Queue};

const NOP: u32 = 0x10;
const DISPATCH_DIRECT: u32 = 0x15;
const DISPATCH_INDIRECT: u32 = 0x16;
const ATOMIC_MEM: u32 = 0x1e;
const PRED_EXEC: u32 = 0x23;
const WRITE_DATA: u32 = 0x37;
const WAIT_REG_MEM: u32 = 0x3c;
const INDIRECT_BUFFER: u32 = 0x3f;
const COPY_DATA: u32 = 0x40;
const EVENT_WRITE: u32 = 0x46;
const RELEASE_MEM: u32 = 0x49;
const DMA_DATA: u32 = 0x50;
const ACQUIRE_MEM: u32 = 0x58;
const SET_SH_REG: u32 = 0x76;
const SET_UCONFIG_REG: u32 = 0x79;

/// A NOP without a body.
const LONE_NOP: u32 = 0x3fff;

/// Dwords of the packet that begins with `header`.
fn size(header: u32) -> Result<u64, Halt> {
    let count = header >> 16 & 0x3fff;
    match header >> 30 {
        2 => Ok(1),
        3 if count == LONE_NOP && header >> 8 & 0xff == NOP => Ok(1),
        3 => Ok(u64::from(count) + 2),
        kind => Err(Halt::Error(format!("PM4 packet of type {kind}, header {header:#x}"))),
    }
}

impl Engine<'_> {
    /// Runs the next packet of a PM4 queue, or of the indirect buffer it is inside of; false: there is none.
    pub(super) fn pm4_packet(&mut self, queue: &mut Queue, rung: u64) -> Result<bool, Halt> {
        if queue.indirect.is_some() {
            self.pm4_indirect(queue)?;
        } else {
            if queue.done >= rung {
                return Ok(false);
            }
            let header = self.fetch(queue, queue.done, 1)?.first().copied().unwrap_or(0);
            let size = size(header)?;
            if queue.done + size > rung {
                return Ok(false);
            }
            let words = self.fetch(queue, queue.done, size as usize)?;
            queue.pending = size + self.pm4_run(queue, &words)?;
        }
        // The read pointer stays at a packet until its indirect buffer has run.
        if queue.indirect.is_none() {
            queue.done += std::mem::take(&mut queue.pending);
        }
        Ok(true)
    }

    /// Runs one packet of the indirect buffer that a queue is inside of.
    pub(super) fn pm4_indirect(&mut self, queue: &mut Queue) -> Result<(), Halt> {
        let Some(inside) = queue.indirect else { return Ok(()) };
        if inside.at >= inside.end {
            queue.indirect = None;
            return Ok(());
        }
        let at = inside.va + inside.at * 4;
        let size = size(self.read_u32(at)?)?;
        if inside.at + size > inside.end {
            return Err(Halt::Error("a PM4 packet is cut off by the end of its buffer".into()));
        }
        let words = self.read_words(at, size as usize)?;
        queue.indirect = None;
        let result = self.pm4_run(queue, &words);
        match result {
            // A chained buffer replaces this one.
            Ok(_) if queue.indirect.is_some() => {}
            Ok(skipped) => queue.indirect = Some(Indirect { at: inside.at + size + skipped, ..inside }),
            Err(halt) => {
                queue.indirect = Some(inside);
                return Err(halt);
            }
        }
        if queue.indirect.is_some_and(|inside| inside.at >= inside.end) {
            queue.indirect = None;
        }
        Ok(())
    }

    /// Runs one packet; tells how many dwords behind it are to be skipped.
    pub(super) fn pm4_run(&mut self, queue: &mut Queue, words: &[u32]) -> Result<u64, Halt> {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let address = |index: usize| wide(word(index), word(index + 1));
        let header = word(0);
        if header >> 30 != 3 {
            return Ok(0);
        }
        match header >> 8 & 0xff {
            NOP | EVENT_WRITE | ACQUIRE_MEM | SET_SH_REG | SET_UCONFIG_REG => {}
            DISPATCH_DIRECT | DISPATCH_INDIRECT => return Err(Halt::Error(NO_SHADERS.into())),
            INDIRECT_BUFFER => {
                let va = address(1) & 0xffff_ffff_fffc;
                queue.indirect = Some(Indirect { va, at: 0, end: u64::from(word(3) & 0xf_ffff) });
            }
            WRITE_DATA => self.pm4_write_data(words)?,
            COPY_DATA => self.pm4_copy_data(queue, words)?,
            RELEASE_MEM => self.pm4_release(words)?,
            WAIT_REG_MEM => {
                // Bits 4-5: 1 for memory.
                let memory = word(1) >> 4 & 3 == 1;
                let mask = word(5);
                if memory && !holds(word(1) & 7, self.read_u32(address(2) & !3)? & mask, word(4)) {
                    return Err(Halt::Wait);
                }
            }
            ATOMIC_MEM => {
                queue.returned = self.atomic(word(1) & 0x7f, address(2), address(4), address(6))?;
            }
            // Bits 24-31: which dies of the GPU run what follows.
            PRED_EXEC if word(1) >> 24 & 0xff == 0 => return Ok(u64::from(word(1) & 0x3fff)),
            PRED_EXEC => {}
            DMA_DATA => {
                let bytes = u64::from(word(6) & 0x3ff_ffff);
                match word(1) >> 29 & 3 {
                    2 => self.fill(address(4), &word(2).to_le_bytes(), bytes)?,
                    _ => self.copy(&[address(4)], address(2), bytes)?,
                }
            }
            code => return Err(Halt::Error(format!("PM4 packet {code:#x} is not simulated"))),
        }
        Ok(0)
    }

    fn pm4_write_data(&mut self, words: &[u32]) -> Result<(), Halt> {
        let [_, control, low, high, data @ ..] = words else { return Ok(()) };
        let va = wide(*low, *high) & !3;
        // Bits 8-11: 0 for a register.
        if control >> 8 & 0xf == 0 {
            return Ok(());
        }
        if control >> 16 & 1 != 0 {
            // Every dword to one address.
            return data.iter().try_for_each(|word| self.write(va, &word.to_le_bytes()));
        }
        let bytes: Vec<u8> = data.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(va, &bytes)
    }

    fn pm4_copy_data(&mut self, queue: &Queue, words: &[u32]) -> Result<(), Halt> {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let (control, from, to) = (word(1), wide(word(2), word(3)), wide(word(4), word(5)));
        let double = control >> 16 & 1 != 0;
        let value = match control & 0xf {
            1 | 2 if double => self.read_u64(from)?,
            1 | 2 => self.read_u32(from)?.into(),
            5 => from,
            6 => queue.returned,
            9 => self.clock(),
            _ => 0,
        };
        match control >> 8 & 0xf {
            0 => Ok(()),
            _ if double => self.write(to, &value.to_le_bytes()),
            _ => self.write(to, &(value as u32).to_le_bytes()),
        }
    }

    /// Writes a value or the time, then raises an interrupt, as far as the packet asks.
    fn pm4_release(&mut self, words: &[u32]) -> Result<(), Halt> {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let (va, data) = (wide(word(3), word(4)), wide(word(5), word(6)));
        match word(2) >> 29 {
            1 => self.write(va & !3, &(data as u32).to_le_bytes())?,
            2 => self.write(va & !7, &data.to_le_bytes())?,
            3 | 4 => {
                let now = self.clock();
                self.write(va & !7, &now.to_le_bytes())?;
            }
            _ => {}
        }
        if matches!(word(2) >> 24 & 7, 1 | 2) {
            // Older packets have no word for it.
            self.interrupt(if words.len() > 7 { word(7) } else { word(5) });
        }
        Ok(())
    }
}
