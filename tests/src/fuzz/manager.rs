//! Verbs of contexts on the simulated machine, with faults: what fails changes nothing, and all can be ended.
//!
//! In: bytes; they choose a machine, then verbs with arguments of every kind, and at times which call to the kernel is to
//! fail next. Checked: no panic; a verb that fails leaves published objects and the kernel's as they were; at the end
//! every object is ended by verbs, and then all is as it was at the beginning; when all is closed the kernel holds
//! nothing. A verb may succeed although a call failed; what that leaves behind the end would show.
//!
//! One call fails at a time. A verb that fails by itself just then, and whose undoing is struck, ends the run.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use hsakmt::Context;
use hsakmt_core::driver::{Errno, SvmAttribute};
use hsakmt_core::error::Result;
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::PointerType;
use hsakmt_core::manager::SharedHandle;
use hsakmt_core::node::NodeId;

use super::bench::{Bench, CALLS, PAGE, address, size};
use super::input::Input;
use crate::all_or_nothing::State;
use crate::promise;

/// Verbs of one run at most.
const MOST_STEPS: usize = 400;

/// Objects at most.
const MOST_OBJECTS: usize = 60;

/// How many of [`CALLS`] can fail after a context is set up.
const CAN_FAIL: usize = 13;

/// Where a GPU's scratch memory was last, which no verb takes back either.
const SETTINGS: (&str, &str) = ("kernel: process", "set GPU");

/// Runs these bytes.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let bench = Bench::open(&mut input);
    let mut play = Play::on(bench);
    let mut steps = 0;
    while input.more() && steps < MOST_STEPS && !play.spoiled {
        play.step(&mut input);
        steps += 1;
    }
    if !play.spoiled {
        play.end_everything();
    }
    play.files.clear();
    play.bench.close();
}

/// A bench, and what verbs have given.
struct Play {
    bench: Bench,
    /// What was there at first.
    empty: State,
    /// Where that begins.
    first: Vec<usize>,
    /// Addresses that verbs gave, of objects that may have ended.
    known: Vec<usize>,
    files: Vec<OwnedFd>,
    handles: Vec<SharedHandle>,
    /// What is to fail, and in words.
    armed: Option<(&'static str, u64)>,
    fault: String,
    /// The kernel holds what it refused to end, so nothing more can be told from this run.
    spoiled: bool,
}

impl Play {
    fn on(mut bench: Bench) -> Play {
        let (first, known, files, handles, armed, spoiled) = Default::default();
        let (empty, fault) = (State::clone(&bench.state()), String::from("no fault"));
        let mut play = Play { bench, empty, first, known, files, handles, armed, fault, spoiled };
        play.begin();
        play
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let context = self.bench.context(input);
        match input.below(24) {
            0..4 => self.allocate(context, input),
            4 => self.allocate_at(context, input),
            5..7 => self.at("free", input, |at, _| context.free(at)),
            7 => self.at("register", input, |at, input| context.register(promise::range(at, size(input)))),
            8 => self.at("register to nodes", input, |at, input| {
                context.register_to_nodes(promise::range(at, size(input)), &nodes(input))
            }),
            9 => self.at("register with flags", input, |at, input| {
                context.register_with_flags(promise::range(at, size(input)), flags(input))
            }),
            10 => self.at("deregister", input, |at, _| context.deregister(at)),
            11..13 => self.at("map", input, |at, input| context.map_range(promise::range(at, size(input))).map(drop)),
            13..15 => self.at("map nodes", input, |at, input| {
                let (size, nodes) = (size(input), nodes(input));
                context.map_range_nodes(promise::range(at, size), &nodes).map(drop)
            }),
            15 => self.at("unmap", input, |at, _| context.unmap(at)),
            16 => self.at("user data", input, |at, input| context.set_user_data(at, input.hostile())),
            17 => self.share(context, input),
            18 => self.dmabuf(context, input),
            19 => self.attributes(context, input),
            20..23 => self.prepare_fault(input),
            _ => self.life(input),
        }
    }

