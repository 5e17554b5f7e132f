//! Performance counters, the oldest interface to them (`hsaKmtPmc...`): what counters a GPU has, and traces.
//!
//! In: nodes, and lists of counters. Out: a description of a GPU's counters, and trace ids. The counters themselves are read
//! elsewhere: kernels no longer have the files by which a trace once counted, so a trace can be registered and not started,
//! as in libhsakmt. Calls that name a node take the lock of the topology snapshots for an instant; the others take none.

mod blocks;

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use hsakmt_core::error::{Error, Result};
use hsakmt_core::node::{GpuId, NodeId};
use hsakmt_kfd::topology::{Node, Topology};

use crate::context::Context;
use crate::snapshots;
use crate::system::opened_snapshot;
use blocks::{Block, BlockId, KINDS};

/// Counters that one trace can have.
pub(crate) const MOST_COUNTERS: usize = 512;

/// Bits of a counter.
const COUNTER_BITS: u32 = 64;

/// `HSA_PROFILE_TYPE_PRIVILEGED_STREAMING`: counters of this type and the one below are traced.
const LAST_PRIVILEGED: u32 = 1;

/// `HSA_PROFILE_TYPE_NONPRIV_IMMEDIATE`
const NOT_PRIVILEGED: u32 = 2;

/// `HsaCounterFlags`: it counts for all processes.
const GLOBAL: u32 = 1;

/// A counter that a trace is to have.
#[doc(alias = "HsaCounter")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    /// The number of its block.
    pub(crate) block: u32,
    /// `HSA_PROFILE_TYPE`
    pub(crate) kind: u32,
    /// Its bits.
    pub(crate) bits: u32,
}

/// A trace as registered.
#[doc(alias = "HsaPmcTraceRoot")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Its id.
    pub(crate) id: u64,
    /// Bytes of a buffer that takes its counters, whole pages.
    pub(crate) buffer: u64,
}

/// The descriptions that callers hold, one for each kind of GPU that was asked about. Never freed.
static DESCRIPTIONS: [AtomicPtr<u32>; KINDS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; KINDS];

/// Live traces: each place has `serial << 32 | gpu`, 0 is free. A trace's id is `serial << 8 | place`.
static TRACES: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

impl Context {
    /// A GPU's counters: the address of an `HsaCounterProperties`, the same one for each call. It stays for ever.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidNode`]; [`Error::InvalidParameter`] for a node whose counters are not known;
    /// [`Error::NoMemory`].
    #[doc(alias = "hsaKmtPmcGetCounterProperties")]
    pub(crate) fn counters(self, node: NodeId) -> Result<*const u32> {
        let topology = opened_snapshot(self)?;
        let kind = blocks::kind(find(&topology, node)?).ok_or(Error::InvalidParameter)?;
        let place = DESCRIPTIONS.get(kind).ok_or(Error::InvalidParameter)?;
        // Acquire: pairs with the exchange below, whose thread has written the description.
        let known = place.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(known);
        }
        let words = Box::leak(describe(blocks::of_kind(kind))?).as_mut_ptr();
        // Two threads at once: the first description counts, and the other is not freed. It is a few KiB, once.
        match place.compare_exchange(std::ptr::null_mut(), words, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(words),
            Err(first) => Ok(first),
        }
    }

    /// Registers a trace of a GPU's privileged counters.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidNode`]; [`Error::NoMemory`] for more than 512 counters, or with 256 traces;
    /// [`Error::InvalidParameter`] for a block that the GPU does not have, for more counters of a block than can run at once,
    /// and without a privileged counter.
    #[doc(alias = "hsaKmtPmcRegisterTrace")]
    pub(crate) fn register_trace(self, node: NodeId, counters: &[Counter]) -> Result<Trace> {
        let topology = opened_snapshot(self)?;
        let node = find(&topology, node)?;
        if counters.len() > MOST_COUNTERS {
            return Err(Error::NoMemory);
        }
        let (mut wanted, mut bytes) = ([0u32; BlockId::END], 0u64);
        for counter in counters {
            let count = wanted.get_mut(counter.block as usize).ok_or(Error::InvalidParameter)?;
            if counter.kind <= LAST_PRIVILEGED {
                *count += 1;
                bytes += u64::from(counter.bits / 8);
            }
        }
        let known = blocks::kind(node).map(blocks::of_kind).unwrap_or_default();
        let slots = |id: usize| known.iter().find(|block| block.id as usize == id).map_or(0, |block| block.slots);
        let fits = wanted.iter().enumerate().all(|(id, count)| *count <= slots(id));
        if !fits || wanted.iter().all(|count| *count == 0) {
            return Err(Error::InvalidParameter);
        }
        let id = enter(node.gpu())?;
        Ok(Trace { id, buffer: bytes.next_multiple_of(rustix::param::page_size() as u64) })
    }
}

