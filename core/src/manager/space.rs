//! Addresses: where a verb takes them from and how they go back.
//!
//! In: an aperture, a size, an alignment, perhaps a fixed address. Out: addresses that are nobody else's. An mmap
//! aperture asks the process for each piece; a reserved one cuts it from what set-up reserved; GPUVM and mem-handle
//! addresses are numbers only. What never happens: an address outside the aperture.

use super::Manager;
use super::machine::SvmSpace;
use crate::aperture::Aperture;
use crate::driver::{Driver, HostMap, VaRequest};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::pool::Memory;
use crate::va::grown;

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// The SVM aperture for coherent or other memory: one and the same where SVM is the process's address space.
    pub(super) fn svm_aperture(&self, coherent: bool) -> Result<Aperture> {
        match &self.machine.svm {
            SvmSpace::None => Err(Error::Failed),
            SvmSpace::Reserved { .. } if coherent => Ok(Aperture::SvmAlt),
            _ => Ok(Aperture::Svm),
        }
    }

    /// Whether the CPU can be given the aperture's addresses.
    pub(super) fn cpu_accessible(aperture: Aperture) -> bool {
        matches!(aperture, Aperture::Svm | Aperture::SvmAlt | Aperture::Cpuvm)
    }

    /// Makes room to note one more area, where the library itself notes them: afterwards a refused [`Manager::take`] means
    /// that no free area fits.
    pub(super) fn reserve_area(&mut self, aperture: Aperture) -> Result<()> {
        let space = self.machine.space(aperture);
        space.map_or(Ok(()), |space| space.reserve(self.writer.memory())).map_err(|_| Error::NoMemory)
    }

    /// Takes `size` bytes, a page multiple, anywhere or exactly `at`. `alignment` 0 asks for the least.
    pub(super) fn take(
        &mut self,
        aperture: Aperture,
        size: usize,
        alignment: usize,
        at: Option<usize>,
    ) -> Result<usize> {
        if let (SvmSpace::Mmap { bounds, cap }, Aperture::Svm) = (&self.machine.svm, aperture) {
            let page = self.machine.page;
            if size == 0 || at.is_some_and(|at| page.offset(at) != 0 || !bounds.contains_range(at, size)) {
                return Err(Error::NoMemory);
            }
            let align = grown(alignment.max(page.bytes()), size, *cap);
            let request = VaRequest { size, align, guard: self.machine.guard(), fixed: at, bounds: *bounds };
            let start = self.driver.reserve(request).map_err(|_| Error::NoMemory)?;
            return Ok(start);
        }
        let space = self.machine.space(aperture).ok_or(Error::NoMemory)?;
        space.allocate(size, alignment, at, self.writer.memory()).map_err(|_| Error::NoMemory)
    }

    /// Gives back what [`Manager::take`] returned, whatever the CPU sees there.
    pub(super) fn give(&mut self, aperture: Aperture, start: usize, size: usize) {
        let mmap = matches!(self.machine.svm, SvmSpace::Mmap { .. });
        match aperture {
            Aperture::Cpuvm => self.driver.release(start, size),
            Aperture::Svm if mmap => self.driver.release(start, size),
            Aperture::Svm | Aperture::SvmAlt => {
                // The range stays reserved. A refusal here only leaves pages behind that nobody can reach any more.
                let _ = self.driver.host_map(start, size, HostMap::Reserved);
                self.release_area(aperture, start);
            }
            Aperture::MemHandle | Aperture::Gpuvm(_) => self.release_area(aperture, start),
        }
    }

    fn release_area(&mut self, aperture: Aperture, start: usize) {
        if let Some(space) = self.machine.space(aperture) {
            space.release(start, self.writer.memory());
        }
    }
}
