//! What the interrupt handler may see: for each place the object that is there, and while a write is under way the one
//! that will be. Every answer must be all of the one or all of the other, and once the new one was seen, never again the
//! old.
//!
//! In: from the main loop [`begin`] and [`end`] around each write; from the handler [`look`]. Out: [`Counts`], and the
//! first things that were wrong ([`wrong`]).

use core::cell::RefCell;
use core::fmt;

use critical_section::Mutex;
use heapless::Vec;
use hsakmt_core::epoch::slots::{SingleCore, Slots};
use hsakmt_core::info::{PointerInfo, PointerType};
use hsakmt_core::objects::Object;
use hsakmt_core::reader::Reader;
use hsakmt_core::snapshot::Snapshot;

/// Readers: the handler and the main loop.
pub const READERS: usize = 2;

/// How readers are tracked.
pub type Domain = Slots<READERS, SingleCore>;

/// Places for objects.
pub const PLACES: usize = 48;

/// How far they are apart; each object is smaller.
pub const STRIDE: usize = 0x1_0000;

/// Where the GPU sees the first place.
pub const DEVICE: usize = 0xa000_0000;

/// Where the host has the first userptr.
pub const HOST: usize = 0x4000_0000;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// An object as it should be answered.
pub type State = Option<Object<'static>>;

/// How often what happened.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Interrupts.
    pub interrupts: u32,
    /// Questions asked by the handler.
    pub asked: u32,
    /// Interrupts in the middle of a write.
    pub during_write: u32,
    /// Of these, those about what was being written that saw the state before.
    pub saw_old: u32,
    /// And those that saw the state after.
    pub saw_new: u32,
    /// Writes.
    pub writes: u32,
}

/// An answer that fits neither state, or the old one after the new.
#[derive(Clone, Copy)]
pub struct Wrong {
    address: usize,
    kind: PointerType,
    user_data: usize,
    went_back: bool,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = if self.went_back { ", after the new one was seen" } else { "" };
        write!(f, "{:#x} is {:?} with user data {:#x}{after}", self.address, self.kind, self.user_data)
    }
}

struct Table {
    now: [State; PLACES],
    pending: Option<(usize, State)>,
    /// The write will be taken back: the new state may be followed by the old.
    back_again: bool,
    /// A place not to be looked at.
    hidden: Option<usize>,
    seen_new: bool,
    counts: Counts,
    wrong: Vec<Wrong, 4>,
    any_wrong: bool,
}

static TABLE: Mutex<RefCell<Table>> = Mutex::new(RefCell::new(Table {
    now: [None; PLACES],
    pending: None,
    back_again: false,
    hidden: None,
    seen_new: false,
    counts: Counts { interrupts: 0, asked: 0, during_write: 0, saw_old: 0, saw_new: 0, writes: 0 },
    wrong: Vec::new(),
    any_wrong: false,
}));

fn with<T>(work: impl FnOnce(&mut Table) -> T) -> T {
    critical_section::with(|section| work(&mut TABLE.borrow_ref_mut(section)))
}

/// From now on `place` may be answered as `next` too.
pub fn begin(place: usize, next: State) {
    with(|table| {
        table.pending = Some((place, next));
        table.back_again = false;
        table.seen_new = false;
        table.counts.writes += 1;
    });
}

/// The same for a write that the device will refuse: `place` may be nothing for a while, and is as before in the end.
pub fn begin_refused(place: usize) {
    begin(place, None);
    with(|table| table.back_again = true);
}

/// `place` is not to be looked at, until it is `None`.
pub fn hide(place: Option<usize>) {
    with(|table| table.hidden = place);
}

/// The write is over: `place` is as announced, or as before if it was refused.
pub fn end(happened: bool) {
    with(|table| {
        let seen_new = table.seen_new;
        let Some((place, next)) = table.pending.take() else { return };
        if happened {
            table.now[place] = next;
        } else if seen_new && !table.back_again {
            table.any_wrong = true;
        }
    });
}

/// What is at `place`, as of the last write.
pub fn now(place: usize) -> State {
    with(|table| table.now[place])
}

/// The handler found no place among the readers.
pub fn no_place() {
    with(|table| table.any_wrong = true);
}

/// So far.
pub fn counts() -> Counts {
    with(|table| table.counts)
}

/// The first wrong answers, and whether there was any.
pub fn wrong() -> (Vec<Wrong, 4>, bool) {
    with(|table| (table.wrong.clone(), table.any_wrong))
}

