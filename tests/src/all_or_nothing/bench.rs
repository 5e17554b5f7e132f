//! A context on the setting's machine, furnished with a bit of everything: what verbs are tried on.
//!
//! The contexts are the process's own, so there is one bench at a time. When it is cleared away everything is closed,
//! and what is left must be what was there before it was set up.

use std::cell::RefCell;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use hsakmt::Context;
use hsakmt_core::driver::Errno;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::manager::SharedHandle;
use hsakmt_core::node::NodeId;
use hsakmt_kfd::sim::embedded::EmbeddedMachine;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::setting::Setting;
use super::state::State;
use crate::promise;

/// A page.
pub(super) const PAGE: usize = 4096;

/// What a verb is given: addresses, a descriptor, a handle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    /// The address the verb is about.
    pub at: usize,
    /// A descriptor.
    pub file: i32,
    /// A name of a buffer.
    pub handle: SharedHandle,
}

/// An open context, and what has to be cleared away with it.
#[derive(Debug)]
pub struct Bench {
    /// The primary context.
    pub context: Context,
    machine: Option<EmbeddedMachine>,
    secondary: RefCell<Vec<Context>>,
    files: RefCell<Vec<OwnedFd>>,
    memory: RefCell<Vec<(usize, usize)>>,
}

impl Bench {
    /// A context on the setting's machine in this process, or (`None`) on the `/dev/kfd` there is.
    pub fn start(setting: Option<&Setting>) -> Bench {
        let machine = setting.map(|setting| setting.machine().expect("a machine"));
        let (secondary, files, memory) = (RefCell::default(), RefCell::default(), RefCell::default());
        Bench { context: Context::primary(), machine, secondary, files, memory }
    }

    /// Opens, makes the apertures, and a bit of everything in them.
    pub fn furnish(&self) -> Result<()> {
        self.open()?;
        self.context.acquire_system_properties()?;
        let host = self.context.allocate(NodeId(0), 2 * PAGE, MemFlags::HOST_ACCESS)?;
        self.context.set_user_data(host, 0x77)?;
        let _ = self.context.map(host, 2 * PAGE)?;
        let _ = self.context.register(promise::range(host_memory() + 9 * PAGE + 0x123, 0x100));
        Ok(())
    }

    /// Opens the primary context.
    pub fn open(&self) -> Result<()> {
        match self.machine.clone() {
            Some(machine) => self.context.open_with(|| Ok(Box::new(machine.open().map_err(|_| Error::NotOpened)?))),
            None => self.context.open(),
        }
    }

    /// Opens a secondary context.
    pub fn open_secondary(&self) -> Result<()> {
        let opened = match self.machine.clone() {
            Some(machine) => {
                Context::open_secondary_with(|| Ok(Box::new(machine.open().map_err(|_| Error::NotOpened)?)))
            }
            None => Context::open_secondary(),
        };
        self.secondary.borrow_mut().push(opened?);
        Ok(())
    }

    /// The newest secondary context.
    pub fn second(&self) -> Context {
        *self.secondary.borrow().last().expect("a secondary context")
    }

    /// Closes the newest secondary context.
    pub fn close_secondary(&self) -> Result<()> {
        let context = self.second();
        self.secondary.borrow_mut().pop();
        context.close_secondary()
    }

    /// A descriptor to be closed with the bench.
    pub fn keep(&self, file: i32) {
        // SAFETY: every caller has just got the descriptor from an export, and gives it up here.
        self.files.borrow_mut().push(unsafe { OwnedFd::from_raw_fd(file) });
    }

    /// Attaches metadata to the newest kept dmabuf, where the machine is in this process.
    pub fn describe(&self, metadata: &[u8]) {
        let files = self.files.borrow();
        if let (Some(machine), Some(file)) = (&self.machine, files.last()) {
            machine.set_metadata(file.as_fd(), metadata).expect("a dmabuf of this machine");
        }
    }

    /// Ordinary memory without a page behind it, to be unmapped with the bench.
    pub fn large_memory(&self, size: usize) -> usize {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: without an address and MAP_FIXED the kernel maps where nothing is mapped.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), size, ProtFlags::READ, flags) };
        let start = mapped.expect("address space").addr();
        self.memory.borrow_mut().push((start, size));
        start
    }

    /// Everything that a failed verb must leave as it was.
    pub fn state(&self) -> State {
        let mut contexts = vec![self.context];
        contexts.extend(self.secondary.borrow().iter());
        let mut state = State::now(self.machine.as_ref(), &contexts);
        if self.machine.is_none() {
            // All that a kernel tells of what it holds. Closed, or before the GPUs are known, it tells nothing.
            for node in [NodeId(1), NodeId(2)] {
                let free = self.context.available_memory(node);
                state.note(format!("kernel: {free:?} bytes of {node:?} free"));
            }
        }
        state
    }

    /// The machine, where it is in this process.
    pub fn machine(&self) -> Option<&EmbeddedMachine> {
        self.machine.as_ref()
    }

    /// Closes everything. What is left is what was there before [`Bench::start`], and the topology: reading it takes long.
    pub fn clear_away(self) {
        for context in self.secondary.take() {
            let _ = context.close_secondary();
        }
        while self.context.close().is_ok() {}
        for (start, size) in self.memory.take() {
            // SAFETY: mapped by `large_memory`; all objects that knew of it are closed.
            unsafe { munmap(start as *mut _, size) }.expect("it was mapped");
        }
    }

    /// Makes the pools of both contexts large enough for so many objects: they keep what they have.
    pub fn warm_up(&self, objects: usize) -> std::result::Result<(), Errno> {
        let failed = |_: Error| Errno::INVAL;
        self.furnish().map_err(failed)?;
        let many: Vec<usize> =
            (0..objects).filter_map(|_| self.context.allocate(NodeId(0), PAGE, MemFlags::HOST_ACCESS).ok()).collect();
        many.iter().for_each(|at| self.context.free(*at).expect("free"));
        // Where all addresses are reserved there is no second context.
        let reserved = std::env::var_os("HSA_RESERVE_SVM").is_some();
        if !reserved {
            self.open_secondary().map_err(failed)?;
            let second = self.second();
            let at = second.allocate(NodeId(0), PAGE, MemFlags::HOST_ACCESS).map_err(failed)?;
            second.free(at).map_err(failed)?;
        }
        Ok(())
    }
}

/// Sixteen pages of ordinary memory, to be registered: the same in every bench.
pub(super) fn host_memory() -> usize {
    static MEMORY: OnceLock<usize> = OnceLock::new();
    *MEMORY.get_or_init(|| {
        let bytes: &'static mut [u8] = vec![1u8; 17 * PAGE].leak();
        bytes.as_mut_ptr().expose_provenance().next_multiple_of(PAGE)
    })
}
