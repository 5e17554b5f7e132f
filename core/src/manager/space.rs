//! Addresses: where a verb takes them from and how they go back.
//!
//! In: an aperture, a size, an alignment, perhaps a fixed address. Out: a [`VaRange`]. An mmap aperture asks the process
//! for each piece; a reserved one cuts it from what set-up reserved; GPUVM and mem-handle addresses are numbers only. What
//! never happens: an address outside the aperture, or one that is given back twice.
//!
//! # Why what is given back is the manager's
//! [`Driver::release`] and [`Driver::host_map`] are `unsafe`. The proof for all their calls is this file's:
//!
//! - A [`VaRange`] is made of an answer of this manager's driver, or cut from the reserved range, which is one. It is
//!   neither `Copy` nor `Clone`, and [`Manager::give`] consumes it.
//! - [`Manager::publish`](super::Manager) turns one into a record, whose extent is its size. [`VaRange::of`] turns a record
//!   back, once, when it has been removed. Nothing else puts records into the manager's writer: [`Manager::new`] refuses one
//!   that holds any, and lends it out as `&Writer` only.
//! - The kind of SVM space changes only while no range and no record in SVM is left: at a set-up, at the end of a
//!   tear-down, and in `renew`, which looks at every object first.
//! - The driver stays the same: it is lent out as `&V`, and [`Manager::driver_mut`] is `unsafe`.
//!
//! None of this rests on what a driver answers. One that answers any address gets that address back.

use super::Manager;
use super::machine::SvmSpace;
use crate::address::{Bounds, PageSize};
use crate::aperture::Aperture;
use crate::driver::{Driver, Errno, HostMap, VaRequest};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::flags::MemFlags;
use crate::pool::Memory;
use crate::record::Record;
use crate::va::grown;

/// Addresses that the manager has taken and not given back.
#[derive(Debug)]
#[must_use]
pub(super) struct VaRange {
    aperture: Aperture,
    start: usize,
    size: usize,
}

impl VaRange {
    /// The range of an object that has gone.
    ///
    /// # Safety
    /// `record` was published by this manager in `aperture` and has been removed since; its range is made once.
    pub(super) unsafe fn of(aperture: Aperture, record: &Record, page: PageSize) -> VaRange {
        VaRange { aperture, start: record.start, size: record.extent(page) }
    }

    pub(super) fn aperture(&self) -> Aperture {
        self.aperture
    }

    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Whether the address is one of these.
    pub(super) fn holds(&self, address: usize) -> bool {
        self.start <= address && address - self.start < self.size
    }

    /// Whether the CPU can be given the aperture's addresses.
    pub(super) fn cpu_accessible(&self) -> bool {
        matches!(self.aperture, Aperture::Svm | Aperture::SvmAlt)
    }

    /// Replaces what `start..start + size` shows to the CPU. `EINVAL` unless these are whole pages of the range, and the CPU
    /// can be given its addresses.
    pub(super) fn show<V: Driver>(
        &self,
        driver: &mut V,
        page: PageSize,
        start: usize,
        size: usize,
        what: HostMap,
    ) -> Result<(), Errno> {
        let rest = start.checked_sub(self.start).and_then(|skip| self.size.checked_sub(skip));
        let inside = size > 0 && rest.is_some_and(|rest| size <= rest);
        if !inside || !self.cpu_accessible() || page.offset(start) != 0 || page.offset(size) != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: inside of a range of SVM, which the manager has reserved and not given back (this file's essay). What it
        // has shown until now was an object's that has ended, or nothing; code with pointers into an object stops using them
        // before its end (`manager`).
        unsafe { driver.host_map(start, size, what) }
    }

    /// [`VaRange::show`] from the front.
    pub(super) fn show_first<V: Driver>(
        &self,
        driver: &mut V,
        page: PageSize,
        size: usize,
        what: HostMap,
    ) -> Result<(), Errno> {
        self.show(driver, page, self.start, size, what)
    }
}

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// The SVM aperture for coherent or other memory: one and the same where SVM is the process's address space.
    pub(super) fn svm_aperture(&self, coherent: bool) -> Result<Aperture> {
        match &self.machine.svm {
            SvmSpace::None => Err(Error::Failed),
            SvmSpace::Reserved { .. } if coherent => Ok(Aperture::SvmAlt),
            _ => Ok(Aperture::Svm),
        }
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
    ) -> Result<VaRange> {
        if let (SvmSpace::Mmap { bounds, cap }, Aperture::Svm) = (&self.machine.svm, aperture) {
            let page = self.machine.page;
            if size == 0 || at.is_some_and(|at| page.offset(at) != 0 || !bounds.contains_range(at, size)) {
                return Err(Error::NoMemory);
            }
            let align = grown(alignment.max(page.bytes()), size, *cap);
            let request = VaRequest { size, align, guard: self.machine.guard(), fixed: at, bounds: *bounds };
            let start = self.reserve(request).map_err(|_| Error::NoMemory)?;
            return Ok(VaRange { aperture, start, size });
        }
        let space = self.machine.space(aperture).ok_or(Error::NoMemory)?;
        let start = space.allocate(size, alignment, at, self.writer.memory()).map_err(|_| Error::NoMemory)?;
        Ok(VaRange { aperture, start, size })
    }

