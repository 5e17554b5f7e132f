//! The process's address space: [`HostSpace`] reserves pieces of it, decides what they show to the CPU, and gives them
//! back. It needs no device: a file to map is handed in.
//!
//! Reserved means mapped without access (`PROT_NONE`, `MAP_NORESERVE`): the kernel gives the addresses to nobody else,
//! and they cost no memory. What they show is replaced in place (`MAP_FIXED`), so that at no moment another thread's
//! mmap can slip in. Each call either happens or leaves no trace.
//!
//! Functions that replace or unmap addresses which came from outside are `unsafe`: the caller proves that these addresses
//! are its own, reserved here. What never happens: a lock, a heap allocation, a look at any table of what is reserved (the
//! memory manager keeps that), addresses that were reserved and are not any more after an error.
//!
//! The last has one gap. Where the kernel drops the old mapping, then refuses the new one (a file that cannot be mapped,
//! memory that ran out), and another thread's mmap takes the addresses before [`HostSpace`] reserves them again, nothing
//! tells the other thread's mapping from the old one.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use hsakmt_core::address::{Bounds, PageSize};
use hsakmt_core::driver::{Errno, HostRange, VaRequest};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::node::NodeId;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

mod space;

pub use space::{AddressSpace, Shown};

/// From this size on, anonymous memory asks for huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// What the kernel calls an anonymous mapping that only keeps addresses.
const RESERVED: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);

/// The address space of this process.
#[derive(Clone, Copy, Debug)]
pub struct HostSpace {
    page: PageSize,
    numa_nodes: u32,
}

impl Default for HostSpace {
    fn default() -> HostSpace {
        HostSpace::new()
    }
}

impl HostSpace {
    /// Asks the machine for its page size and how many NUMA nodes it has.
    pub fn new() -> HostSpace {
        let page = PageSize::new(rustix::param::page_size()).unwrap_or(PageSize::FOUR_KIB);
        let space = HostSpace { page, numa_nodes: crate::topology::numa_nodes() };
        space.keep_spare();
        space
    }

    /// The machine's page size.
    pub fn page(&self) -> PageSize {
        self.page
    }

    /// How many NUMA nodes the machine has; binding is only asked for from two up.
    pub fn numa_nodes(&self) -> u32 {
        self.numa_nodes
    }

    /// Reserves addresses: exactly there, or wherever the kernel likes, with alignment and a guard kept free on both
    /// sides while searching. No reservation is inherited over fork: a child opens for itself and may want the same
    /// place. `EINVAL` for a request that is not whole pages, `EEXIST` if someone owns the fixed place, `ENOMEM` if there
    /// is no room or the kernel's choice lies outside the bounds.
    pub fn reserve(&self, request: VaRequest) -> Result<usize, Errno> {
        let VaRequest { size, align, guard, .. } = request;
        let whole = size != 0 && self.page.offset(size) == 0 && self.page.offset(guard) == 0;
        if !whole || !align.is_power_of_two() || align < self.page.bytes() {
            return Err(Errno::INVAL);
        }
        match request.fixed {
            Some(address) => self.reserve_at(address, size, request.bounds),
            None => {
                let start = self.reserve_anywhere(size, align, guard, request.bounds, ProtFlags::empty(), RESERVED)?;
                // Like a page given up later (`map_reserved`): mappings that differ in this would never join again.
                self.advise(start, size, Advice::LinuxDontFork);
                Ok(start)
            }
        }
    }

    fn reserve_at(&self, address: usize, size: usize, bounds: Bounds) -> Result<usize, Errno> {
        if self.page.offset(address) != 0 || address == 0 {
            return Err(Errno::INVAL);
        }
        if !bounds.contains_range(address, size) {
            return Err(Errno::NOMEM);
        }
        let flags = RESERVED.union(MapFlags::FIXED_NOREPLACE);
        // SAFETY: MAP_FIXED_NOREPLACE never replaces a mapping, so no memory that anyone uses changes.
        let mapped = unsafe { mmap_anonymous(address as *mut c_void, size, ProtFlags::empty(), flags) };
        let found = mapped.map_err(errno)?.addr();
        if found != address {
            // A kernel before 4.17 takes the flag for a hint.
            // SAFETY: mapped above, known to nothing.
            unsafe { self.unmap(found, size) };
            return Err(Errno(libc::EEXIST));
        }
        self.advise(address, size, Advice::LinuxDontFork);
        Ok(address)
    }

