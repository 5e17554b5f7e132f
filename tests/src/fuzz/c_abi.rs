//! The C entries with arguments that no sane caller passes: null, unaligned, huge, wild.
//!
//! In: bytes; they choose a machine, then calls. An address that is only looked up may be any; a pointer that is followed
//! leads to as much memory as its count says, or is null, since C can promise no less. Checked: no panic, not even a
//! caught one; each status is one of the table; nothing beside an answer is written; a call that fails changes nothing;
//! what C is told of an address is what Rust is told; in the end the kernel holds nothing.

mod events;
mod nodes;

use std::cell::Cell;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{null, without_provenance};
use std::sync::Once;

use hsakmt::Context;
use hsakmt::ctypes::*;
use hsakmt::status::Status;
use hsakmt_core::info::PointerType;

use super::bench::{Bench, PAGE, address, size};
use super::entries::{self, Channel, Place, Room};
use super::input::Input;
use super::manager::{flags, objects};
use nodes::{MOST, count, node, nodes, refused, topology};

/// Calls of one run at most.
const MOST_STEPS: usize = 400;

/// Objects at most.
const MOST_OBJECTS: usize = 60;

const SUCCESS: u32 = Status::Success as u32;

thread_local! {
    /// Panics of this thread, caught ones too.
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// Runs these bytes.
pub fn run(bytes: &[u8]) {
    count_panics();
    let mut input = Input::new(bytes);
    let bench = Bench::open(&mut input);
    let mut calls = Calls { bench, known: Vec::new(), files: Vec::new(), handles: Vec::new(), events: Vec::new() };
    let mut steps = 0;
    while input.more() && steps < MOST_STEPS {
        calls.step(&mut input);
        steps += 1;
    }
    calls.files.clear();
    calls.keep_events();
    calls.bench.close();
}

/// From now on a panic is counted before anyone can catch it.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
}

/// A bench, and what calls have given.
struct Calls {
    bench: Bench,
    known: Vec<usize>,
    files: Vec<OwnedFd>,
    handles: Vec<[u32; 8]>,
    /// Addresses of events.
    events: Vec<usize>,
}

