//! Registering host memory: the SVM ioctl where there is one, a userptr buffer object where not.
//!
//! In: any host range, any alignment, perhaps nodes. Out: the kernel's SVM knows the range (and the library has no
//! object for it), or a REGISTERED_USER object, or one more count on one that exists. What never happens: two objects
//! for one (address, size), an object of size 0, a count that rises on an error.

use super::Manager;
use super::buffer::{Birth, User, Wish};
use super::gpu_list::GpuList;
use crate::aperture::Aperture;
use crate::driver::{Driver, HostRange, SvmAttribute};
use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::flags::{IocFlags, MemFlags};
use crate::info::PointerType;
use crate::ledger::Entry;
use crate::list::List;
use crate::node::NodeId;
use crate::pool::Memory;
use crate::record::Record;

/// How a range is to be registered.
#[derive(Clone, Copy)]
struct How<'a> {
    /// The caller's nodes as gpu ids; empty for none.
    gpus: &'a GpuList,
    coarse: bool,
    extended: bool,
}

impl<V: Driver, D: Domain, M: Memory> Manager<'_, V, D, M> {
    /// Registers host memory for all GPUs.
    ///
    /// An address alone does not do:
    /// ```compile_fail,E0308
    /// # use hsakmt_core::{driver::Driver, epoch::Domain, error::Result, manager::Manager, pool::Memory};
    /// # fn f<V: Driver, D: Domain, M: Memory>(manager: &mut Manager<'_, V, D, M>) -> Result<()> {
    /// manager.register(0x7000_0000)
    /// # }
    /// ```
    /// ```
    /// # use hsakmt_core::{driver::{Driver, HostRange}, epoch::Domain, error::Result, manager::Manager, pool::Memory};
    /// # fn f<V: Driver, D: Domain, M: Memory>(manager: &mut Manager<'_, V, D, M>) -> Result<()> {
    /// manager.register(HostRange::EMPTY)
    /// # }
    /// ```
    #[doc(alias = "hsaKmtRegisterMemory")]
    pub fn register(&mut self, range: HostRange<'_>) -> Result<()> {
        if !self.machine.dgpu {
            return Ok(());
        }
        self.register_range(range, How { gpus: &GpuList::new(), coarse: true, extended: false })
    }

    /// Registers host memory for these nodes. CPU nodes are taken, and refused when it is mapped.
    #[doc(alias = "hsaKmtRegisterMemoryToNodes")]
    pub fn register_to_nodes(&mut self, range: HostRange<'_>, nodes: &[NodeId]) -> Result<()> {
        if !self.machine.dgpu {
            return Err(Error::NotSupported);
        }
        let gpus = self.checked_nodes(nodes)?;
        self.register_range(range, How { gpus: &gpus, coarse: true, extended: false })
    }

    /// Registers host memory with the coherence that `flags` ask for.
    #[doc(alias = "hsaKmtRegisterMemoryWithFlags")]
    pub fn register_with_flags(&mut self, range: HostRange<'_>, flags: MemFlags) -> Result<()> {
        let coarse = flags.contains(MemFlags::COARSE_GRAIN);
        let extended = flags.contains(MemFlags::EXTENDED_COHERENT);
        if coarse && extended {
            return Err(Error::InvalidParameter);
        }
        let paged_host = flags.contains(MemFlags::HOST_ACCESS) && !flags.contains(MemFlags::NON_PAGED);
        if !paged_host || !self.machine.dgpu {
            return Err(Error::NotSupported);
        }
        self.register_range(range, How { gpus: &GpuList::new(), coarse, extended })
    }

    fn register_range(&mut self, range: HostRange<'_>, how: How<'_>) -> Result<()> {
        match self.find(range.address(), range.size()) {
            Some((aperture, record)) if record.is_userptr() => self.register_again(aperture, record, how.gpus),
            Some(_) => Err(Error::InvalidHandle),
            None if self.machine.svm_api && self.register_svm(range, how).is_ok() => Ok(()),
            None => self.register_userptr(range, how),
        }
    }

    /// One more registration. The node list is the first caller's: it may be given later, but not changed.
    fn register_again(&mut self, aperture: Aperture, record: Record, gpus: &GpuList) -> Result<()> {
        let known = self.gpus(record.registered);
        let has_none = known.iter().next().is_none();
        if !has_none && !known.iter().eq(gpus.as_slice().iter().copied()) {
            return Err(Error::AlreadyRegistered);
        }
        let entry = self.ledger.get(record.id).ok_or(Error::Failed)?;
        let registrations = entry.registrations.checked_add(1).ok_or(Error::Failed)?;
        if has_none && !gpus.is_empty() {
            self.writer.reserve(1)?;
            let registered = self.intern(gpus.as_slice())?;
            self.writer.replace(aperture, Record { registered, ..record })?;
        }
        if let Some(entry) = self.ledger.get_mut(record.id) {
            entry.registrations = registrations;
        }
        Ok(())
    }

    fn register_svm(&mut self, range: HostRange<'_>, how: How<'_>) -> Result<()> {
        self.machine.first().ok_or(Error::Failed)?;
        let pages = range.whole_pages(self.page()).ok_or(Error::Failed)?;
        let flag = |on: bool, value| SvmAttribute {
            kind: if on { SvmAttribute::SET_FLAGS } else { SvmAttribute::CLR_FLAGS },
            value,
        };
        let attributes =
            [flag(!how.coarse, SvmAttribute::FLAG_COHERENT), flag(how.extended, SvmAttribute::FLAG_EXT_COHERENT)];
        self.driver.svm_set(pages, &attributes).map_err(|_| Error::Failed)
    }

    fn register_userptr(&mut self, range: HostRange<'_>, how: How<'_>) -> Result<()> {
        let (address, size) = (range.address(), range.size());
        // The find misses it where the layout routes the address to no userptr: in a reserved SVM range.
        if let Some((aperture, record)) = self.writer.userptr_at(address, size) {
            return self.register_again(aperture, record, how.gpus);
        }
        let (gpu, node) = self.machine.first().map(|gpu| (gpu.id, gpu.node)).ok_or(Error::Failed)?;
        let aperture = self.svm_aperture(false)?;
        let page = self.page();
        let wraps = address.checked_add(size).and_then(|end| end.checked_add(page.bytes())).is_none();
        let user = range.whole_pages(page).filter(|_| size != 0 && !wraps).ok_or(Error::Failed)?;
        self.reserve_birth()?;
        self.reserve_area(aperture)?;
        let registered = self.intern(how.gpus.as_slice())?;
        if self.machine.options.check_userptr {
            self.driver.touch(range);
        }
        let Ok(range) = self.take(aperture, user.size(), 0, None) else {
            self.writer.release(registered);
            return Err(Error::Failed);
        };
        let mut ioc = IocFlags::USERPTR | IocFlags::WRITABLE | IocFlags::EXECUTABLE;
        ioc.set(IocFlags::COHERENT, !how.coarse);
        ioc.set(IocFlags::EXT_COHERENT, how.extended);
        let (va, span) = (range.start() as u64, user.size() as u64);
        let wish = Wish { gpu, va, size: span, ioc, user: User::Registered(user) };
        let (handles, _) = match self.make(&wish) {
            Ok(made) => made,
            Err(error) => {
                self.give(range);
                self.writer.release(registered);
                return Err(error);
            }
        };
        let birth = Birth {
            range,
            cpu: address,
            size,
            registered,
            mapped: List::EMPTY,
            flags: MemFlags::from_ioc(ioc),
            node,
            kind: PointerType::RegisteredUser,
        };
        self.publish(birth, Entry { handles, registrations: 1, ioc, gpu, ..Entry::default() }).map(|_| ())
    }
}
