//! The read side: [`Readers`] -> [`Reader`] (a place in the domain) -> [`Session`] (inside it) -> answers.
//!
//! Looking up is a method on the session, and its answers borrow from it: an answer cannot be kept past the guard that
//! protects it, nor asked of a registry that the guard does not belong to.

use crate::epoch::Domain;
use crate::error::{Error, Result};
use crate::info::PointerInfo;
use crate::primitive::Ordering;
use crate::registry::Registry;
use crate::snapshot::Snapshot;
use crate::version::Published;

/// Hands out readers; copy it to every thread.
#[derive(Debug)]
pub struct Readers<'r, D> {
    registry: &'r Registry<D>,
}

impl<D> Clone for Readers<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Readers<'_, D> {}

impl<'r, D: Domain> Readers<'r, D> {
    pub(crate) fn new(registry: &'r Registry<D>) -> Readers<'r, D> {
        Readers { registry }
    }

    /// A place for one thread; `None` when the domain has none left.
    pub fn reader(self) -> Option<Reader<'r, D>> {
        Some(Reader { registry: self.registry, local: self.registry.domain.join()? })
    }

    /// See [`Registry::generation`].
    pub fn generation(self) -> usize {
        self.registry.generation()
    }
}

/// One thread's place among the readers. Of this process: a forked child's copy answers [`Error::NotOpened`] for good, and
/// so do its sessions; the child asks for a reader of its own.
pub struct Reader<'r, D: Domain + 'r> {
    registry: &'r Registry<D>,
    local: D::Local<'r>,
}

impl<'r, D: Domain> Reader<'r, D> {
    /// Goes inside and stays until the session is dropped. A session that is held but not asked holds the writer's
    /// memory back; each question renews it.
    #[inline]
    pub fn session(&mut self) -> Session<'_, D> {
        Session { registry: self.registry, guard: D::enter(&mut self.local) }
    }

    /// One question: enters, asks, leaves. `answer` sees the result while it is protected.
    #[inline]
    pub fn query_pointer<T>(&mut self, address: usize, answer: impl FnOnce(Result<PointerInfo<'_>>) -> T) -> T {
        answer(self.session().look(address))
    }
}

/// Inside the domain: whatever is found stays readable until the next question or the end of the session.
pub struct Session<'s, D: Domain + 's> {
    registry: &'s Registry<D>,
    guard: D::Guard<'s>,
}

impl<D: Domain> Session<'_, D> {
    /// What `address` belongs to, now. Wait-free, O(log n). [`Error::NotOpened`] while nothing is published, and always in
    /// a forked child: also when that has opened.
    #[doc(alias = "hsaKmtQueryPointerInfo")]
    #[inline]
    pub fn query_pointer(&mut self, address: usize) -> Result<PointerInfo<'_>> {
        D::refresh(&mut self.guard);
        self.look(address)
    }

    /// What each of `addresses` belongs to, as of one instant; as many as fit in `out`. Wait-free, and faster than one
    /// by one where the registry is larger than the caches.
    pub fn query_many<'i>(&'i mut self, addresses: &[usize], out: &mut [PointerInfo<'i>]) -> Result<()> {
        D::refresh(&mut self.guard);
        self.current()?.query_many(addresses, out);
        Ok(())
    }

    /// The newest version, whole; later queries of it answer for that instant. Wait-free.
    #[inline]
    pub fn snapshot(&mut self) -> Result<Snapshot<'_>> {
        D::refresh(&mut self.guard);
        self.current()
    }

    #[inline(always)]
    fn look(&self, address: usize) -> Result<PointerInfo<'_>> {
        Ok(self.current()?.query_pointer(address))
    }

    #[inline(always)]
    fn current(&self) -> Result<Snapshot<'_>> {
        if !D::is_inside(&self.guard) {
            return Err(Error::NotOpened);
        }
        let root = self.registry.root.load(Ordering::Acquire);
        // SAFETY: not null means published: initialised before the Release store in `publish`, which this Acquire load
        // pairs with. It was loaded inside the domain, so its memory is not reused while the guard lives, and `&self`
        // borrows the guard.
        Published::from_raw(root).map(|published| unsafe { Snapshot::new(published) }).ok_or(Error::NotOpened)
    }
}

impl<D: Domain> core::fmt::Debug for Reader<'_, D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl<D: Domain> core::fmt::Debug for Session<'_, D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}