    /// Maps more than asked for and cuts off both ends. With alignment A, the largest piece that may have to go in
    /// front is A - page.
    fn reserve_anywhere(
        &self,
        size: usize,
        align: usize,
        guard: usize,
        bounds: Bounds,
        access: ProtFlags,
        flags: MapFlags,
    ) -> Result<usize, Errno> {
        let slack = guard.checked_mul(2).and_then(|guards| guards.checked_add(align - self.page.bytes()));
        let padded = slack.and_then(|slack| slack.checked_add(size)).ok_or(Errno::NOMEM)?;
        // SAFETY: without an address and MAP_FIXED the kernel maps where nothing is mapped.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), padded, access, flags) };
        let found = mapped.map_err(errno)?.addr();
        let start = (found + guard).next_multiple_of(align);
        if !bounds.contains_range(start, size) {
            // SAFETY: mapped above, known to nothing.
            unsafe { self.unmap(found, padded) };
            return Err(Errno::NOMEM);
        }
        // SAFETY: as above; what is in front of the answer.
        unsafe { self.unmap(found, start - found) };
        // SAFETY: as above; what is behind it.
        unsafe { self.unmap(start + size, found + padded - (start + size)) };
        Ok(start)
    }

    /// Gives addresses back, whatever is mapped there. Memory policies go with the mapping.
    ///
    /// # Safety
    /// The whole range came from [`HostSpace::reserve`] or [`HostSpace::alloc`] and nobody uses it any more.
    pub unsafe fn release(&self, address: usize, size: usize) {
        // SAFETY: the caller owns the range and gives it up.
        unsafe { self.unmap(address, size) };
    }

    /// Shows a file: shared with the device, not inherited over fork (a child's copy would keep the buffer alive).
    /// Without `access` the CPU may not touch it, but the mapping exists.
    ///
    /// # Safety
    /// As for [`HostSpace::release`]; the file's bytes at `offset` may be seen and changed by the device.
    pub unsafe fn map_file(
        &self,
        address: usize,
        size: usize,
        file: BorrowedFd<'_>,
        offset: u64,
        access: bool,
    ) -> Result<(), Errno> {
        let access = if access { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::empty() };
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the caller owns the range; replacing it changes nobody else's memory.
        let mapped = unsafe { mmap(address as *mut c_void, size, access, flags, file, offset) };
        if let Err(error) = mapped {
            self.keep_reserved(address, size);
            return Err(errno(error));
        }
        self.advise(address, size, Advice::LinuxDontFork);
        Ok(())
    }

