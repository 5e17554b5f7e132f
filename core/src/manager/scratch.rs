//! Scratch backing memory: one address range per GPU, filled piece by piece by Map.
//!
//! In: a size for the whole range, then addresses and sizes inside it. Out: addresses; a query never finds them. On a
//! dGPU the range is part of SVM and each piece is a buffer object of its own, mapped on that GPU only; on an APU it is
//! process memory and mapping has no effect. What never happens: a piece outside its range, a range that is given back
//! while a piece is left.

use super::Manager;
use super::buffer::{User, Wish};
use super::space::VaRange;
use crate::array::Array;
use crate::driver::{Bo, Driver, Errno, Handle, HostMap, Partial};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::flags::{IocFlags, MemFlags};
use crate::node::GpuId;
use crate::pool::Memory;

/// The range's size and alignment.
const ALIGN: usize = 0x1_0000;

/// One GPU's range.
#[derive(Debug)]
pub(super) struct Scratch {
    range: VaRange,
    pub(super) pieces: Array<Piece>,
}

/// One buffer object in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: usize,
    pub(super) size: usize,
    pub(super) handle: Handle,
}

impl Scratch {
    pub(super) fn start(&self) -> usize {
        self.range.start()
    }

    #[cfg(all(test, feature = "alloc"))]
    pub(super) fn size(&self) -> usize {
        self.range.size()
    }

    /// The piece that starts here; the smallest of several.
    pub(super) fn piece_at(&self, address: usize) -> Option<Piece> {
        self.pieces.iter().filter(|piece| piece.start == address).min_by_key(|piece| piece.size).copied()
    }

