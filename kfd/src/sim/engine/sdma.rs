//! SDMA packets, as the engines since gfx9 take them; older ones count from 0 instead of 1.

use super::{Engine, Halt, holds, wide};
use crate::sim::machine::queue::Queue;

const NOP: u32 = 0;
const COPY: u32 = 1;
const WRITE: u32 = 2;
const INDIRECT: u32 = 4;
const FENCE: u32 = 5;
const TRAP: u32 = 6;
const POLL: u32 = 8;
const CONDITIONAL: u32 = 9;
const ATOMIC: u32 = 10;
const FILL: u32 = 11;
const TIMESTAMP: u32 = 13;
const REGISTER: u32 = 14;
const INVALIDATE: u32 = 16;
const CACHE: u32 = 17;

/// Second byte of a COPY: one run of bytes, or a box of elements.
const LINEAR: u32 = 0;
const RECT: u32 = 4;

/// Bits of a TRAP's event id.
const TRAP_ID: u32 = 0x0fff_ffff;

impl Engine<'_> {
    /// Runs the next packet of an SDMA queue; false: there is none.
    pub(super) fn sdma_packet(&mut self, queue: &mut Queue, rung: u64) -> Result<bool, Halt> {
        if queue.done + 4 > rung {
            return Ok(false);
        }
        let at = queue.done / 4;
        let header = self.fetch(queue, at, 1)?.first().copied().unwrap_or(0);
        let size = self.sdma_size(queue, at, header)?;
        if queue.done + size * 4 > rung {
            // The rest is not there yet.
            return Ok(false);
        }
        let words = self.fetch(queue, at, size as usize)?;
        let skipped = self.sdma_run(&words)?;
        queue.done += (size + skipped) * 4;
        Ok(true)
    }

    /// Dwords of the packet that begins with `header`.
    fn sdma_size(&mut self, queue: &Queue, at: u64, header: u32) -> Result<u64, Halt> {
        if header & 0xffff == WRITE {
            let count = self.fetch(queue, at, 4)?.get(3).map_or(0, |count| count & 0xf_ffff);
            return Ok(4 + u64::from(self.counted(count)));
        }
        fixed_size(header)
    }

    /// A count: engines since gfx9 count one less.
    fn counted(&self, count: u32) -> u32 {
        if self.version < 90000 { count } else { count + 1 }
    }

    /// Runs one packet; tells how many dwords behind it are to be skipped.
    fn sdma_run(&mut self, words: &[u32]) -> Result<u64, Halt> {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let address = |index: usize| wide(word(index), word(index + 1));
        let header = word(0);
        match header & 0xff {
            COPY if header >> 8 & 0xff == RECT => self.sdma_rect(words)?,
            COPY => {
                let bits = if self.version < 90000 { 22 } else { 30 };
                let size = self.counted(word(1) & ((1 << bits) - 1));
                let targets = [address(5), address(7)];
                let used = if words.len() > 7 { 2 } else { 1 };
                self.copy(targets.get(..used).unwrap_or(&[]), address(3), size.into())?;
            }
            WRITE => {
                let bytes: Vec<u8> = words.iter().skip(4).flat_map(|word| word.to_le_bytes()).collect();
                self.write(address(1), &bytes)?;
            }
            FENCE => self.write(address(1), &word(3).to_le_bytes())?,
            TRAP => self.interrupt(word(1) & TRAP_ID),
            POLL => {
                // Bit 31: memory. A register, as for an HDP flush, needs no waiting here.
                let function = header >> 28 & 7;
                if header >> 31 != 0 && !holds(function, self.read_u32(address(1))? & word(4), word(3) & word(4)) {
                    return Err(Halt::Wait);
                }
            }
            CONDITIONAL if self.read_u32(address(1))? != word(3) => return Ok(u64::from(word(4) & 0x3fff)),
            CONDITIONAL => {}
            ATOMIC => {
                let (operation, source, compare) = (header >> 25, address(3), address(5));
                let old = self.atomic(operation, address(1), source, compare)?;
                // Bit 16: again until the comparison holds.
                let again = header >> 16 & 1 != 0 && operation & 0x1f == 8;
                let mask = if operation & 0x20 != 0 { u64::MAX } else { u32::MAX.into() };
                if again && old != compare & mask {
                    return Err(Halt::Wait);
                }
            }
            FILL => {
                let bits = if self.version < 90000 { 22 } else { 30 };
                let count = word(4) & ((1 << bits) - 1);
                // Bits 30-31: 0 for bytes, 2 for dwords; the count is in bytes.
                if header >> 30 == 2 {
                    let dwords = self.counted(count / 4);
                    self.fill(address(1), &word(3).to_le_bytes(), u64::from(dwords) * 4)?;
                } else {
                    let bytes = self.counted(count);
                    self.fill(address(1), &[word(3) as u8], bytes.into())?;
                }
            }
            TIMESTAMP if header >> 8 & 0xff != 0 => {
                let now = self.clock();
                self.write(address(1), &now.to_le_bytes())?;
            }
            INDIRECT => self.sdma_indirect(address(1), word(3) & 0xf_ffff)?,
            _ => {}
        }
        Ok(0)
    }

    /// Runs an indirect buffer. It may not wait: the queue would not know where to go on.
    fn sdma_indirect(&mut self, va: u64, dwords: u32) -> Result<(), Halt> {
        let words = self.read_words(va & !31, dwords as usize)?;
        let mut at = 0;
        while let Some(header) = words.get(at).copied() {
            let size = match (header & 0xff, header >> 8 & 0xff) {
                (INDIRECT, _) => return Err(Halt::Error("an SDMA indirect buffer inside another".into())),
                (WRITE, 0) => 4 + self.counted(words.get(at + 3).map_or(0, |count| count & 0xf_ffff)) as usize,
                _ => fixed_size(header)? as usize,
            };
            let packet = words.get(at..at + size).ok_or_else(|| Halt::Error("an SDMA packet is cut off".into()))?;
            match self.sdma_run(packet) {
                Ok(skipped) => at += size + skipped as usize,
                Err(Halt::Wait) => {
                    return Err(Halt::Error("waiting in an SDMA indirect buffer is not simulated".into()));
                }
                Err(halt) => return Err(halt),
            }
        }
        Ok(())
    }

    /// A box of elements, from one pitched surface to another.
    fn sdma_rect(&mut self, words: &[u32]) -> Result<(), Halt> {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let low = |value: u32, bits: u32| u64::from(value & ((1 << bits) - 1));
        let element = 1u64 << (word(0) >> 29);
        let new = self.version >= 120000;
        // Surface: address, first x, y, z, elements per row, elements per slice.
        let surface = |at: usize| {
            let (xy, z, slice) = (word(at + 2), word(at + 3), word(at + 4));
            let bits = if new { 16 } else { 14 };
            let pitch = if new { z >> 16 } else { z >> 13 };
            let z = low(z, if new { 14 } else { 11 });
            let slice = if new { slice } else { slice & 0x0fff_ffff };
            (
                wide(word(at), word(at + 1)),
                low(xy, bits),
                low(xy >> 16, bits),
                z,
                u64::from(pitch) + 1,
                u64::from(slice) + 1,
            )
        };
        let (from, to) = (surface(1), surface(6));
        let bits = if new { 16 } else { 14 };
        let (wide_x, high_y) = (low(word(11), bits) + 1, low(word(11) >> 16, bits) + 1);
        let deep_z = low(word(12), if new { 14 } else { 11 }) + 1;
        let at = |(base, x, y, z, pitch, slice): (u64, u64, u64, u64, u64, u64), row: u64, layer: u64| {
            base + ((z + layer) * slice + (y + row) * pitch + x) * element
        };
        for layer in 0..deep_z {
            for row in 0..high_y {
                self.copy(&[at(to, row, layer)], at(from, row, layer), wide_x * element)?;
            }
        }
        Ok(())
    }
}

/// Dwords of a packet whose header says all about its size.
fn fixed_size(header: u32) -> Result<u64, Halt> {
    let two_targets = header >> 27 & 1 != 0;
    Ok(match (header & 0xff, header >> 8 & 0xff) {
        (NOP, _) => 1 + u64::from(header >> 16 & 0x3fff),
        (COPY, LINEAR) if two_targets => 9,
        (COPY, LINEAR) => 7,
        (COPY, RECT) => 13,
        (INDIRECT | POLL, _) => 6,
        (FENCE | INVALIDATE, _) => 4,
        (TRAP, _) => 2,
        (CONDITIONAL | FILL | CACHE, _) => 5,
        (ATOMIC, _) => 8,
        (TIMESTAMP | REGISTER, _) => 3,
        _ => return Err(Halt::Error(format!("SDMA packet {header:#x} is not simulated"))),
    })
}
