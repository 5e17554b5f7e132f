//! An open context on a machine in this process, for one run: [`Bench`].
//!
//! The primary context and the topology are the process's own, so runs take turns. There is one machine of each kind for
//! the whole process, since its topology takes longest to read: between two runs it holds nothing.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use hsakmt::Context;
use hsakmt_core::error::{Error, Result};
use hsakmt_kfd::sim::embedded::EmbeddedMachine;

use super::input::Input;
use crate::all_or_nothing::{Setting, State};

/// A page.
pub(super) const PAGE: usize = 4096;

/// Pages of ordinary memory that runs may register.
const HOST_PAGES: usize = 16;

/// The calls that change what the kernel holds.
pub(super) const CALLS: [&str; 18] = [
    "alloc",
    "map",
    "unmap",
    "free",
    "mmap",
    "reserve",
    "svm",
    "scratch",
    "dmabuf_info",
    "dmabuf_import",
    "dmabuf_export",
    "ipc_export",
    "ipc_import",
    "open",
    "create_process",
    "apertures",
    "acquire_vm",
    "policy",
];

/// Lines about attributes of shared virtual memory. Ranges are the kernel's, and no verb takes them back; the simulated
/// kernel notices late, during any verb, that the memory of one has been unmapped.
const RANGES: (&str, &str) = ("kernel: process", "range 0x");

/// Machines that differ in which steps a verb takes, as settings name them. Their environment is not set here: a process
/// that is started with another one tries that.
const KINDS: [&str; 6] = ["mmap", "mmap", "svm", "svm-fails", "old-apu", "new-apu"];

/// Contexts that are open, and what their machine is.
pub(super) struct Bench {
    pub(super) primary: Context,
    pub(super) machine: EmbeddedMachine,
    pub(super) second: Option<Context>,
    /// What was last told, and when.
    told: Option<(Stamp, Rc<State>)>,
    _turn: MutexGuard<'static, Machines>,
}

/// Each context, its generation and whether it is open; how often each of [`CALLS`] was made.
type Stamp = (Vec<(usize, usize, bool)>, [u64; CALLS.len()]);

/// The machines that runs have been on, and which was the last.
struct Machines {
    known: BTreeMap<&'static str, EmbeddedMachine>,
    last: Option<&'static str>,
}

impl Bench {
    /// Opens the primary context on the kind of machine that the bytes choose.
    pub(super) fn open(input: &mut Input<'_>) -> Bench {
        static TURN: Mutex<Machines> = Mutex::new(Machines { known: BTreeMap::new(), last: None });
        let mut turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = input.pick(&KINDS);
        let machine = || Setting::named(kind).expect("a setting").machine().expect("a machine");
        let machine = turn.known.entry(kind).or_insert_with(machine).clone();
        let primary = Context::primary();
        if turn.last.replace(kind) != Some(kind) {
            primary.release_system_properties();
        }
        let bench = Bench { primary, machine, second: None, told: None, _turn: turn };
        bench.open_primary().expect("nothing fails yet");
        bench
    }

    /// Opens the primary context, and sets it up.
    pub(super) fn open_primary(&self) -> Result<()> {
        let channel = || Ok(Box::new(self.machine.open().map_err(|_| Error::NotOpened)?) as _);
        self.primary.open_with(channel)?;
        self.primary.acquire_system_properties().map(drop)
    }

    /// Opens a secondary context, if there is none. It fails where all addresses are the primary's.
    pub(super) fn open_second(&mut self) -> Result<()> {
        if self.second.is_none() {
            let channel = || Ok(Box::new(self.machine.open().map_err(|_| Error::NotOpened)?) as _);
            self.second = Some(Context::open_secondary_with(channel)?);
        }
        Ok(())
    }

    /// Closes the secondary context.
    pub(super) fn close_second(&mut self) {
        if let Some(second) = self.second.take() {
            second.close_secondary().expect("it is open");
        }
    }

    /// Every open context.
    pub(super) fn contexts(&self) -> Vec<Context> {
        [Some(self.primary), self.second].into_iter().flatten().collect()
    }

    /// One of them.
    pub(super) fn context(&self, input: &mut Input<'_>) -> Context {
        input.pick(&self.contexts())
    }

    /// Everything a failed verb must leave as it was, but for the process's own mappings and for [`RANGES`]. It is made
    /// anew only after something was published, or the kernel was called: to tell it takes longer than most verbs.
    pub(super) fn state(&mut self) -> Rc<State> {
        let contexts = self.contexts();
        let versions =
            contexts.iter().map(|context| (context.as_raw().addr(), context.generation(), context.is_open()));
        let calls = self.machine.faults(|faults| CALLS.map(|call| faults.calls(call)));
        let stamp = (versions.collect(), calls);
        match &self.told {
            Some((known, state)) if *known == stamp => Rc::clone(state),
            _ => {
                let state = Rc::new(State::held(Some(&self.machine), &contexts).without(&[RANGES]));
                self.told = Some((stamp, Rc::clone(&state)));
                state
            }
        }
    }

    /// The state may have changed by other ways: a closed descriptor, for one.
    pub(super) fn forget(&mut self) {
        self.told = None;
    }

    /// Closes everything; then the kernel holds nothing.
    pub(super) fn close(&mut self) {
        self.machine.faults(|faults| faults.clear());
        self.close_second();
        while self.primary.close().is_ok() {}
        let left = self.machine.holdings();
        assert!(left.len() == 1, "left in the kernel: {left:#?}");
    }
}

impl Drop for Bench {
    /// Whoever comes next finds all closed, whatever happened.
    fn drop(&mut self) {
        if let Some(second) = self.second.take() {
            let _ = second.close_secondary();
        }
        while self.primary.close().is_ok() {}
        self.machine.faults(|faults| faults.clear());
    }
}

/// The start of ordinary memory that may be registered: the same in every run.
pub(super) fn host_memory() -> usize {
    static MEMORY: OnceLock<usize> = OnceLock::new();
    *MEMORY.get_or_init(|| {
        let bytes: &'static mut [u8] = vec![1; (HOST_PAGES + 1) * PAGE].leak();
        bytes.as_mut_ptr().expose_provenance().next_multiple_of(PAGE)
    })
}

/// An address: of an object that is or was there or near its edges, in ordinary memory, or anywhere.
pub(super) fn address(input: &mut Input<'_>, known: &[usize]) -> usize {
    let offset = input.pick(&[0, 0, 0, 0, 0, 1, 0x234, PAGE, usize::MAX, PAGE - 1]);
    match input.below(8) {
        0..5 if !known.is_empty() => input.pick(known).wrapping_add(offset),
        0..7 => host_memory() + input.below(HOST_PAGES / 2) * PAGE + offset % PAGE,
        _ => input.hostile(),
    }
}

/// A size: mostly some pages or bytes, at times any.
pub(super) fn size(input: &mut Input<'_>) -> usize {
    match input.below(8) {
        0..4 => PAGE * (1 + input.below(4)),
        4 => input.pick(&[0, 1, 0x100, 0x1001, 0x1_0000, 0x20_0000, 0x4000_0000]),
        5 => 1 + input.below(4 * PAGE),
        6 => PAGE * input.below(HOST_PAGES),
        _ => input.hostile(),
    }
}
