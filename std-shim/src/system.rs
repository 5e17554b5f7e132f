//! The topology snapshot: taken whole by Acquire, read often, dropped by Release.
//!
//! It is one value for the process (`snapshots`), which survives the last close and a fork; a context that opens while it
//! stands sets its apertures up at once. A context goes by the snapshot that it was set up with: what it says of its nodes,
//! and the GPU that each verb takes a node for, are of one table. An Acquire that finds other nodes sets the context up anew
//! or is refused.
//!
//! C entries read the snapshot under a lock that is held for an instant. Rust callers read it through an
//! [`ArcSwapOption`], wait-free: it registers a destructor with each thread that uses it, which a C entry must not.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hsakmt_core::error::{Error, Result};
use hsakmt_core::manager::Range;
use hsakmt_kfd::topology::Topology;

use crate::context::{Context, ContextManager};
use crate::reason::Reason;
use crate::{environment, snapshots};

/// A snapshot, and [`snapshots::version`] when it was read.
struct Read {
    version: usize,
    topology: Option<Arc<Topology>>,
}

/// What [`snapshot`] has read last.
static LAST_READ: ArcSwapOption<Read> = ArcSwapOption::const_empty();

/// The snapshot, if one stands. For Rust callers: wait-free, unless the snapshot was replaced since the last call in this
/// process, and then it waits for a lock that is held for an instant.
pub fn snapshot() -> Option<Arc<Topology>> {
    let last = LAST_READ.load();
    if let Some(last) = last.as_ref().filter(|last| last.version == snapshots::version()) {
        return last.topology.clone();
    }
    let read = snapshots::with(|table| Read { version: snapshots::version(), topology: table.current() }).ok()?;
    let topology = read.topology.clone();
    LAST_READ.store(Some(Arc::new(read)));
    topology
}

/// What an open context goes by; [`Error::NotOpened`] while it is closed, [`Error::InvalidNode`] without a snapshot,
/// [`Error::Failed`] for a signal handler that interrupted just this. Waits for a lock that is held for an instant.
pub fn opened_snapshot(context: Context) -> Result<Arc<Topology>> {
    if !context.is_open() {
        return Err(Error::NotOpened);
    }
    let topology = snapshots::with(|table| {
        let current = table.current()?;
        Some(table.set_up_with(context.index()).unwrap_or(current))
    })?;
    topology.ok_or(Error::InvalidNode)
}

impl Context {
    /// Takes the topology snapshot, unless one stands, and sets the apertures up, anew if the nodes are others than before.
    /// Objects that are alive then go on, as far as the nodes they use are the same GPUs as before. Blocking.
    ///
    /// # Errors
    /// [`Error::NotOpened`]; [`Error::InvalidNode`] for a topology with a link that starts at another node; otherwise
    /// [`Error::Failed`] or [`Error::NoMemory`], and everything goes on as before. The reason is logged;
    /// [`Context::try_acquire`] returns it.
    #[doc(alias = "hsaKmtAcquireSystemProperties")]
    pub fn acquire_system_properties(self) -> Result<Arc<Topology>> {
        self.try_acquire().map_err(|reason| reason.logged("hsaKmtAcquireSystemProperties"))
    }

    /// As [`Context::acquire_system_properties`], with the reason of a refusal, which is not logged. Blocking.
    ///
    /// # Errors
    /// Says what was refused, by what file or ioctl, and why.
    pub fn try_acquire(self) -> Result<Arc<Topology>, Reason> {
        self.manage_or(|manager| {
            let topology = match snapshots::with(|table| table.current())? {
                Some(topology) => topology,
                None => Arc::new(manager.driver().topology(environment::use_svm())?),
            };
            set_up(self, manager, &topology)?;
            drop(snapshots::with(|table| table.set_current(Some(Arc::clone(&topology))))?);
            Ok(topology)
        })
    }

    /// Drops the topology snapshot and nothing else: objects and apertures go on as before. Never fails.
    #[doc(alias = "hsaKmtReleaseSystemProperties")]
    pub fn release_system_properties(self) {
        drop(snapshots::with(|table| table.set_current(None)));
    }
}

/// Opens the GPUs of `topology` and makes the apertures; anew where they are there and the nodes were others.
pub(crate) fn set_up(context: Context, manager: &mut ContextManager, topology: &Arc<Topology>) -> Result<(), Reason> {
    let before = snapshots::with(|table| table.set_up_with(context.index()))?;
    let before = before.filter(|_| manager.is_set_up());
    if !before.is_some_and(|before| same_nodes(&before, topology)) {
        // SAFETY: it opens render nodes, and touches no address.
        unsafe { manager.driver_mut() }.add_gpus(topology)?;
        context.remember(&manager.driver().fds());
        let options = environment::at_set_up();
        topology.with_facts(|nodes| manager.renew(nodes, &options))?;
        // SAFETY: it closes render nodes, and touches no address.
        unsafe { manager.driver_mut() }.keep_gpus(topology);
        context.remember(&manager.driver().fds());
        warn_of_missing_pages(manager, topology);
    }
    drop(snapshots::with(|table| table.note_set_up(context.index(), Some(Arc::clone(topology))))?);
    Ok(())
}

/// Whether two topologies are the same to the memory manager.
fn same_nodes(one: &Arc<Topology>, other: &Arc<Topology>) -> bool {
    Arc::ptr_eq(one, other) || one.with_facts(|one| other.with_facts(|other| one == other))
}

/// A GPU without an MMIO page works, and cannot be told to flush.
fn warn_of_missing_pages(manager: &ContextManager, topology: &Topology) {
    for gpu in topology.nodes.iter().map(|node| node.gpu()).filter(|gpu| manager.svm_needed(*gpu)) {
        if manager.range(gpu, Range::Mmio).is_none() {
            log::warn!("GPU {:#x} has no MMIO page: the driver refused it", gpu.0);
        }
    }
}