    /// Shows fresh zeroed pages, bound to `node`'s memory as `flags` say, in huge pages from 2 MiB up. A forked child shares
    /// them, so that it can read what its parent has made ready and no copy is left to the device; with `NON_PAGED` it does
    /// not have them. If binding fails the range is reserved again.
    ///
    /// # Safety
    /// As for [`HostSpace::release`].
    pub unsafe fn map_anonymous(
        &self,
        address: usize,
        size: usize,
        node: NodeId,
        flags: MemFlags,
    ) -> Result<(), Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let inherited = !flags.contains(MemFlags::NON_PAGED);
        let kind = if inherited { MapFlags::SHARED } else { MapFlags::PRIVATE };
        // SAFETY: the caller owns the range.
        let mapped = unsafe { mmap_anonymous(address as *mut c_void, size, access, kind | MapFlags::FIXED) };
        if let Err(error) = mapped {
            self.keep_reserved(address, size);
            return Err(errno(error));
        }
        // SAFETY: the range was mapped a line ago and is the caller's.
        if let Err(error) = unsafe { self.bind(address, size, node, flags) } {
            // SAFETY: the caller owns the range.
            let _ = unsafe { self.map_reserved(address, size) };
            return Err(error);
        }
        if !inherited {
            self.advise(address, size, Advice::LinuxDontFork);
        }
        if size >= HUGE_PAGE {
            self.advise(address, size, Advice::LinuxHugepage);
        }
        Ok(())
    }

    /// Shows nothing: pages are dropped, addresses stay reserved. At the limit of mappings the kernel refuses to replace
    /// one, also where that would need fewer; then the spare mapping makes way.
    ///
    /// # Safety
    /// As for [`HostSpace::release`].
    pub unsafe fn map_reserved(&self, address: usize, size: usize) -> Result<(), Errno> {
        // SAFETY: the caller owns the range.
        let map =
            || unsafe { mmap_anonymous(address as *mut c_void, size, ProtFlags::empty(), RESERVED | MapFlags::FIXED) };
        let mut mapped = map();
        if mapped == Err(rustix::io::Errno::NOMEM) && self.give_spare() {
            mapped = map();
            self.keep_spare();
        }
        mapped.map_err(errno)?;
        self.advise(address, size, Advice::LinuxDontFork);
        Ok(())
    }

    /// Ordinary memory of the process, aligned as asked, with the access `flags` ask for: always readable, writable
    /// unless read only, executable if wanted.
    pub fn alloc(&self, size: usize, align: usize, flags: MemFlags) -> Result<usize, Errno> {
        if size == 0 || self.page.offset(size) != 0 || !align.is_power_of_two() {
            return Err(Errno::INVAL);
        }
        let mut access = ProtFlags::READ;
        access.set(ProtFlags::WRITE, !flags.contains(MemFlags::READ_ONLY));
        access.set(ProtFlags::EXEC, flags.contains(MemFlags::EXECUTE_ACCESS));
        let align = align.max(self.page.bytes());
        self.reserve_anywhere(size, align, 0, Bounds::new(0, usize::MAX), access, MapFlags::PRIVATE)
    }

    /// Reads one byte of each page of a range. A page that is not there kills the process with SIGSEGV, here, where
    /// the caller that gave the address is on the stack.
    pub fn touch(&self, range: HostRange<'_>) {
        let (address, size) = (range.address(), range.size());
        let Some(last) = size.checked_sub(1).and_then(|most| address.checked_add(most)) else { return };
        let mut at = address;
        while at <= last {
            let byte: *const u8 = std::ptr::with_exposed_provenance(at);
            // SAFETY: inside of a `HostRange`, whose maker has promised that it can be read, or else wants the fault. The
            // value is not used.
            let _ = unsafe { byte.read_volatile() };
            match self.page.floor(at).checked_add(self.page.bytes()) {
                Some(next) => at = next,
                None => break,
            }
        }
    }

    /// Asks for a range's pages from one NUMA node: strictly with `NO_SUBSTITUTE`, else by preference.
    ///
    /// Where binding is not possible at all (`NO_NUMA_BIND`, one node only, no such node) or fails, that is an error
    /// under `NO_SUBSTITUTE` and nothing otherwise. `EPERM` is nothing in both cases: containers forbid `mbind`.
    ///
    /// # Safety
    /// The range is mapped and is the caller's.
    unsafe fn bind(&self, address: usize, size: usize, node: NodeId, flags: MemFlags) -> Result<(), Errno> {
        let strict = flags.contains(MemFlags::NO_SUBSTITUTE);
        let refused = if strict { Err(Errno(libc::EFAULT)) } else { Ok(()) };
        let mut mask = [0 as libc::c_ulong; MASK_WORDS];
        let bit = node.0 as usize;
        let word = mask.get_mut(bit / libc::c_ulong::BITS as usize);
        let (Some(word), false) = (word, flags.contains(MemFlags::NO_NUMA_BIND)) else { return refused };
        if self.numa_nodes <= 1 || node.0 >= self.numa_nodes {
            return refused;
        }
        *word |= 1 << (bit % libc::c_ulong::BITS as usize);
        let policy = if strict { libc::MPOL_BIND } else { libc::MPOL_PREFERRED };
        let mode = policy | libc::MPOL_F_STATIC_NODES;
        let bits = self.numa_nodes as usize + 1;
        // SAFETY: mbind reads at most `bits` bits of the mask (the kernel takes one less than told), which has more,
        // and changes the policy of the caller's pages, not their contents.
        let result =
            unsafe { libc::syscall(libc::SYS_mbind, address, size, mode as usize, mask.as_ptr(), bits, 0usize) };
        if result == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM) {
            return Ok(());
        }
        refused
    }

    /// Advice is a wish: a kernel without huge pages answers EINVAL, and nothing depends on it.
    fn advise(&self, address: usize, size: usize, advice: Advice) {
        // SAFETY: MADV_DONTFORK and MADV_HUGEPAGE change no byte of this process's memory.
        let result = unsafe { madvise(address as *mut c_void, size, advice) };
        if let Err(error) = result {
            log::debug!("madvise of {size:#x} bytes at {address:#x}: {error}");
        }
    }

    /// A kernel may have dropped the old mapping before it found that it cannot make the new one. Then the addresses
    /// are reserved again, before anyone else finds them free; if they are still mapped nothing happens.
    fn keep_reserved(&self, address: usize, size: usize) {
        match self.reserve_at(address, size, Bounds::new(0, usize::MAX)) {
            Ok(_) | Err(Errno(libc::EEXIST)) => {}
            Err(error) => log::warn!("{size:#x} bytes at {address:#x} are not reserved any more: error {}", error.0),
        }
    }

    /// Unmaps addresses. The kernel can only refuse when the cut would need one mapping more than a process may have; they
    /// stay reserved then.
    ///
    /// # Safety
    /// The range was mapped by this module, and nothing uses it.
    unsafe fn unmap(&self, address: usize, size: usize) {
        if size == 0 {
            return;
        }
        // SAFETY: by contract nothing uses what goes.
        let result = unsafe { munmap(address as *mut c_void, size) };
        if let Err(error) = result {
            log::warn!("munmap of {size:#x} bytes at {address:#x}: error {}", error.raw_os_error());
        }
    }

    /// Sees to a spare mapping: at the limit of mappings one can be had only for one.
    fn keep_spare(&self) {
        if SPARE.load(Ordering::Relaxed) != 0 {
            return;
        }
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // Far from where other mappings are, so that it takes no place that a buffer would have had. Shared, so that it never
        // becomes one with a neighbour.
        let hint = std::ptr::without_provenance_mut(1usize.checked_shl(44).unwrap_or(0));
        // SAFETY: without MAP_FIXED the kernel maps where nothing is mapped.
        let mapped = unsafe { mmap_anonymous(hint, self.page.bytes(), ProtFlags::empty(), flags) };
        let Ok(mapped) = mapped.map(<*mut c_void>::addr) else { return };
        if SPARE.compare_exchange(0, mapped, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            // SAFETY: mapped above; another thread's is the spare one.
            unsafe { self.unmap(mapped, self.page.bytes()) };
        }
    }

    /// Gives the spare mapping up; whether there was one.
    fn give_spare(&self) -> bool {
        let spare = SPARE.swap(0, Ordering::Relaxed);
        if spare != 0 {
            // SAFETY: mapped by `keep_spare`; the swap has given it to this thread alone.
            unsafe { self.unmap(spare, self.page.bytes()) };
        }
        spare != 0
    }
}

/// Where the spare mapping is; 0: there is none. Relaxed: nothing is read through it.
static SPARE: AtomicUsize = AtomicUsize::new(0);

/// Room for 1,024 NUMA nodes, as many as Linux can have, and one bit more.
const MASK_WORDS: usize = 1024 / libc::c_ulong::BITS as usize + 1;

/// The kernel's number of a rustix error.
pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

#[cfg(test)]
mod tests;
