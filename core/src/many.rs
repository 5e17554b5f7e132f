//! Many look-ups at once, and walking everything: the read path for callers who bring more than one question.
//!
//! A look-up in a large registry waits for memory, one node after the other. Sixteen look-ups do not depend on each
//! other, so [`Snapshot::query_many`] takes them down the tree side by side, a level at a time, and the processor waits
//! for their nodes together. Same answers, same bounds: wait-free, no store but to the caller's array.

use crate::aperture::{Aperture, MAX_GPUVM};
use crate::info::PointerInfo;
use crate::record::Record;
use crate::snapshot::Snapshot;
use crate::tree::node::NodePtr;
use crate::tree::search::{FANOUT, rank_le};
use crate::tree::{LAST_KEY, MAX_HEIGHT};

/// Look-ups side by side.
const LANES: usize = 16;

/// One look-up under way in an address index: where it is, and how far above the leaves.
#[derive(Clone, Copy)]
struct Lane {
    node: NodePtr,
    height: usize,
}

impl Snapshot {
    /// What each of `addresses` belongs to, in order, as of this one instant; as many as fit in `out`. Wait-free.
    pub fn query_many<'s>(&'s self, addresses: &[usize], out: &mut [PointerInfo<'s>]) {
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
        for _ in 0..highest.min(MAX_HEIGHT) {
            for (address, lane) in addresses.iter().zip(&mut lanes) {
                *lane = lane.and_then(|lane| self.down(lane, *address));
            }
        }
        for (((address, found), lane), out) in addresses.iter().zip(found).zip(lanes).zip(out) {
            let object = found.or_else(|| lane.and_then(|lane| self.record(lane, *address)));
            let record = object.or_else(|| self.in_cpuvm(*address));
            *out = record.map_or(PointerInfo::UNKNOWN, |record| self.info(record));
        }
    }

    /// One level down; a lane at a leaf stays.
    #[inline(always)]
    fn down(&self, lane: Lane, address: usize) -> Option<Lane> {
        if lane.height == 0 {
            return Some(lane);
        }
        // Any address index of this snapshot will do: nodes do not know which they belong to.
        let branch = self.objects(Aperture::Svm).branch(lane.node);
        let child = rank_le(&branch.keys, address.min(LAST_KEY)).checked_sub(1)?;
        Some(Lane { node: branch.children[child & (FANOUT - 1)], height: lane.height - 1 })
    }

    /// The record of a lane's leaf that holds `address`.
    #[inline(always)]
    fn record(&self, lane: Lane, address: usize) -> Option<&Record> {
        let leaf = self.objects(Aperture::Svm).leaf(lane.node);
        let below = leaf.records.get(rank_le(&leaf.keys, address.min(LAST_KEY)).checked_sub(1)?)?;
        (address - below.start < below.extent(self.layout().page)).then_some(below)
    }

    /// Every object of this instant, aperture by aperture, by address. O(log n) per step.
    pub fn iter(&self) -> impl Iterator<Item = PointerInfo<'_>> + '_ {
        let fixed = [Aperture::Svm, Aperture::SvmAlt, Aperture::MemHandle, Aperture::Cpuvm];
        let gpuvm = (0..MAX_GPUVM as u8).map(Aperture::Gpuvm);
        fixed.into_iter().chain(gpuvm).flat_map(move |aperture| {
            let mut from = Some(0);
            core::iter::from_fn(move || {
                let record = self.objects(aperture).ceil(from?)?;
                from = record.start.checked_add(1);
                Some(self.info(record))
            })
        })
    }
}
