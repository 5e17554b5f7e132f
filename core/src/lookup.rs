//! THE READ PATH: address -> aperture -> object -> info. All of it is on this screen, but for the descent through a
//! tree ([`crate::tree::View::floor`], [`crate::userptr`]) and the guard that keeps the snapshot ([`crate::epoch`]).
//!
//! No lock, no system call, no allocation, no retry; no store at all. Every loop is bounded by a tree's height.

use crate::aperture::Aperture;
use crate::info::{NodeList, PointerInfo};
use crate::record::Record;
use crate::version::Version;

impl Version {
    /// See [`Snapshot::query_pointer`](crate::snapshot::Snapshot::query_pointer).
    #[inline(always)]
    pub(crate) fn query_pointer(&self, address: usize) -> PointerInfo<'_> {
        self.find_pointer(address).unwrap_or(PointerInfo::UNKNOWN)
    }

    /// See [`Snapshot::find_pointer`](crate::snapshot::Snapshot::find_pointer).
    #[inline(always)]
    pub(crate) fn find_pointer(&self, address: usize) -> Option<PointerInfo<'_>> {
        self.object_at(address).map(|record| self.info(record))
    }

    /// The object that holds `address`. What nearly every question is about stands here, the rest in `elsewhere`.
    #[inline(always)]
    pub(crate) fn object_at(&self, address: usize) -> Option<&Record> {
        if !self.layout().direct().contains(address) {
            return self.elsewhere(address);
        }
        if self.layout().mmap
            && let Some(registered) = self.userptrs().stab(address)
        {
            return Some(registered);
        }
        self.inside(Aperture::Svm, address)
    }

    /// The same by the whole rule (`aperture`): other apertures, machines without a dGPU. `inline` makes a copy in the
    /// caller's crate, which it can call directly and knows not to unwind; `cold` keeps it out of line.
    #[inline]
    #[cold]
    fn elsewhere(&self, address: usize) -> Option<&Record> {
        let route = self.layout().route(address);
        let registered = if route.userptr { self.userptrs().stab(address) } else { None };
        let object = registered.or_else(|| self.inside(route.address?, address));
        object.or_else(|| self.in_cpuvm(address))
    }

    /// On a machine without a dGPU: the library's own host memory that holds `address`.
    #[inline]
    pub(crate) fn in_cpuvm(&self, address: usize) -> Option<&Record> {
        if self.layout().dgpu { None } else { self.inside(Aperture::Cpuvm, address) }
    }

    /// The object of one address index that holds `address`.
    #[inline(always)]
    pub(crate) fn inside(&self, aperture: Aperture, address: usize) -> Option<&Record> {
        let below = self.objects(aperture).floor(address)?;
        (address - below.start < below.extent(self.layout().page)).then_some(below)
    }

    #[inline(always)]
    pub(crate) fn info<'s>(&'s self, record: &'s Record) -> PointerInfo<'s> {
        PointerInfo {
            kind: record.kind,
            node: record.node,
            flags: record.flags,
            cpu_address: record.cpu,
            gpu_address: record.gpu_address(self.layout().page) as u64,
            size: record.size as u64,
            registered: NodeList::new(record.registered),
            mapped: NodeList::new(record.mapped),
            user_data: record.user_data,
        }
    }
}
