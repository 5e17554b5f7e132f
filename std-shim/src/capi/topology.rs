//! What nodes there are, and what each is like. All answer from the snapshot that Acquire took.
//!
//! The order of checks is the original's: the node calls look at their pointer before they look whether the channel is
//! open, Acquire the other way round.

use hsakmt_core::error::{Error, Result};
use hsakmt_core::node;
use hsakmt_kfd::topology::{Node, Topology};

use super::argument::{InOut, Out};
use super::{convert, entry, opened, twins};
use crate::context::Context;
use crate::ctypes::*;
use crate::system::opened_snapshot;

/// Entries behind a node's real banks that are set to zero. A caller who claims more room than this is mistaken, and
/// nothing is written there.
const MOST_BANKS: usize = 64;

/// More tile configurations than any GPU has (32, and 16 macro ones).
const MOST_TILES: usize = 64;

twins! {
    /// Takes the snapshot, unless one stands, and sets memory management up.
    fn hsaKmtAcquireSystemProperties, hsaKmtAcquireSystemPropertiesCtx(
        context,
        SystemProperties: Out<HsaSystemProperties>,
    ) {
        let context = opened(context)?;
        let mut place = SystemProperties.required()?;
        let topology = context.acquire_system_properties()?;
        place.set(convert::system(&topology));
        Ok(())
    }

    /// Drops the snapshot.
    fn hsaKmtReleaseSystemProperties, hsaKmtReleaseSystemPropertiesCtx(context) {
        context.release_system_properties();
        Ok(())
    }

    /// One node.
    fn hsaKmtGetNodeProperties, hsaKmtGetNodePropertiesCtx(
        context,
        NodeId: u32,
        NodeProperties: Out<HsaNodeProperties>,
    ) {
        let mut place = NodeProperties.required()?;
        let topology = opened_snapshot(context)?;
        let node = find(&topology, NodeId)?;
        place.set(convert::node(node, context.bank_count(node)?));
        Ok(())
    }

    /// A node's memory banks, and zeros behind them.
    fn hsaKmtGetNodeMemoryProperties, hsaKmtGetNodeMemoryPropertiesCtx(
        context,
        NodeId: u32,
        NumBanks: u32,
        MemoryProperties: Out<HsaMemoryProperties>,
    ) {
        let mut place = MemoryProperties.required()?;
        let topology = opened_snapshot(context)?;
        let banks = context.banks(find(&topology, NodeId)?)?;
        let zeros = std::iter::repeat_n(HsaMemoryProperties::zeroed(), MOST_BANKS);
        let answers = banks.iter().map(|bank| convert::bank(&bank.memory, bank.base)).chain(zeros);
        place.fill(answers.take(NumBanks as usize));
        Ok(())
    }

    /// A node's caches. Which processor asks makes no difference.
    fn hsaKmtGetNodeCacheProperties, hsaKmtGetNodeCachePropertiesCtx(
        context,
        NodeId: u32,
        _ProcessorId: u32,
        NumCaches: u32,
        CacheProperties: Out<HsaCacheProperties>,
    ) {
        let mut place = CacheProperties.required()?;
        let topology = opened_snapshot(context)?;
        let caches = find(&topology, NodeId)?.caches.get(..NumCaches as usize).ok_or(Error::InvalidParameter)?;
        place.fill(caches.iter().map(convert::cache));
        Ok(())
    }

    /// The clocks of a GPU and of the host at one moment.
    fn hsaKmtGetClockCounters, hsaKmtGetClockCountersCtx(context, NodeId: u32, Counters: Out<HsaClockCounters>) {
        let context = opened(context)?;
        let mut place = Counters.required()?;
        place.set(convert::clocks(&context.clock_counters(node::NodeId(NodeId))?));
        Ok(())
    }

    /// How a GPU tiles textures. What the caller has room for beyond any GPU's need is not written.
    fn hsaKmtGetTileConfig, hsaKmtGetTileConfigCtx(context, NodeId: u32, config: InOut<HsaGpuTileConfig>) {
        let context = opened(context)?;
        let asked = config.get().ok_or(Error::InvalidParameter)?;
        let (mut tiles, mut macros) = ([0; MOST_TILES], [0; MOST_TILES]);
        let room = |count: u32| (count as usize).min(MOST_TILES);
        let (tiles, macros) = (&mut tiles[..room(asked.NumTileConfigs)], &mut macros[..room(asked.NumMacroTileConfigs)]);
        let answer = context.tile_config(node::NodeId(NodeId), tiles, macros);
        if answer == Err(Error::InvalidNode) {
            return Err(Error::InvalidNode);
        }
        // Zeros where the device has nothing to say, a CPU's refusal included.
        for (place, values) in [(asked.TileConfig, &*tiles), (asked.MacroTileConfig, &*macros)] {
            if !values.is_empty() {
                Out::inside(place).required()?.fill(values.iter().copied());
            }
        }
        config.out().required()?.set(convert::tiling(asked, &answer?));
        Ok(())
    }

    /// A node's links to others.
    fn hsaKmtGetNodeIoLinkProperties, hsaKmtGetNodeIoLinkPropertiesCtx(
        context,
        NodeId: u32,
        NumIoLinks: u32,
        IoLinkProperties: Out<HsaIoLinkProperties>,
    ) {
        let mut place = IoLinkProperties.required()?;
        let topology = opened_snapshot(context)?;
        let links = find(&topology, NodeId)?.links.get(..NumIoLinks as usize).ok_or(Error::InvalidParameter)?;
        place.fill(links.iter().map(convert::link));
        Ok(())
    }
}

entry! {
    /// libdrm's handle of a GPU, on the address space that the primary context has there.
    fn hsaKmtGetAMDGPUDeviceHandle(NodeId: u32, DeviceHandle: Out<HsaAMDGPUDeviceHandle>) {
        let context = opened(Context::primary())?;
        let mut place = DeviceHandle.required()?;
        place.set(context.libdrm_handle(node::NodeId(NodeId))?.as_ptr().cast());
        Ok(())
    }

    /// Whether a model stands in for the hardware: never.
    fn hsaKmtModelEnabled(enable: Out<bool>) {
        enable.required()?.set(false);
        Ok(())
    }
}

fn find(topology: &Topology, id: u32) -> Result<&Node> {
    topology.node(node::NodeId(id)).ok_or(Error::InvalidNode)
}
