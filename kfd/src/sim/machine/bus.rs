//! Memory as the simulated GPU reaches it: [`Place`] names where bytes are, [`Bus`] moves them.
//!
//! Only the front end (supervisor) can reach memory; the machine decides which place a GPU address means.

use hsakmt_core::driver::Errno;

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the file of the n-th GPU, from this offset.
    Device {
        /// Which GPU.
        gpu: usize,
        /// Offset in its file.
        offset: u64,
    },
    /// In the file of the process's `/dev/kfd`, from this offset: doorbells, event page, MMIO page. It rests at all
    /// ones, see [`RESTING`].
    Kfd(u64),
    /// In the process's own memory, at this address.
    Host(u64),
}

/// The value of each byte of the doorbells and of the event page that were not written since the reset.
pub const RESTING: u8 = 0xff;

impl Place {
    /// The place `bytes` behind this one.
    pub(crate) fn offset(self, bytes: u64) -> Place {
        match self {
            Place::Device { gpu, offset } => Place::Device { gpu, offset: offset.wrapping_add(bytes) },
            Place::Kfd(offset) => Place::Kfd(offset.wrapping_add(bytes)),
            Place::Host(address) => Place::Host(address.wrapping_add(bytes)),
        }
    }
}

/// Moves bytes between the machine and one process's memory. Accesses are not atomic with those of the process, except
/// that an aligned access of at most 8 bytes is one access.
pub trait Bus {
    /// Reads all of `bytes`, or fails with `EFAULT`.
    fn read(&mut self, place: Place, bytes: &mut [u8]) -> Result<(), Errno>;

    /// Writes all of `bytes`, or fails with `EFAULT`.
    fn write(&mut self, place: Place, bytes: &[u8]) -> Result<(), Errno>;
}

/// A write that an ioctl leads to: the front end performs it before it answers the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poke {
    /// Where.
    pub place: Place,
    /// What.
    pub bytes: Vec<u8>,
}