/// What was called, and what it said.
type Said = (&'static str, u32);

impl Calls {
    fn step(&mut self, input: &mut Input<'_>) {
        if !self.bench.primary.is_open() && input.below(4) == 0 {
            self.bench.open_primary().expect("nothing fails");
        }
        let (before, panics) = (self.bench.state(), PANICS.get());
        let channel = self.channel(input);
        let (name, said) = match input.below(32) {
            0..5 => self.make(channel, input),
            5..9 => self.look_up(channel, input),
            9..16 => self.about_an_address(channel, input),
            16..21 => self.with_nodes(channel, input),
            21..24 => self.share(channel, input),
            24..26 => self.import(channel, input),
            26..28 => self.attributes(channel, input),
            28 => topology(channel, input),
            29 => self.with_events(channel, input),
            30 => refused(channel, input),
            _ => self.life(input),
        };
        assert_eq!(PANICS.get(), panics, "{name} panicked");
        let status = Status::ALL.iter().find(|status| **status as u32 == said);
        let status = status.unwrap_or_else(|| panic!("{name} said {said}"));
        if said != SUCCESS {
            let after = self.bench.state();
            before.assert_same(&after, &format!("{name} said {}", status.name()));
        }
    }

    /// Mostly the plain name, or a context that is open; at times none that is.
    fn channel(&self, input: &mut Input<'_>) -> Channel {
        let second = self.bench.second.map_or(null(), Context::as_raw);
        match input.below(12) {
            0..7 => None,
            7..9 => Some(self.bench.primary.as_raw()),
            9..11 => Some(second),
            _ => Some(self.wild_context(input)),
        }
    }

    fn wild_context(&self, input: &mut Input<'_>) -> *const c_void {
        let near = self.bench.primary.as_raw().addr().wrapping_add(input.below(1 << 16));
        let any = input.hostile();
        without_provenance(input.pick(&[0, near, any]))
    }

    fn address(&self, input: &mut Input<'_>) -> usize {
        address(input, &self.known)
    }

    fn has_room(&self) -> bool {
        let open = self.bench.contexts().into_iter().filter(|context| context.is_open());
        open.map(|context| objects(context).len()).sum::<usize>() < MOST_OBJECTS
    }

    fn make(&mut self, channel: Channel, input: &mut Input<'_>) -> Said {
        if !self.has_room() {
            return self.about_an_address(channel, input);
        }
        let (node, size) = (node(input), size(input) as u64);
        let flags = HsaMemFlags { Value: flags(input).bits() };
        let mut room = Room::new::<usize>(1, input.below(8));
        room.set(0, &self.address(input).to_ne_bytes());
        let place = if input.once_in(16) { Place::null() } else { room.place() };
        let said = if input.below(2) == 0 {
            entries::allocate(channel, node, size, flags, place)
        } else {
            let any = input.hostile();
            let alignment = input.pick(&[0, PAGE, 0x1_0000, 1, any]) as u64;
            entries::allocate_aligned(channel, node, size, alignment, flags, place)
        };
        room.check("AllocMemory");
        if said == SUCCESS {
            self.known.push(room.long(0) as usize);
        }
        ("AllocMemory", said)
    }

    /// The answer is the one that Rust gets.
    fn look_up(&mut self, channel: Channel, input: &mut Input<'_>) -> Said {
        let at = self.address(input);
        if input.once_in(8) {
            return ("QueryPointerInfo", entries::query(channel, at, Place::null()));
        }
        let mut room = Room::new::<HsaPointerInfo>(1, input.below(8));
        let said = entries::query(channel, at, room.place());
        room.check("QueryPointerInfo");
        let asked = match channel {
            None => Some(self.bench.primary),
            Some(raw) => Context::from_raw(raw),
        };
        let Some(asked) = asked.filter(|context| context.is_open()) else {
            assert_ne!(said, SUCCESS, "of no context");
            return ("QueryPointerInfo", said);
        };
        let same = asked.query_pointer(at, |info| {
            let lists = [36, 40].map(|at| room.word(at) as usize) == [info.registered.len(), info.mapped.len()];
            let pointers = [44, 52].map(|at| room.long(at) as usize)
                == [info.registered.as_ptr().addr(), info.mapped.as_ptr().addr()];
            let words =
                [room.word(0), room.word(4), room.word(8)] == [info.kind as u32, info.node.0, info.flags.bits()];
            let cpu = if info.kind == PointerType::Unknown { 0 } else { info.cpu_address as u64 };
            let longs =
                [12, 20, 28, 60].map(|at| room.long(at)) == [cpu, info.gpu_address, info.size, info.user_data as u64];
            assert_eq!(said == SUCCESS, info.kind != PointerType::Unknown, "{at:#x}");
            lists && pointers && words && longs
        });
        assert_eq!(same, Ok(true), "{at:#x}: C says {:02x?}", room.get());
        ("QueryPointerInfo", said)
    }

    fn about_an_address(&mut self, channel: Channel, input: &mut Input<'_>) -> Said {
        let (at, size) = (self.address(input), size(input) as u64);
        match input.below(9) {
            0 | 1 => ("FreeMemory", entries::free(channel, at, size)),
            2 => ("RegisterMemory", entries::register(channel, at, size)),
            3 => {
                let flags = HsaMemFlags { Value: flags(input).bits() };
                ("RegisterMemoryWithFlags", entries::register_with_flags(channel, at, size, flags))
            }
            4 => ("DeregisterMemory", entries::deregister(channel, at)),
            5 => ("SetMemoryUserData", entries::set_user_data(channel, at, input.hostile())),
            6 => ("UnmapMemoryToGPU", entries::unmap(channel, at)),
            7 => ("UnmapGraphicHandle", entries::unmap_graphics(channel, node(input), at as u64, size)),
            _ => {
                let mut room = Room::new::<u64>(1, input.below(8));
                let place = if input.once_in(4) { Place::null() } else { room.place() };
                let said = entries::map(channel, at, size, place);
                room.check("MapMemoryToGPU");
                ("MapMemoryToGPU", said)
            }
        }
    }

    fn with_nodes(&mut self, channel: Channel, input: &mut Input<'_>) -> Said {
        let (at, size) = (self.address(input), size(input) as u64);
        let (count, mut list) = nodes(input);
        let place = list.as_mut().map_or(Place::null(), Room::place);
        if input.below(2) == 0 {
            return ("RegisterMemoryToNodes", entries::register_to_nodes(channel, at, size, count, place));
        }
        let mut room = Room::new::<u64>(1, input.below(8));
        let other = if input.once_in(4) { Place::null() } else { room.place() };
        let flags = HsaMemMapFlags { Value: input.hostile() as u32 };
        let said = entries::map_nodes(channel, at, size, other, flags, count, place);
        room.check("MapMemoryToGPUNodes");
        ("MapMemoryToGPUNodes", said)
    }

    fn share(&mut self, channel: Channel, input: &mut Input<'_>) -> Said {
        let at =
            if self.known.is_empty() || input.below(4) == 3 { self.address(input) } else { input.pick(&self.known) };
        let (size, null) = (size(input) as u64, input.once_in(8));
        if input.below(2) == 0 {
            let mut room = Room::new::<HsaSharedMemoryHandle>(1, input.below(8));
            let said = entries::share(channel, at, size, if null { Place::null() } else { room.place() });
            room.check("ShareMemory");
            if said == SUCCESS {
                self.handles.push(std::array::from_fn(|word| room.word(4 * word)));
            }
            return ("ShareMemory", said);
        }
        let (mut file, mut offset) = (Room::new::<i32>(1, input.below(8)), Room::new::<u64>(1, input.below(8)));
        let said = entries::export(channel, at, size, if null { Place::null() } else { file.place() }, offset.place());
        file.check("ExportDMABufHandle");
        offset.check("ExportDMABufHandle");
        if said == SUCCESS {
            // SAFETY: the descriptor is new, and its caller's to close.
            self.files.push(unsafe { OwnedFd::from_raw_fd(file.word(0) as i32) });
        }
        ("ExportDMABufHandle", said)
    }

    fn import(&mut self, channel: Channel, input: &mut Input<'_>) -> Said {
        if !self.has_room() {
            return self.look_up(channel, input);
        }
        let (count, mut list) = nodes(input);
        let nodes = list.as_mut().map_or(Place::null(), Room::place);
        if input.below(2) == 0 {
            let file = match self.files.len() {
                known @ 1.. if input.below(4) < 3 => self.files[input.below(known)].as_raw_fd() as u64,
                _ => input.pick(&[u64::MAX, 1 << 31, 1 << 40, 1_000_000]),
            };
            let mut room = Room::new::<HsaGraphicsResourceInfo>(1, input.below(8));
            let place = if input.once_in(8) { Place::null() } else { room.place() };
            let said = if input.below(2) == 0 {
                entries::graphics(channel, file, place, count, nodes)
            } else {
                let flags = HsaRegisterMemFlags { Value: input.hostile() as u32 };
                entries::graphics_ext(channel, file, place, count, nodes, flags)
            };
            room.check("RegisterGraphicsHandle");
            if said == SUCCESS {
                self.known.push(room.long(0) as usize);
            }
            return ("RegisterGraphicsHandle", said);
        }
        let mut words = self.handles.get(input.below(self.handles.len() + 1)).copied().unwrap_or([0; 8]);
        if input.once_in(3) {
            words[input.below(8)] = input.hostile() as u32;
        }
        let mut handle = Room::of(&words, input.below(8));
        let (mut start, mut size) = (Room::new::<usize>(1, input.below(8)), Room::new::<u64>(1, input.below(8)));
        let from = if input.once_in(8) { Place::null() } else { handle.place() };
        let place = if input.once_in(8) { Place::null() } else { start.place() };
        let said = if input.below(2) == 0 {
            entries::import(channel, from, place, size.place())
        } else {
            entries::import_to_nodes(channel, from, place, size.place(), count, nodes)
        };
        start.check("RegisterSharedHandle");
        size.check("RegisterSharedHandle");
        if said == SUCCESS {
            self.known.push(start.long(0) as usize);
        }
        ("RegisterSharedHandle", said)
    }

    fn attributes(&mut self, channel: Channel, input: &mut Input<'_>) -> Said {
        let (at, size, count) = (self.address(input), size(input) as u64, count(input));
        let known = count as usize * usize::from(count as usize <= MOST);
        let words: Vec<u32> = (0..2 * known.min(8))
            .map(|place| if place % 2 == 0 { input.below(8) } else { input.hostile() } as u32)
            .collect();
        let mut room = Room::new::<HSA_SVM_ATTRIBUTE>(known, input.below(8));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        room.set(0, &bytes);
        let place = if input.once_in(8) { Place::null() } else { room.place() };
        let said = if input.below(2) == 0 {
            entries::set_attributes(channel, at, size, count, place)
        } else {
            entries::get_attributes(channel, at, size, count, place)
        };
        room.check("SVMSetAttr, SVMGetAttr");
        ("SVMSetAttr, SVMGetAttr", said)
    }

    /// Open and close, but never on a real device: what is closed is opened by the bench.
    fn life(&mut self, input: &mut Input<'_>) -> Said {
        let open = self.bench.primary.is_open();
        match input.below(9) {
            0 if open => ("OpenKFD", entries::hsaKmtOpenKFD()),
            1 if open => {
                let mut room = Room::new::<*const c_void>(1, input.below(8));
                let said = entries::hsaKmtOpenKFDCtx(room.place());
                room.check("OpenKFDCtx");
                assert_eq!(room.long(0), self.bench.primary.as_raw().addr() as u64);
                ("OpenKFDCtx", said)
            }
            2 => ("CloseKFD", entries::hsaKmtCloseKFD()),
            3 => ("CloseKFDCtx", entries::hsaKmtCloseKFDCtx()),
            4 => ("OpenSecondaryKFDCtx", entries::hsaKmtOpenSecondaryKFDCtx(Place::null())),
            5 => {
                let wild = self.wild_context(input);
                let primary = self.bench.primary.as_raw();
                ("CloseSecondaryKFDCtx", entries::hsaKmtCloseSecondaryKFDCtx(input.pick(&[wild, primary])))
            }
            6 => {
                let Some(second) = self.bench.second.take() else {
                    return ("OpenKFDCtx", entries::hsaKmtOpenKFDCtx(Place::null()));
                };
                let said = entries::hsaKmtCloseSecondaryKFDCtx(second.as_raw());
                assert_eq!(said, SUCCESS, "it was open");
                let stale = entries::query(Some(second.as_raw()), PAGE, Place::null());
                assert_eq!(stale, Status::NotOpened as u32);
                ("CloseSecondaryKFDCtx", said)
            }
            7 => {
                let mut room = Room::new::<HsaVersionInfo>(1, input.below(8));
                let place = if input.below(2) == 0 { Place::null() } else { room.place() };
                let said = entries::hsaKmtGetVersion(place);
                room.check("GetVersion");
                ("GetVersion", said)
            }
            _ => {
                let _ = self.bench.open_second();
                ("nothing", SUCCESS)
            }
        }
    }
}