/// The handler's part: one place, several addresses of one instant, by device and by host address.
pub fn look(reader: &mut Reader<'static, Domain>, random: u32) {
    let chosen = random as usize;
    with(|table| {
        table.counts.interrupts += 1;
        if table.pending.is_some() {
            table.counts.during_write += 1;
        }
        // Mostly where something is happening.
        let place = match table.pending {
            Some((place, _)) if !chosen.is_multiple_of(4) => place,
            _ => chosen % PLACES,
        };
        if table.hidden == Some(place) {
            return;
        }
        let mut session = reader.session();
        match session.snapshot() {
            Ok(snapshot) => table.compare(place, &snapshot, chosen >> 8),
            Err(_) => table.any_wrong |= table.now[place].is_some(),
        }
    });
}

impl Table {
    fn compare(&mut self, place: usize, snapshot: &Snapshot<'_>, random: usize) {
        let (old, pending) = (self.now[place], self.pending.filter(|(at, _)| *at == place));
        let addresses = addresses(place, old.or(pending.and_then(|(_, new)| new)), random);
        self.counts.asked += addresses.len() as u32;
        let fits =
            |state: &State| addresses.iter().find(|at| !is_right(state, **at, &measured_query_pointer(snapshot, **at)));
        let not_old = fits(&old);
        let not_new = pending.map_or(not_old, |(_, new)| fits(&new));
        match (not_old, not_new, pending) {
            (Some(address), Some(_), _) => self.report(*address, snapshot, false),
            (None, Some(address), Some(_)) if self.seen_new && !self.back_again => {
                self.report(*address, snapshot, true)
            }
            (None, Some(_), Some(_)) => self.counts.saw_old += 1,
            (Some(_), None, _) => {
                self.seen_new = true;
                self.counts.saw_new += 1;
            }
            _ => {}
        }
    }

    fn report(&mut self, address: usize, snapshot: &Snapshot<'_>, went_back: bool) {
        self.any_wrong = true;
        let PointerInfo { kind, user_data, .. } = snapshot.query_pointer(address);
        // Only the first few are kept.
        let _ = self.wrong.push(Wrong { address, kind, user_data, went_back });
    }
}

/// Addresses worth asking about: of the object, wherever it is, and of the place.
pub fn addresses(place: usize, state: State, random: usize) -> [usize; 4] {
    let host = HOST + place * STRIDE + random % (2 * PAGE);
    match state {
        Some(object) if object.kind == PointerType::RegisteredUser => {
            let extent = extent(&object);
            [object.start, object.start + random % extent, object.start + extent - 1, host]
        }
        _ => {
            let start = DEVICE + place * STRIDE;
            [start, start + random % STRIDE, start + STRIDE - 1, host]
        }
    }
}

/// The handler's look-up, by itself, so that its size can be measured.
#[unsafe(no_mangle)]
#[inline(never)]
fn measured_query_pointer<'g>(snapshot: &Snapshot<'g>, address: usize) -> PointerInfo<'g> {
    snapshot.query_pointer(address)
}

/// Whether `info` is the whole and right answer at `address` where `state` is.
pub fn is_right(state: &State, address: usize, info: &PointerInfo<'_>) -> bool {
    let object = state.as_ref().filter(|object| holds(object, address));
    let Some(object) = object else { return info.kind == PointerType::Unknown && info.size == 0 };
    let userptr = object.kind == PointerType::RegisteredUser;
    let offset = if userptr { object.cpu % PAGE } else { 0 };
    info.kind == object.kind
        && info.gpu_address == (object.start + offset) as u64
        && info.cpu_address == object.cpu
        && info.size == object.size as u64
        && info.user_data == object.user_data
        && info.flags == object.flags
        && info.node == object.node
        && info.mapped.iter().eq(object.mapped.iter().copied())
        && info.registered.iter().eq(object.registered.iter().copied())
}

fn holds(object: &Object<'_>, address: usize) -> bool {
    let userptr = object.kind == PointerType::RegisteredUser;
    let by_device = (object.start..object.start + extent(object)).contains(&address);
    by_device || (userptr && (object.cpu..object.cpu + object.size).contains(&address))
}

/// Bytes from its start that are its own.
fn extent(object: &Object<'_>) -> usize {
    let userptr = object.kind == PointerType::RegisteredUser;
    if userptr { (object.cpu % PAGE + object.size).next_multiple_of(PAGE) } else { object.size }
}