    /// A piece that holds the address.
    pub(super) fn piece_around(&self, address: usize) -> Option<Piece> {
        let holds = |piece: &&Piece| piece.start <= address && address - piece.start < piece.size;
        self.pieces.iter().rev().find(holds).copied()
    }
}

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// The GPU whose scratch range holds the address.
    pub(super) fn scratch_of(&self, address: usize) -> Option<GpuId> {
        let mut gpus = self.machine.gpus.iter();
        gpus.find(|gpu| gpu.scratch.as_ref().is_some_and(|scratch| scratch.range.holds(address))).map(|gpu| gpu.id)
    }

    pub(super) fn scratch(&self, gpu: GpuId) -> Option<&Scratch> {
        self.machine.gpu(gpu)?.scratch.as_ref()
    }

    fn scratch_mut(&mut self, gpu: GpuId) -> Option<&mut Scratch> {
        self.machine.gpu_mut(gpu)?.scratch.as_mut()
    }

    pub(super) fn allocate_scratch(&mut self, gpu: GpuId, size: usize, at: Option<usize>) -> Result<usize> {
        // The kernel is told the address in units of 64 KiB: any other could not be said.
        let aligned = at.is_none_or(|at| at & (ALIGN - 1) == 0);
        if !aligned || self.machine.gpu(gpu).is_none_or(|known| known.scratch.is_some()) {
            return Err(Error::NoMemory);
        }
        let size = size.checked_next_multiple_of(ALIGN).ok_or(Error::NoMemory)?;
        let range = if self.machine.dgpu {
            let aperture = self.svm_aperture(false).map_err(|_| Error::NoMemory)?;
            self.take(aperture, size, ALIGN, at)?
        } else if at.is_none() {
            self.take_host(size, ALIGN, MemFlags::empty()).map_err(|_| Error::NoMemory)?
        } else {
            return Err(Error::NoMemory);
        };
        let start = range.start();
        if self.driver.set_scratch_backing(gpu, start as u64).is_err() {
            self.give(range);
            return Err(Error::NoMemory);
        }
        if let Some(known) = self.machine.gpu_mut(gpu) {
            known.scratch = Some(Scratch { range, pieces: Array::new() });
        }
        Ok(start)
    }

    /// Map inside a scratch range: a buffer object there, on that GPU alone.
    pub(super) fn map_scratch(&mut self, gpu: GpuId, address: usize, size: usize) -> Result<()> {
        if !self.machine.dgpu {
            return Ok(());
        }
        let scratch = self.machine.gpu_mut(gpu).and_then(|known| known.scratch.as_mut());
        let scratch = scratch.ok_or(Error::InvalidParameter)?;
        let room = scratch.range.size() - (address - scratch.range.start());
        if size > room {
            return Err(Error::InvalidParameter);
        }
        if size == 0 {
            return Err(Error::InvalidHandle);
        }
        scratch.pieces.reserve(1, self.writer.memory())?;
        let handle = self.make_piece(gpu, address, size)?;
        if let Some(scratch) = self.scratch_mut(gpu) {
            // There is room: it was made above.
            let _ = scratch.pieces.push(Piece { start: address, size, handle });
        }
        Ok(())
    }

    /// The three driver steps of a piece, undone if one fails. A piece that does not begin on a page, or whose last page is
    /// not the range's, cannot be shown.
    fn make_piece(&mut self, gpu: GpuId, start: usize, size: usize) -> Result<Handle> {
        let shown = self.page().round_up(size).ok_or(Error::InvalidParameter)?;
        let ioc = IocFlags::VRAM | IocFlags::WRITABLE;
        let wish = Wish { gpu, va: start as u64, size: size as u64, ioc, user: User::No };
        let made = self.driver.alloc(wish.whole()).map_err(|_| Error::InvalidHandle)?;
        let Bo { handle, mmap_offset: offset } = made;
        if self.show_piece(gpu, start, shown, HostMap::Device { gpu, offset, access: false }).is_err() {
            let _ = self.driver.free(handle);
            return Err(Error::Failed);
        }
        if let Err(partial) = self.driver.map(handle, &[gpu]) {
            if partial.done > 0 {
                let _ = self.driver.unmap(handle, &[gpu]);
            }
            let _ = self.driver.free(handle);
            let _ = self.show_piece(gpu, start, shown, HostMap::Reserved);
            return Err(Error::Failed);
        }
        Ok(handle)
    }

    fn show_piece(&mut self, gpu: GpuId, start: usize, size: usize, what: HostMap) -> Result<(), Errno> {
        let page = self.page();
        let scratch = self.machine.gpu(gpu).and_then(|known| known.scratch.as_ref()).ok_or(Errno::INVAL)?;
        scratch.range.show(&mut self.driver, page, start, size, what)
    }

    /// Unmap of a piece: its buffer object ends, the addresses stay.
    pub(super) fn unmap_scratch(&mut self, gpu: GpuId, address: usize) -> Result<()> {
        if !self.machine.dgpu {
            return Ok(());
        }
        let piece = self.scratch(gpu).and_then(|scratch| scratch.piece_at(address)).ok_or(Error::Failed)?;
        self.end_piece(gpu, piece)
    }

    fn end_piece(&mut self, gpu: GpuId, piece: Piece) -> Result<()> {
        self.end_backing(gpu, piece)?;
        if let Some(scratch) = self.scratch_mut(gpu)
            && let Some(position) = scratch.pieces.iter().position(|known| *known == piece)
        {
            scratch.pieces.remove(position);
        }
        Ok(())
    }

    /// The three driver steps back; a piece that refuses stays whole.
    fn end_backing(&mut self, gpu: GpuId, piece: Piece) -> Result<()> {
        let unmapped = self.driver.unmap(piece.handle, &[gpu]);
        let off = unmapped.is_ok() || matches!(unmapped, Err(Partial { done: 1.., .. }));
        if unmapped.is_err() || self.driver.free(piece.handle).is_err() {
            if off {
                let _ = self.driver.map(piece.handle, &[gpu]);
            }
            return Err(Error::Failed);
        }
        if let Some(shown) = self.page().round_up(piece.size) {
            let _ = self.show_piece(gpu, piece.start, shown, HostMap::Reserved);
        }
        Ok(())
    }

    /// Free anywhere in a scratch range: all of it goes. When a piece refuses, those ended before it are made again.
    pub(super) fn free_scratch(&mut self, gpu: GpuId) -> Result<()> {
        let mut ended = 0;
        while let Some(piece) = self.scratch(gpu).and_then(|scratch| scratch.pieces.get(ended).copied()) {
            if self.end_backing(gpu, piece).is_err() {
                self.make_pieces_again(gpu, ended);
                return Err(Error::Failed);
            }
            ended += 1;
        }
        if let Some(scratch) = self.machine.gpu_mut(gpu).and_then(|known| known.scratch.take()) {
            scratch.pieces.free(self.writer.memory());
            self.give(scratch.range);
        }
        Ok(())
    }

    /// Makes the first `count` pieces again, in their order; one that cannot be made is forgotten.
    fn make_pieces_again(&mut self, gpu: GpuId, count: usize) {
        for position in (0..count).rev() {
            let Some(piece) = self.scratch(gpu).and_then(|scratch| scratch.pieces.get(position).copied()) else {
                return;
            };
            let made = self.make_piece(gpu, piece.start, piece.size);
            let Some(scratch) = self.scratch_mut(gpu) else { return };
            match (made, scratch.pieces.get_mut(position)) {
                (Ok(handle), Some(piece)) => piece.handle = handle,
                _ => drop(scratch.pieces.remove(position)),
            }
        }
    }

    /// The last close: whatever a driver says, the range goes back.
    pub(super) fn drop_scratch(&mut self, gpu: GpuId) {
        let Some(scratch) = self.machine.gpu_mut(gpu).and_then(|known| known.scratch.take()) else { return };
        for piece in scratch.pieces.iter() {
            let _ = self.driver.unmap(piece.handle, &[gpu]);
            let _ = self.driver.free(piece.handle);
        }
        scratch.pieces.free(self.writer.memory());
        self.give(scratch.range);
    }
}
