//! GPU addresses: where each one leads, and reads and writes through them.

use super::{Engine, Halt};
use crate::sim::machine::PAGE;
use crate::sim::machine::bus::Place;
use crate::sim::machine::interrupt::PageFault;
use crate::sim::machine::memory::{MMIO_AT, doorbells_at};
use hsakmt_core::flags::IocFlags;

/// Bytes that a copy moves at a time.
const PIECE: u64 = 1 << 20;

/// What a GPU address leads to.
struct Reach {
    place: Place,
    /// Bytes from there on that lie in one piece.
    bytes: u64,
    writable: bool,
}

impl Engine<'_> {
    /// Where a GPU address leads: a mapped buffer object, shared memory that this GPU may use, or on an old APU any
    /// address of the process.
    fn reach(&self, va: u64) -> Option<Reach> {
        if let Some(on) = self.p.gpus.get(self.gpu)
            && let Some((first, last, handle)) = on.space.find(va)
        {
            let bo = self.p.bos.get(&handle)?;
            let memory = self.world.memories.get(&bo.memory)?;
            // An AQL ring is mapped twice.
            let offset = (bo.offset + (va - first)) % memory.size.max(1);
            let bytes = (last - va + 1).min(memory.size - offset);
            let place = match bo.user_address {
                Some(address) => Place::Host(address + offset),
                None if memory.flags.contains(IocFlags::DOORBELL) => Place::Kfd(doorbells_at(memory.gpu) + offset),
                None if memory.flags.contains(IocFlags::MMIO_REMAP) => {
                    Place::Kfd(MMIO_AT + memory.gpu as u64 * PAGE + offset)
                }
                None => Place::Device { gpu: memory.gpu, offset: memory.offset + offset },
            };
            return Some(Reach { place, bytes, writable: memory.flags.contains(IocFlags::WRITABLE) });
        }
        let host = |end: u64, writable| Reach { place: Place::Host(va), bytes: end - va, writable };
        let page_end = (va & !(PAGE - 1)).checked_add(PAGE)?;
        match self.world.shared(self.p, self.gpu, va) {
            Some((end, writable)) => Some(host(end, writable)),
            None if self.world.machine.gpus.get(self.gpu)?.shares_addresses() => Some(host(page_end, true)),
            None => None,
        }
    }

    fn fault(va: u64, read_only: bool) -> Halt {
        Halt::Fault(PageFault { va, read_only })
    }

    /// Reads GPU memory.
    pub(super) fn read(&mut self, va: u64, bytes: &mut [u8]) -> Result<(), Halt> {
        let (mut at, mut rest) = (va, bytes);
        while !rest.is_empty() {
            let reach = self.reach(at).ok_or(Self::fault(at, false))?;
            let (now, later) = rest.split_at_mut(rest.len().min(reach.bytes as usize));
            self.bus.read(reach.place, now).map_err(|_| Self::fault(at, false))?;
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// Writes GPU memory.
    pub(super) fn write(&mut self, va: u64, bytes: &[u8]) -> Result<(), Halt> {
        let (mut at, mut rest) = (va, bytes);
        while !rest.is_empty() {
            let reach = self.reach(at).ok_or(Self::fault(at, false))?;
            if !reach.writable {
                return Err(Self::fault(at, true));
            }
            let (now, later) = rest.split_at(rest.len().min(reach.bytes as usize));
            if self.bus.write(reach.place, now).is_err() {
                // The process's own page is there and cannot be written, or is not there.
                let there = self.bus.read(reach.place, &mut [0]).is_ok();
                return Err(Self::fault(at, there));
            }
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    pub(super) fn read_words(&mut self, va: u64, count: usize) -> Result<Vec<u32>, Halt> {
        let mut bytes = vec![0; count * 4];
        self.read(va, &mut bytes)?;
        Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
    }

    pub(super) fn read_u32(&mut self, va: u64) -> Result<u32, Halt> {
        let mut bytes = [0; 4];
        self.read(va, &mut bytes).map(|()| u32::from_le_bytes(bytes))
    }

    pub(super) fn read_u64(&mut self, va: u64) -> Result<u64, Halt> {
        let mut bytes = [0; 8];
        self.read(va, &mut bytes).map(|()| u64::from_le_bytes(bytes))
    }

    /// Copies `size` bytes from one GPU address to others, upwards.
    pub(super) fn copy(&mut self, to: &[u64], from: u64, size: u64) -> Result<(), Halt> {
        let mut done = 0;
        let mut piece = vec![0; size.min(PIECE) as usize];
        while done < size {
            let count = (size - done).min(PIECE) as usize;
            let piece = &mut piece[..count];
            self.read(from + done, piece)?;
            for to in to {
                self.write(to + done, piece)?;
            }
            done += count as u64;
        }
        Ok(())
    }

    /// Fills GPU memory with a pattern over and over; the pattern's length divides 4096.
    pub(super) fn fill(&mut self, to: u64, pattern: &[u8], size: u64) -> Result<(), Halt> {
        let piece: Vec<u8> = pattern.iter().copied().cycle().take(size.min(PIECE) as usize).collect();
        let mut done = 0;
        while done < size {
            let count = (size - done).min(PIECE) as usize;
            self.write(to + done, &piece[..count])?;
            done += count as u64;
        }
        Ok(())
    }
}