    /// Takes ordinary process memory: host memory on an APU.
    pub(super) fn take_host(&mut self, size: usize, align: usize, flags: MemFlags) -> Result<VaRange, Errno> {
        let start = self.driver.host_alloc(size, align, flags)?;
        Ok(VaRange { aperture: Aperture::Cpuvm, start, size })
    }

    /// Asks the driver for addresses. An answer that is not what was asked for goes back at once.
    fn reserve(&mut self, request: VaRequest) -> Result<usize, Errno> {
        let VaRequest { size, fixed, bounds, .. } = request;
        let start = self.driver.reserve(request)?;
        let page = self.machine.page;
        let meant = fixed.is_none_or(|at| at == start) && page.offset(start) == 0;
        if meant && bounds.contains_range(start, size) {
            return Ok(start);
        }
        // SAFETY: the driver has just answered it for this size, and nothing knows it.
        unsafe { self.driver.release(start, size) };
        Err(Errno::INVAL)
    }

    /// Reserves exactly `wanted`, of which SVM is to be cut.
    pub(super) fn reserve_whole(&mut self, wanted: Bounds) -> Result<(), Errno> {
        let (start, align) = (wanted.base, self.machine.page.bytes());
        let size = wanted.limit - wanted.base + 1;
        let request = VaRequest { size, align, guard: 0, fixed: Some(start), bounds: wanted };
        self.reserve(request).map(|_| ())
    }

    /// Gives a reserved SVM range back.
    ///
    /// # Safety
    /// [`Manager::reserve_whole`] has reserved it, it has not been given back since, and no [`SvmSpace`] of this manager's,
    /// no [`VaRange`] and no record is of it any more.
    pub(super) unsafe fn release_whole(&mut self, whole: Bounds) {
        // SAFETY: the driver has answered it for this size (`reserve`); by contract this is its end.
        unsafe { self.driver.release(whole.base, whole.limit - whole.base + 1) }
    }

    /// Gives addresses back, whatever the CPU sees there.
    pub(super) fn give(&mut self, range: VaRange) {
        let VaRange { aperture, start, size } = range;
        match (aperture, &self.machine.svm) {
            (Aperture::Cpuvm, _) | (Aperture::Svm, SvmSpace::Mmap { .. }) => {
                // SAFETY: ranges of these two are what `host_alloc` and `reserve` of this driver have answered for this size.
                // `range` ends here. Code with pointers into an object has stopped using them before its end.
                unsafe { self.driver.release(start, size) }
            }
            (Aperture::Svm | Aperture::SvmAlt, SvmSpace::Reserved { .. }) => {
                // SAFETY: the area allocator has cut it from the reserved range, which is given back after all its ranges;
                // for the rest as above. A refusal only leaves pages behind that nothing reaches any more.
                let _ = unsafe { self.driver.host_map(start, size, HostMap::Reserved) };
                self.release_area(aperture, start);
            }
            (Aperture::MemHandle | Aperture::Gpuvm(_), _) => self.release_area(aperture, start),
            // The space does not change while it has a range: there is none to give back here.
            (Aperture::Svm | Aperture::SvmAlt, _) => {}
        }
    }

    fn release_area(&mut self, aperture: Aperture, start: usize) {
        if let Some(space) = self.machine.space(aperture) {
            space.release(start);
        }
    }
}