    /// A verb; if it fails all is as before.
    fn attempt(&mut self, name: &str, verb: impl FnOnce(&mut Play) -> Result<()>) -> Result<()> {
        let (before, calls) = (self.bench.state(), self.calls());
        let done = verb(self);
        if let Err(error) = done {
            let after = self.bench.state();
            if before != after && self.undoing_was_struck(name, calls) {
                self.spoiled = true;
                return done;
            }
            before.assert_same(&after, &format!("{name} failed ({error:?}); {}", self.fault));
        }
        done
    }

    /// How often the call has been made of which one is to fail, and which one that is.
    fn calls(&self) -> Option<(u64, u64)> {
        self.armed.map(|(call, k)| (self.bench.machine.faults(|faults| faults.calls(call)), k))
    }

    /// Whether what failed on purpose, if anything did, was a call that takes something back: what the kernel refuses to
    /// end nobody can. Of verbs that end things these calls are the steps themselves.
    fn undoing_was_struck(&self, name: &str, before: Option<(u64, u64)>) -> bool {
        let ends = ["free", "deregister", "unmap"].iter().any(|ending| name.starts_with(ending));
        let takes_back = self.armed.is_some_and(|(call, _)| matches!(call, "free" | "unmap"));
        let struck = before.zip(self.calls()).is_some_and(|((before, k), (after, _))| before < k && k <= after);
        !ends && takes_back && struck
    }

    /// A verb about an address.
    fn at(&mut self, name: &str, input: &mut Input<'_>, verb: impl FnOnce(usize, &mut Input<'_>) -> Result<()>) {
        let at = self.address(input);
        let _ = self.attempt(&format!("{name} at {at:#x}"), |_| verb(at, input));
    }

    fn has_room(&self) -> bool {
        self.bench.contexts().into_iter().map(|context| objects(context).len()).sum::<usize>() < MOST_OBJECTS
    }

    fn allocate(&mut self, context: Context, input: &mut Input<'_>) {
        if !self.has_room() {
            return;
        }
        let (node, size, flags) = (node(input), size(input), flags(input));
        let align = input.pick(&[0, 0, 0, PAGE, 0x1_0000, 0x20_0000, 1, usize::MAX]);
        let what = format!("allocate {size:#x} bytes at a multiple of {align:#x} on {node:?}, {flags:?}");
        let _ = self.attempt(&what, |play| {
            let start = context.allocate_aligned(node, size, align, flags)?;
            play.made(context, start, size, flags);
            Ok(())
        });
    }

    fn allocate_at(&mut self, context: Context, input: &mut Input<'_>) {
        if !self.has_room() {
            return;
        }
        let (at, node, size, flags) = (self.address(input), node(input), size(input), flags(input));
        let at = if input.below(4) == 0 { at } else { at & !(PAGE - 1) };
        let _ = self.attempt(&format!("allocate {size:#x} bytes at {at:#x} on {node:?}, {flags:?}"), |play| {
            let start = context.allocate_at(node, at, size, flags)?;
            play.made(context, start, size, flags);
            Ok(())
        });
    }

    /// An allocation is published as it was asked for. Scratch memory no query finds.
    fn made(&mut self, context: Context, start: usize, size: usize, flags: MemFlags) {
        self.known.push(start);
        if flags.contains(MemFlags::SCRATCH) {
            return;
        }
        let size = size as u64;
        let found = objects(context)
            .into_iter()
            .find(|object| object.gpu == start && object.kind != PointerType::RegisteredUser);
        let found = found.unwrap_or_else(|| panic!("{start:#x} was made, {flags:?}, and is not there"));
        assert!(matches!(found.kind, PointerType::Allocated | PointerType::ReservedAddress), "{found:x?}");
        assert!(
            found.size == size || (flags.contains(MemFlags::AQL_QUEUE_MEMORY) && found.size == 2 * size),
            "{found:x?}"
        );
        assert!(found.flags.contains(flags) && found.mapped == 0, "{found:x?}");
    }

