//! The topology snapshot: taken whole by Acquire, read often, dropped by Release.
//!
//! It is one value for the process, behind an [`ArcSwapOption`]: whoever asks for node properties takes no lock. It
//! survives the last close and a fork, and a context that opens while it stands sets its apertures up at once.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hsakmt_core::error::{Error, Result};
use hsakmt_kfd::topology::Topology;

use crate::context::{Context, ContextManager};
use crate::environment;

static TOPOLOGY: ArcSwapOption<Topology> = ArcSwapOption::const_empty();

/// The snapshot, if one stands. Takes no lock.
pub fn snapshot() -> Option<Arc<Topology>> {
    TOPOLOGY.load_full()
}

/// The snapshot; [`Error::NotOpened`] while the primary context is closed, [`Error::InvalidNode`] without a snapshot.
pub fn opened_snapshot(context: Context) -> Result<Arc<Topology>> {
    if !context.is_open() {
        return Err(Error::NotOpened);
    }
    snapshot().ok_or(Error::InvalidNode)
}

impl Context {
    /// Takes the topology snapshot, unless one stands, and sets the apertures up, unless they are. Blocking.
    #[doc(alias = "hsaKmtAcquireSystemProperties")]
    pub fn acquire_system_properties(self) -> Result<Arc<Topology>> {
        self.manage(|manager| {
            let topology = match snapshot() {
                Some(topology) => topology,
                None => Arc::new(read(manager)?),
            };
            set_up(self, manager, &topology)?;
            TOPOLOGY.store(Some(Arc::clone(&topology)));
            Ok(topology)
        })
    }

    /// Drops the topology snapshot and nothing else: objects and apertures go on as before. Never fails.
    #[doc(alias = "hsaKmtReleaseSystemProperties")]
    pub fn release_system_properties(self) {
        TOPOLOGY.store(None);
    }
}

fn read(manager: &mut ContextManager) -> Result<Topology> {
    let use_svm = environment::use_svm();
    manager.driver().topology(use_svm).map_err(|_| Error::Failed)
}

/// Opens the GPUs of `topology` and makes the apertures, where that has not been done.
pub(crate) fn set_up(context: Context, manager: &mut ContextManager, topology: &Topology) -> Result<()> {
    if manager.is_set_up() {
        return Ok(());
    }
    manager.driver().add_gpus(topology).map_err(|_| Error::Failed)?;
    context.remember(&manager.driver().fds());
    Ok(topology.with_facts(|nodes| manager.set_up(nodes, &environment::at_set_up()))?)
}
