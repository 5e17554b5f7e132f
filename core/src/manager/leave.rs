//! An object that the kernel keeps for longer than the manager: the event page of a process.
//!
//! In: the address of an object. Out: the kernel's handle of it, to be given to the kernel; later the end of the object here
//! and nowhere else. What never happens: addresses that are left and then used for another object.

use super::Manager;
use super::machine::SvmSpace;
use crate::driver::{Driver, Handle};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::pool::Memory;

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// The kernel's handle of the object at `address`: of a large one the first part's; `None` if it has none.
    pub fn kernel_handle(&self, address: usize) -> Option<Handle> {
        let (_, record) = self.find(address, 0)?;
        self.first_handle(record.id)
    }

    /// Lets go of the object at `address` and ends nothing: queries know it no more, its buffer stays the kernel's, mapped
    /// where it is mapped, and its addresses show it until the process ends.
    ///
    /// # Errors
    /// [`Error::NotRegistered`] for an unknown address; [`Error::NotSupported`] where all addresses are of a reserved range,
    /// which ends with the manager.
    pub fn leave(&mut self, address: usize) -> Result<()> {
        if !matches!(self.machine.svm, SvmSpace::Mmap { .. }) {
            return Err(Error::NotSupported);
        }
        let (aperture, record) = self.find(address, 0).ok_or(Error::NotRegistered)?;
        self.writer.reserve_to_end(1)?;
        self.writer.remove(aperture, record.start)?;
        if let Some(entry) = self.ledger.remove(record.id) {
            entry.free(self.writer.memory());
        }
        self.writer.release(record.registered);
        self.writer.release(record.mapped);
        Ok(())
    }
}
