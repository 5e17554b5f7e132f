//! Free and Deregister.
//!
//! In: an address. Out: one count less, or an object gone. An object goes in this order: unpublished, its buffer
//! objects freed, its addresses given back; if the kernel refuses (it is still mapped) it is published again as it was.
//! A reader without a lock therefore sees it whole, or not at all, and never the next owner of its addresses as it.

use super::Manager;
use super::space::VaRange;
use crate::aperture::Aperture;
use crate::driver::Driver;
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::info::PointerType;
use crate::list::List;
use crate::pool::Memory;
use crate::record::Record;

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// Ends what an allocation made, or one registration of a userptr.
    #[doc(alias = "hsaKmtFreeMemory")]
    pub fn free(&mut self, address: usize) -> Result<()> {
        if address == 0 {
            return Err(Error::Failed);
        }
        if let Some(gpu) = self.scratch_of(address) {
            return self.free_scratch(gpu);
        }
        match self.find_to_end(address) {
            Some((aperture, record)) => self.end_one(aperture, record),
            None if self.machine.svm_api => Ok(()),
            None => Err(Error::NotRegistered),
        }
    }

    /// Ends one registration of a userptr, an import, or an object's node list.
    #[doc(alias = "hsaKmtDeregisterMemory")]
    pub fn deregister(&mut self, address: usize) -> Result<()> {
        let Some((aperture, record)) = self.find_to_end(address) else {
            let fine = !self.machine.dgpu || self.machine.svm_api;
            return if fine { Ok(()) } else { Err(Error::NotRegistered) };
        };
        if aperture == Aperture::Cpuvm {
            return Ok(());
        }
        match record.kind {
            PointerType::RegisteredUser | PointerType::RegisteredGraphics | PointerType::RegisteredShared => {
                self.end_one(aperture, record)
            }
            _ if record.registered.is_empty() => Err(Error::NotRegistered),
            _ => {
                self.writer.reserve_to_end(1)?;
                self.writer.replace(aperture, Record { registered: List::EMPTY, ..record })?;
                self.writer.release(record.registered);
                Ok(())
            }
        }
    }

    /// Exact, any size. Several userptrs at one address leave a caller who cannot name one by its size no way out
    /// without the SVM API: the smallest goes first.
    fn find_to_end(&self, address: usize) -> Option<(Aperture, Record)> {
        let found = self.find(address, 0);
        if found.is_none() && !self.machine.svm_api { self.writer.smallest_userptr_at(address) } else { found }
    }

    /// One registration less; the last one ends the object.
    fn end_one(&mut self, aperture: Aperture, record: Record) -> Result<()> {
        if record.is_userptr()
            && let Some(entry) = self.ledger.get_mut(record.id)
            && entry.registrations > 1
        {
            entry.registrations -= 1;
            return Ok(());
        }
        self.end(aperture, record)
    }

    fn end(&mut self, aperture: Aperture, record: Record) -> Result<()> {
        self.writer.reserve_to_end(2)?;
        self.writer.remove(aperture, record.start)?;
        let wish = self.wish_of(&record);
        if let Err(error) = self.free_buffers(record.id, &wish) {
            self.writer.insert(aperture, record)?;
            return Err(error);
        }
        if let Some(entry) = self.ledger.remove(record.id) {
            entry.free(self.writer.memory());
        }
        self.writer.release(record.registered);
        self.writer.release(record.mapped);
        // SAFETY: it was the manager's, it has been removed above for good, and this is where its range is made again.
        let range = unsafe { VaRange::of(aperture, &record, self.page()) };
        self.give(range);
        Ok(())
    }
}
