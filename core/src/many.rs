//! Many look-ups at once, and walking everything: the read path for callers who bring more than one question.
//!
//! A look-up in a large registry waits for memory, one node after the other. Sixteen look-ups do not depend on each
//! other, so [`Snapshot::query_many`](crate::snapshot::Snapshot::query_many) takes them down the tree side by side, a level at a time, and the processor waits
//! for their nodes together. Same answers, same bounds: wait-free, no store but to the caller's array.

use crate::aperture::Aperture;
use crate::info::PointerInfo;
use crate::record::Record;
use crate::tree::node::{Branch, NodePtr};
use crate::tree::search::rank_le;
use crate::tree::{LAST_KEY, MAX_HEIGHT, below};
use crate::version::Version;

/// Look-ups side by side.
const LANES: usize = 16;

/// One look-up under way in an address index: where it is, and how far above the leaves.
#[derive(Clone, Copy)]
struct Lane {
    node: NodePtr,
    height: usize,
}

impl Version {
    /// See [`Snapshot::query_many`](crate::snapshot::Snapshot::query_many).
    pub(crate) fn query_many<'s>(&'s self, addresses: &[usize], out: &mut [PointerInfo<'s>]) {
        for (addresses, out) in addresses.chunks(LANES).zip(out.chunks_mut(LANES)) {
            self.query_lanes(addresses, out);
        }
    }

    fn query_lanes<'s>(&'s self, addresses: &[usize], out: &mut [PointerInfo<'s>]) {
        let mut found: [Option<&Record>; LANES] = [None; LANES];
        let mut lanes: [Option<Lane>; LANES] = [None; LANES];
        let mut highest = 0;
        for ((address, found), lane) in addresses.iter().zip(&mut found).zip(&mut lanes) {
            let route = self.layout().route(*address);
            if route.userptr {
                *found = self.userptrs().stab(*address);
            }
            if found.is_none()
                && let Some(aperture) = route.address
            {
                *lane = self.root(aperture).top().map(|(node, height)| Lane { node, height });
                highest = highest.max(self.root(aperture).height());
            }
        }
        // Two passes a level: the first waits for keys, which the level before asked for, and asks for the place it
        // finds; the second reads that place and asks for the keys of the node there.
        let mut ranks = [0; LANES];
        for _ in 0..highest.min(MAX_HEIGHT) {
            for ((address, lane), rank) in addresses.iter().zip(&lanes).zip(&mut ranks) {
                *rank = lane.map_or(0, |lane| self.rank(lane, *address));
            }
            for (lane, rank) in lanes.iter_mut().zip(&ranks) {
                *lane = lane.and_then(|lane| self.down(lane, *rank));
            }
        }
        for ((address, lane), rank) in addresses.iter().zip(&lanes).zip(&mut ranks) {
            *rank = lane.map_or(0, |lane| self.leaf_rank(lane, *address));
        }
        let lanes = lanes.into_iter().zip(ranks);
        for (((address, found), (lane, rank)), out) in addresses.iter().zip(found).zip(lanes).zip(out) {
            let object = found.or_else(|| lane.and_then(|lane| self.record(lane, rank, *address)));
            let record = object.or_else(|| self.in_cpuvm(*address));
            *out = record.map_or(PointerInfo::UNKNOWN, |record| self.info(record));
        }
    }

    /// How many of the children of a lane's branch begin at or below `address`. Asks for the place of the last of them.
    #[inline(always)]
    fn rank(&self, lane: Lane, address: usize) -> usize {
        if lane.height == 0 {
            return 0;
        }
        let branch = self.branch(lane);
        let rank = rank_le(&branch.keys, address.min(LAST_KEY));
        prefetch(&branch.children[below(rank)]);
        rank
    }

    /// One level down, by that rank; a lane at a leaf stays. Asks for the keys of the node there.
    #[inline(always)]
    fn down(&self, lane: Lane, rank: usize) -> Option<Lane> {
        if lane.height == 0 {
            return Some(lane);
        }
        rank.checked_sub(1)?;
        let node = self.branch(lane).children[below(rank)];
        prefetch_keys(node);
        Some(Lane { node, height: lane.height - 1 })
    }

    /// Any address index of this snapshot will do: nodes do not know which they belong to.
    #[inline(always)]
    fn branch(&self, lane: Lane) -> &Branch<()> {
        self.objects(Aperture::Svm).branch(lane.node)
    }

    /// How many of the records of a lane's leaf begin at or below `address`. Asks for the last of them.
    #[inline(always)]
    fn leaf_rank(&self, lane: Lane, address: usize) -> usize {
        let leaf = self.objects(Aperture::Svm).leaf(lane.node);
        let rank = rank_le(&leaf.keys, address.min(LAST_KEY));
        prefetch(&leaf.records[below(rank)]);
        rank
    }

    /// That record, if it holds `address`.
    #[inline(always)]
    fn record(&self, lane: Lane, rank: usize, address: usize) -> Option<&Record> {
        rank.checked_sub(1)?;
        let record = &self.objects(Aperture::Svm).leaf(lane.node).records[below(rank)];
        (address - record.start < record.extent(self.layout().page)).then_some(record)
    }

    /// See [`Snapshot::iter`](crate::snapshot::Snapshot::iter).
    pub(crate) fn iter(&self) -> impl Iterator<Item = PointerInfo<'_>> + '_ {
        Aperture::all().flat_map(move |aperture| {
            let mut from = Some(0);
            core::iter::from_fn(move || {
                let record = self.objects(aperture).ceil(from?)?;
                from = record.start.checked_add(1);
                Some(self.info(record))
            })
        })
    }
}

/// Asks for both lines of a node's keys, which it begins with.
#[inline(always)]
fn prefetch_keys(node: NodePtr) {
    let keys = node.raw().as_ptr();
    prefetch(keys);
    prefetch(keys.wrapping_add(64));
}

/// Asks for the line that holds what `place` points to; on a machine that has no such thing, does nothing.
#[inline(always)]
fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address whatever changes nothing and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