/// Ends a trace of a node.
///
/// # Errors
/// [`Error::InvalidParameter`] for 0; [`Error::InvalidNode`], also for another GPU's trace; [`Error::InvalidHandle`].
#[doc(alias = "hsaKmtPmcUnregisterTrace")]
pub(crate) fn unregister_trace(node: NodeId, id: u64) -> Result<()> {
    if id == 0 {
        return Err(Error::InvalidParameter);
    }
    let gpu = standing_gpu(node)?;
    let (place, value) = look_up(id)?;
    if value as u32 != gpu.0 {
        return Err(Error::InvalidNode);
    }
    // Relaxed, as in `enter`: a place says nothing of other memory. Of two calls at once one ends the trace.
    let ended = place.compare_exchange(value, 0, Ordering::Relaxed, Ordering::Relaxed);
    ended.map(|_| ()).map_err(|_| Error::InvalidHandle)
}

/// Whether a trace is live: [`Error::InvalidParameter`] for 0, [`Error::InvalidHandle`] for what is none.
pub(crate) fn check_trace(id: u64) -> Result<()> {
    if id == 0 { Err(Error::InvalidParameter) } else { look_up(id).map(|_| ()) }
}

/// The GPU of a node in the topology snapshot, whether or not a context is open.
pub(crate) fn standing_gpu(node: NodeId) -> Result<GpuId> {
    let topology: Option<Arc<Topology>> = snapshots::with(|table| table.current())?;
    Ok(find(&*topology.ok_or(Error::InvalidNode)?, node)?.gpu())
}

fn find(topology: &Topology, node: NodeId) -> Result<&Node> {
    topology.node(node).ok_or(Error::InvalidNode)
}

/// Takes a free place for a trace; its id.
fn enter(gpu: GpuId) -> Result<u64> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only that each number is another. Never 0.
    let serial = u64::from(SERIAL.fetch_add(1, Ordering::Relaxed) % (u32::MAX - 1) + 1);
    let value = serial << 32 | u64::from(gpu.0);
    for (index, place) in (0u64..).zip(&TRACES) {
        if place.compare_exchange(0, value, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Ok(serial << 8 | index);
        }
    }
    Err(Error::NoMemory)
}

/// The place of a live trace, and what is in it.
fn look_up(id: u64) -> Result<(&'static AtomicU64, u64)> {
    let place = TRACES.get((id & 0xff) as usize).ok_or(Error::InvalidHandle)?;
    let value = place.load(Ordering::Relaxed);
    if value != 0 && value >> 32 == id >> 8 { Ok((place, value)) } else { Err(Error::InvalidHandle) }
}

/// An `HsaCounterProperties`, in words: no field of it is aligned to more.
fn describe(blocks: &[Block]) -> Result<Box<[u32]>> {
    const OF_A_BLOCK: usize = 6;
    const OF_A_COUNTER: usize = 8;
    let counters: usize = blocks.iter().map(|block| block.counters().count()).sum();
    let mut words = Vec::new();
    let length = 2 + blocks.len() * OF_A_BLOCK + counters * OF_A_COUNTER;
    words.try_reserve_exact(length).map_err(|_| Error::NoMemory)?;
    words.extend([blocks.len() as u32, blocks.iter().map(|block| block.slots).sum()]);
    for block in blocks {
        let uuid = block.id.uuid();
        words.extend(uuid.as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)));
        words.extend([block.counters().count() as u32, block.slots]);
        for id in block.counters() {
            let (low, high) = (u32::MAX, u32::MAX);
            words.extend([NOT_PRIVILEGED, id, 0, COUNTER_BITS, low, high, GLOBAL, block.id as u32]);
        }
    }
    Ok(words.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_an_id_of_its_own_until_it_ends() {
        let (one, other) = (enter(GpuId(7)).unwrap(), enter(GpuId(7)).unwrap());
        assert!(one != other && check_trace(one).is_ok() && check_trace(other).is_ok());
        let (place, value) = look_up(one).unwrap();
        assert_eq!(value as u32, 7);
        place.store(0, Ordering::Relaxed);
        assert_eq!(check_trace(one), Err(Error::InvalidHandle));
        let again = enter(GpuId(8)).unwrap();
        assert!(again != one && check_trace(one) == Err(Error::InvalidHandle));
        for id in [1, 0xff, other + 256, other ^ 1, u64::MAX] {
            assert_eq!(check_trace(id), Err(Error::InvalidHandle), "{id:#x}");
        }
        assert_eq!(check_trace(0), Err(Error::InvalidParameter));
        for id in [other, again] {
            look_up(id).unwrap().0.store(0, Ordering::Relaxed);
        }
    }
}
