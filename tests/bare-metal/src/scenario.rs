//! What the main loop does while it is interrupted: objects come, are mapped, registered, given user data, and go; some
//! writes are refused; now and then a session is held while things change.

use core::fmt;

use hsakmt_core::address::{Bounds, PageSize};
use hsakmt_core::aperture::{Aperture, Layout};
use hsakmt_core::error::{Error, Result};
use hsakmt_core::flags::MemFlags;
use hsakmt_core::info::PointerType;
use hsakmt_core::node::NodeId;
use hsakmt_core::objects::Object;
use hsakmt_core::reader::Reader;

use crate::memory::BoardWriter;
use crate::watch::{self, DEVICE, Domain, HOST, PAGE, PLACES, STRIDE, State};

/// Writes of one run.
const WRITES: u32 = 6000;

/// Lists of nodes that objects are mapped on or registered to.
const LISTS: [&[NodeId]; 6] = [
    &[],
    &[NodeId(1)],
    &[NodeId(2)],
    &[NodeId(1), NodeId(2)],
    &[NodeId(2), NodeId(1)],
    &[NodeId(1), NodeId(2), NodeId(3)],
];

/// What was wrong in the main loop.
pub enum Fault {
    /// A write that should succeed did not, or the other way round.
    Write(Error),
    /// An answer was not what was written.
    Answer(usize),
    /// A version changed under a session.
    Session(usize),
    /// Nothing was refused.
    NeverFull,
    /// Buffers that the device still has.
    Left(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Write(error) => write!(f, "a write ended with {error:?}"),
            Fault::Answer(address) => write!(f, "{address:#x} is not what was written"),
            Fault::Session(address) => write!(f, "{address:#x} changed under a session"),
            Fault::Left(buffers) => write!(f, "{buffers} buffers are left on the device"),
            Fault::NeverFull => write!(f, "nothing was ever full"),
        }
    }
}

/// Numbers without a pattern that the tree could follow.
pub struct Random(pub u32);

impl Random {
    pub fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }
}

pub fn layout() -> Layout {
    let mut layout = Layout::empty(PageSize::FOUR_KIB);
    (layout.svm, layout.dgpu) = (Bounds::new(DEVICE, DEVICE + 0x1fff_ffff), true);
    layout
}

/// A new object for a place; every fourth is registered host memory.
pub fn object(place: usize, random: &mut Random) -> Object<'static> {
    let userptr = place % 4 == 3;
    let start = DEVICE + place * STRIDE;
    let size = (1 + random.below(8)) * PAGE;
    Object {
        kind: if userptr { PointerType::RegisteredUser } else { PointerType::Allocated },
        start,
        size: if userptr { size - 1 - random.below(2000) } else { size },
        cpu: if userptr { HOST + place * STRIDE + 0x123 } else { start },
        node: NodeId(1 + random.next() % 2),
        flags: if random.below(2) == 0 { MemFlags::NON_PAGED } else { MemFlags::HOST_ACCESS },
        user_data: random.next() as usize,
        registered: LISTS[random.below(LISTS.len())],
        mapped: LISTS[random.below(LISTS.len())],
    }
}

/// The whole run.
pub fn run(writer: &mut BoardWriter, reader: &mut Reader<'static, Domain>) -> Result<(), Fault> {
    writer.set_layout(layout()).map_err(Fault::Write)?;
    let mut random = Random(0x9e37_79b9);
    for step in 0..WRITES {
        let place = random.below(PLACES);
        write(writer, place, &mut random)?;
        check(reader, place, &mut random)?;
        if step % 16 == 0 {
            refused(writer, place)?;
        }
        if step % 64 == 0 {
            held(writer, reader, &mut random)?;
        }
    }
    full(writer)
}