    fn share(&mut self, context: Context, input: &mut Input<'_>) {
        let at = self.known(input);
        if input.below(2) == 0 {
            let _ = self.attempt("share", |play| {
                play.handles.push(context.share(at, size(input))?);
                Ok(())
            });
        } else if self.has_room() {
            let known = self.handles.len();
            let mut words = if known == 0 { [0; 8] } else { self.handles[input.below(known)].to_words() };
            if known == 0 || input.once_in(4) {
                words[input.below(8)] = input.hostile() as u32;
            }
            let nodes = if input.below(2) == 0 { None } else { Some(nodes(input)) };
            let _ = self.attempt("import", |play| {
                let (start, _) = context.import_shared(SharedHandle::from_words(words), nodes.as_deref())?;
                play.known.push(start);
                Ok(())
            });
        }
    }

    fn dmabuf(&mut self, context: Context, input: &mut Input<'_>) {
        let at = self.known(input);
        match input.below(3) {
            0 => drop(self.attempt("export", |play| {
                let (file, _) = context.export_dmabuf(at, size(input))?;
                // SAFETY: the descriptor is new, and its caller's to close.
                play.files.push(unsafe { OwnedFd::from_raw_fd(file) });
                Ok(())
            })),
            1 if !self.files.is_empty() => {
                let file = &self.files[input.below(self.files.len())];
                let metadata = vec![7; input.below(300)];
                let _ = self.bench.machine.set_metadata(file.as_fd(), &metadata);
            }
            _ if self.has_room() => {
                let (files, wild) = (self.files.len(), input.once_in(8));
                let file = if files == 0 || wild { -1 } else { self.files[input.below(files)].as_raw_fd() };
                let nodes = if input.below(2) == 0 { None } else { Some(nodes(input)) };
                let wanted = input.below(2) == 0;
                let _ = self.attempt("register graphics", |play| {
                    play.known.push(context.register_graphics(promise::lent(file), nodes.as_deref(), wanted)?.address);
                    Ok(())
                });
            }
            _ => {}
        }
    }

    fn attributes(&mut self, context: Context, input: &mut Input<'_>) {
        let (at, size) = (self.address(input), size(input));
        let one = |input: &mut Input<'_>| SvmAttribute { kind: input.below(8) as u32, value: input.hostile() as u32 };
        let mut some: Vec<SvmAttribute> = (0..input.below(4)).map(|_| one(input)).collect();
        let _ = match input.below(2) {
            0 => self.attempt("set attributes", |_| context.set_svm_attributes(promise::range(at, size), &some)),
            _ => self.attempt("get attributes", |_| context.svm_attributes(at, size, &mut some)),
        };
    }

    /// One call to the kernel is to fail, of those that follow. One alone: undoing must not fail too.
    fn prepare_fault(&mut self, input: &mut Input<'_>) {
        let (call, k) = (input.pick(&CALLS[..CAN_FAIL]), 1 + input.below(4) as u64);
        let partly = matches!(call, "map" | "unmap") && input.below(2) == 0;
        self.fault = format!("{call} was to fail at its call {k}{}", if partly { ", after the first GPU" } else { "" });
        self.armed = Some((call, self.bench.machine.faults(|faults| faults.calls(call)) + k));
        self.bench.machine.faults(|faults| {
            faults.clear();
            if partly { faults.stop_after(call, k, 1) } else { faults.fail(call, k, Errno(12)) }
        });
    }

    /// Contexts come and go.
    fn life(&mut self, input: &mut Input<'_>) {
        self.end_everything();
        match input.below(4) {
            // Where all addresses are the primary's, there is no other.
            0 | 1 => drop(self.bench.open_second()),
            2 => self.bench.close_second(),
            _ => {
                self.bench.close();
                self.bench.open_primary().expect("nothing fails now");
            }
        }
        self.begin();
    }

