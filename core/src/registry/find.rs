//! The writer's look-ups: the exact finds of the verbs, and what stands next in an index.
//!
//! In: an address, and how it is meant ([`Wanted`]). Out: an aperture and a record, copied. Readers have a path of their
//! own (`lookup`): theirs is always a range find.

use super::Writer;
use crate::address::PageSize;
use crate::aperture::Aperture;
use crate::epoch::Domain;
use crate::index::Index;
use crate::pages::Span;
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
        let version = self.version();
        let (layout, route) = (version.layout(), version.layout().route(address));
        let userptr = || match wanted {
            Wanted::Any => version.userptrs().only_at(address),
            Wanted::Exact(size) => version.userptrs().exact(Key { address, size }),
            Wanted::Range => version.userptrs().stab(address),
        };
        if route.userptr
            && let Some(found) = userptr()
        {
            return Some((Aperture::Svm, found));
        }
        if let Some(aperture) = route.address
            && let Some(found) = locate_object(version.objects(aperture), address, wanted, layout.page)
        {
            return Some((aperture, found));
        }
        if !route.cpuvm {
            return None;
        }
        let objects = version.objects(Aperture::Cpuvm);
        let found = match wanted {
            Wanted::Range => objects.holding(address, layout.page),
            Wanted::Any | Wanted::Exact(_) => objects.starting_at(address),
        };
        found.map(|record| (Aperture::Cpuvm, record))
    }

    pub(super) fn locate_start(&self, aperture: Aperture, start: usize) -> Option<&Record> {
        self.version().objects(aperture).starting_at(start)
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

    /// Whether no other object of an address index has one of the pages of `record`, which do not wrap.
    pub(crate) fn is_free(&self, aperture: Aperture, record: &Record) -> bool {
        let page = self.layout().page;
        self.version().objects(aperture).is_free(Span::of_pages(record.start, record.extent(page)), page)
    }

    /// The first object of an address index that starts at `from` or later.
    pub(crate) fn next(&self, aperture: Aperture, from: usize) -> Option<Record> {
        self.version().objects(aperture).next(from).copied()
    }
}

/// The address index's part: exact finds round down to the page, and a userptr found so must agree in its page offset and, if
/// one is given, its size.
fn locate_object<'s>(objects: impl Index<'s>, address: usize, wanted: Wanted, page: PageSize) -> Option<&'s Record> {
    if wanted == Wanted::Range {
        return objects.holding(address, page);
    }
    let record = objects.starting_at(page.floor(address))?;
    let size_fits = !matches!(wanted, Wanted::Exact(size) if size != record.size);
    let fits = !record.is_userptr() || (page.offset(record.cpu) == page.offset(address) && size_fits);
    fits.then_some(record)
}