/// One write, announced to the handler.
fn write(writer: &mut BoardWriter, place: usize, random: &mut Random) -> Result<(), Fault> {
    let next = next_state(place, random);
    announced(place, next, |old| match (old, next) {
        (None, Some(object)) => writer.insert_object(Aperture::Svm, &object),
        (Some(old), None) => writer.remove_object(Aperture::Svm, old.start),
        (Some(old), Some(new)) if old.user_data != new.user_data => writer.set_user_data(old.cpu, new.user_data),
        (Some(old), Some(new)) if cfg!(feature = "planted-fault") => {
            writer.remove_object(Aperture::Svm, old.start)?;
            writer.insert_object(Aperture::Svm, &new)
        }
        (Some(old), Some(new)) if old.mapped != new.mapped => writer.set_mapped(Aperture::Svm, old.start, new.mapped),
        (Some(old), Some(new)) => writer.set_registered(Aperture::Svm, old.start, new.registered),
        (None, None) => Ok(()),
    })
    .map_err(Fault::Write)
}

/// What a place is to become: something, nothing, or the same with one thing changed.
fn next_state(place: usize, random: &mut Random) -> State {
    let Some(old) = watch::now(place) else { return Some(object(place, random)) };
    match random.below(8) {
        0 | 1 => None,
        2..5 => Some(Object { user_data: old.user_data.wrapping_add(1), ..old }),
        5 | 6 => Some(Object { mapped: LISTS[random.below(LISTS.len())], ..old }),
        _ => Some(Object { registered: LISTS[random.below(LISTS.len())], ..old }),
    }
}

/// Tells the handler before and after.
pub fn announced(place: usize, next: State, work: impl FnOnce(State) -> Result<()>) -> Result<()> {
    let old = watch::now(place);
    watch::begin(place, next);
    let outcome = work(old);
    watch::end(outcome.is_ok());
    outcome
}

/// The main loop's own questions: the state as written, nothing else.
pub fn check(reader: &mut Reader<'static, Domain>, place: usize, random: &mut Random) -> Result<(), Fault> {
    let state = watch::now(place);
    for address in watch::addresses(place, state, random.next() as usize) {
        let right =
            reader.query_pointer(address, |info| info.is_ok_and(|info| watch::is_right(&state, address, &info)));
        if !right {
            return Err(Fault::Answer(address));
        }
    }
    Ok(())
}

/// A write that must be refused, and change nothing.
fn refused(writer: &mut BoardWriter, place: usize) -> Result<(), Fault> {
    let Some(old) = watch::now(place) else { return Ok(()) };
    let outcome = announced(place, Some(old), |_| writer.insert_object(Aperture::Svm, &old));
    match outcome {
        Err(Error::InvalidParameter) => Ok(()),
        other => Err(Fault::Write(other.err().unwrap_or(Error::Failed))),
    }
}

/// A session over three writes keeps the version it began with.
fn held(writer: &mut BoardWriter, reader: &mut Reader<'static, Domain>, random: &mut Random) -> Result<(), Fault> {
    let place = random.below(PLACES);
    let (address, before) = (DEVICE + place * STRIDE, watch::now(place));
    let mut session = reader.session();
    let snapshot = session.snapshot().map_err(Fault::Write)?;
    for _ in 0..3 {
        write(writer, place, random)?;
        if !watch::is_right(&before, address, &snapshot.query_pointer(address)) {
            return Err(Fault::Session(address));
        }
    }
    Ok(())
}

/// Objects beyond the places until memory ends, an error that changes nothing, and all of them gone again.
fn full(writer: &mut BoardWriter) -> Result<(), Fault> {
    let beyond = |n: usize| Object {
        start: DEVICE + (PLACES + n) * STRIDE,
        cpu: 0,
        kind: PointerType::Allocated,
        size: PAGE,
        ..object(0, &mut Random(1))
    };
    let fits = (0..4000).find_map(|n| writer.insert_object(Aperture::Svm, &beyond(n)).err().map(|error| (n, error)));
    let Some((count, Error::NoMemory)) = fits else { return Err(Fault::NeverFull) };
    for n in 0..count {
        writer.remove_object(Aperture::Svm, beyond(n).start).map_err(Fault::Write)?;
    }
    for place in 0..PLACES {
        if let Some(old) = watch::now(place) {
            announced(place, None, |_| writer.remove_object(Aperture::Svm, old.start)).map_err(Fault::Write)?;
        }
    }
    Ok(())
}