    /// Notes what is there before there are objects.
    fn begin(&mut self) {
        self.empty = State::clone(&self.bench.state()).without(&[SETTINGS]);
        let there = self.bench.contexts().into_iter().flat_map(objects);
        self.first = there.map(|object| object.gpu).collect();
        (self.known, self.handles) = Default::default();
    }

    /// Ends every object by verbs; then all is as it was at the beginning.
    fn end_everything(&mut self) {
        self.bench.machine.faults(|faults| faults.clear());
        self.files.clear();
        self.bench.forget();
        self.armed = None;
        let end = |context: Context, at: usize| {
            let _ = (context.unmap(at), context.deregister(at), context.free(at));
        };
        for context in self.bench.contexts() {
            let left = || objects(context).into_iter().filter(|object| !self.first.contains(&object.gpu));
            // Registrations and mappings are counted.
            for _ in 0..2 * MOST_STEPS {
                left().for_each(|object| end(context, object.gpu));
                if left().next().is_none() {
                    break;
                }
            }
            assert_eq!(left().collect::<Vec<_>>(), [], "cannot be ended; {}", self.fault);
            // Scratch memory, which nobody sees.
            self.known.iter().for_each(|at| end(context, *at));
        }
        self.empty.assert_same(
            &State::clone(&self.bench.state()).without(&[SETTINGS]),
            &format!("all ended; {}", self.fault),
        );
    }

    /// Where an object begins or began, mostly.
    fn known(&self, input: &mut Input<'_>) -> usize {
        if self.known.is_empty() || input.below(4) == 3 { self.address(input) } else { input.pick(&self.known) }
    }

    /// An address that is not of what was there at first: pages of registers, which the set-up made for good.
    fn address(&self, input: &mut Input<'_>) -> usize {
        let at = address(input, &self.known);
        if self.first.iter().any(|first| (*first..first + PAGE).contains(&at)) { 0 } else { at }
    }
}

/// What is published of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    kind: PointerType,
    gpu: usize,
    size: u64,
    flags: MemFlags,
    mapped: usize,
}

/// Every object of a context.
pub(super) fn objects(context: Context) -> Vec<Seen> {
    let all = context.inspect(|manager| {
        let objects = manager.writer().snapshot().iter().map(|info| Seen {
            kind: info.kind,
            gpu: info.gpu_address as usize,
            size: info.size,
            flags: info.flags,
            mapped: info.mapped.len(),
        });
        Ok(objects.collect())
    });
    all.expect("it is open")
}

fn node(input: &mut Input<'_>) -> NodeId {
    NodeId(input.pick(&[1, 0, 1, 2, 1, 0, 1, 2, 3, u32::MAX]))
}

/// Nodes that are there, mostly.
fn nodes(input: &mut Input<'_>) -> Vec<NodeId> {
    let any = if input.below(4) == 3 { [1, 2, 0, 3] } else { [1, 2, 1, 2] };
    (0..input.pick(&[1, 2, 1, 2, 1, 0, 3, 130])).map(|_| NodeId(input.pick(&any))).collect()
}

/// Flags: a sensible combination with at times a bit or two that may not fit, or any.
pub(super) fn flags(input: &mut Input<'_>) -> MemFlags {
    let host = MemFlags::HOST_ACCESS;
    let sensible = [
        MemFlags::NON_PAGED,
        MemFlags::NON_PAGED | host,
        host,
        MemFlags::empty(),
        MemFlags::NON_PAGED | MemFlags::NO_ADDRESS,
        MemFlags::ONLY_ADDRESS,
        MemFlags::SCRATCH | host,
        host | MemFlags::COARSE_GRAIN,
        MemFlags::AQL_QUEUE_MEMORY | host | MemFlags::EXECUTE_ACCESS,
        MemFlags::NON_PAGED | MemFlags::AQL_QUEUE_MEMORY,
    ];
    let mut flags = input.pick(&sensible);
    match input.below(8) {
        6 => flags.toggle(MemFlags::from_bits_retain(1 << input.below(32))),
        7 => flags = MemFlags::from_bits_retain(input.word() as u32),
        _ => {}
    }
    flags
}
