//! The writer's look-ups: the exact finds of the verbs, and what stands next in an index.
//!
//! In: an address, and how it is meant ([`Wanted`]). Out: an aperture and a record, copied. Readers have a path of their
//! own (`lookup`): theirs is always a range find.

use super::Writer;
use crate::aperture::Aperture;
use crate::epoch::Domain;
use crate::index::Index;
use crate::pool::Memory;
use crate::record::Record;
use crate::tree::node::Key;

/// How a writer asks for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// At the address, whatever its size, if that is unambiguous (size 0 in C).
    Any,
    /// At the address, with this size if it is a userptr.
    Exact(usize),
    /// The address may be anywhere inside.
    Range,
}

impl<D: Domain, M: Memory> Writer<'_, D, M> {
    /// SPEC's `find`: routes the address, then asks the userptr index, the address index, and CPUVM.
    pub(crate) fn find(&self, address: usize, wanted: Wanted) -> Option<(Aperture, Record)> {
        self.locate(address, wanted).map(|(aperture, record)| (aperture, *record))
    }

    /// As [`Writer::find`], without copying the record.
    #[inline]
    pub(crate) fn locate(&self, address: usize, wanted: Wanted) -> Option<(Aperture, &Record)> {
        let (snapshot, layout) = (self.version(), self.layout());
        let route = layout.route(address);
        let userptr = || match wanted {
            Wanted::Any => snapshot.userptrs().only_at(address),
            Wanted::Exact(size) => snapshot.userptrs().exact(Key { address, size }),
            Wanted::Range => snapshot.userptrs().stab(address),
        };
        if route.userptr
            && let Some(found) = userptr()
        {
            return Some((Aperture::Svm, found));
        }
        if let Some(aperture) = route.address
            && let Some(found) = self.locate_object(aperture, address, wanted)
        {
            return Some((aperture, found));
        }
        if !route.cpuvm {
            return None;
        }
        let found = match wanted {
            Wanted::Range => snapshot.objects(Aperture::Cpuvm).holding(address, layout.page),
            Wanted::Any | Wanted::Exact(_) => self.locate_start(Aperture::Cpuvm, address),
        };
        found.map(|record| (Aperture::Cpuvm, record))
    }

    /// The address index's part: exact finds round down to the page, and a userptr found so must agree in its page
    /// offset and, if one is given, its size.
    fn locate_object(&self, aperture: Aperture, address: usize, wanted: Wanted) -> Option<&Record> {
        if wanted == Wanted::Range {
            return self.version().objects(aperture).holding(address, self.layout().page);
        }
        let page = self.layout().page;
        let record = self.locate_start(aperture, page.floor(address))?;
        let size_fits = !matches!(wanted, Wanted::Exact(size) if size != record.size);
        let fits = !record.is_userptr() || (page.offset(record.cpu) == page.offset(address) && size_fits);
        fits.then_some(record)
    }

    pub(super) fn locate_start(&self, aperture: Aperture, start: usize) -> Option<&Record> {
        let objects = self.version().objects(aperture);
        objects.starting_at(start).map(|found| objects.record(found))
    }

    /// Of several userptrs that share a base, the smallest: what the manager's Deregister and Free end first.
    pub(crate) fn smallest_userptr_at(&self, address: usize) -> Option<(Aperture, Record)> {
        if !self.layout().route(address).userptr {
            return None;
        }
        self.version().userptrs().smallest_at(address).map(|record| (Aperture::Svm, *record))
    }

    /// The userptr of exactly this host address and size, wherever the layout routes the address.
    pub(crate) fn userptr_at(&self, address: usize, size: usize) -> Option<(Aperture, Record)> {
        self.version().userptrs().exact(Key { address, size }).map(|record| (Aperture::Svm, *record))
    }

    /// The object of an address index that starts at `start`.
    pub(crate) fn find_start(&self, aperture: Aperture, start: usize) -> Option<Record> {
        self.locate_start(aperture, start).copied()
    }

    /// The object of an address index that holds `address`.
    pub(crate) fn find_inside(&self, aperture: Aperture, address: usize) -> Option<Record> {
        self.version().objects(aperture).holding(address, self.layout().page).copied()
    }

    /// The first object of an address index that starts at `from` or later.
    pub(crate) fn next(&self, aperture: Aperture, from: usize) -> Option<Record> {
        self.version().objects(aperture).next(from).copied()
    }
}
