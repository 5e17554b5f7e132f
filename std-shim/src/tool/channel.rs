//! What the tool looks at: the machine's `/dev/kfd`, or, where there is none, a simulated one in this process.
//!
//! In: what the user asked for. Out: [`Channel`], open and with its topology taken, and one line that says which it is.
//! A `/dev/kfd` that is there and does not open is an error, and no reason to simulate: the user would take the answers
//! for the machine's. One that has no GPU is no error to a command that needs one ([`Channel::open_with_gpu`]).

use std::sync::Arc;

use hsakmt::Context;
use hsakmt::backend::Backend;
use hsakmt::reason::Reason;
use hsakmt_core::driver::Errno;
use hsakmt_core::node::NodeId;
use hsakmt_kfd::device::{self, Device};
use hsakmt_kfd::driver::KfdDriver;
use hsakmt_kfd::sim::embedded::EmbeddedMachine;
use hsakmt_kfd::topology::{Node, Topology};

use super::args::{DEFAULT_MACHINE, Options};
use super::failure::Failure;

/// An open channel. Dropped, it is closed, and every object of it ends.
pub(super) struct Channel {
    /// The primary context.
    pub(super) context: Context,
    /// The machine.
    pub(super) topology: Arc<Topology>,
    /// Which machine this is, in a line.
    pub(super) says: String,
}

impl Channel {
    /// Opens what the options ask for.
    pub(super) fn open(options: &Options) -> Result<Channel, Failure> {
        Channel::open_on(choose(options.simulated.as_deref())?)
    }

    /// Opens what the options ask for; where `/dev/kfd` has no GPU, the simulated machine.
    pub(super) fn open_with_gpu(options: &Options) -> Result<Channel, Failure> {
        match Channel::open(options) {
            Ok(channel) if options.simulated.is_some() || channel.gpus().next().is_some() => return Ok(channel),
            Ok(channel) => channel.context.release_system_properties(),
            // Kernels since 7.2 open no device without a GPU.
            Err(Failure::Open { errno: Errno::INVAL, .. }) => {}
            Err(failure) => return Err(failure),
        }
        Channel::open_on(simulate(DEFAULT_MACHINE, &format!("{} has no GPU node", device::PATH))?)
    }

    fn open_on((backend, what): (Box<dyn Backend>, String)) -> Result<Channel, Failure> {
        let refused = |call: &'static str| move |reason| Failure::Refused { call, reason };
        let version = backend.version().map_err(Reason::Version).map_err(refused("hsaKmtGetVersion"))?;
        let context = Context::primary();
        context.try_open_with(|| Ok(backend)).map_err(refused("hsaKmtOpenKFD"))?;
        // From here on a failure closes: the channel is dropped.
        let mut channel = Channel { context, topology: Arc::default(), says: String::new() };
        channel.topology = context.try_acquire().map_err(refused("hsaKmtAcquireSystemProperties"))?;
        let (nodes, gpus) = (channel.topology.nodes.len(), channel.gpus().count());
        let s = if nodes == 1 { "" } else { "s" };
        channel.says = format!("{what}: KFD interface {}.{}, {nodes} node{s}, {gpus} with a GPU", version.0, version.1);
        Ok(channel)
    }

    /// The nodes with a GPU.
    pub(super) fn gpus(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes().filter(|(_, node)| node.gpu_id != 0)
    }

    /// All nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0..).map(NodeId).zip(&self.topology.nodes)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // The process ends soon; the kernel does what this could not.
        let _ = self.context.close();
    }
}

/// The backend, and what to call it.
fn choose(simulated: Option<&str>) -> Result<(Box<dyn Backend>, String), Failure> {
    if let Some(name) = simulated {
        return simulate(name, "as asked");
    }
    match Device::open() {
        Ok(device) => Ok((Box::new(KfdDriver::without_gpus(device)), device::PATH.into())),
        Err(errno @ Errno(libc::ENOENT)) => {
            simulate(DEFAULT_MACHINE, &format!("{}: {}", device::PATH, device::words(errno)))
        }
        Err(errno) => Err(Failure::Open { file: device::PATH, errno }),
    }
}

fn simulate(name: &str, why: &str) -> Result<(Box<dyn Backend>, String), Failure> {
    let driver = EmbeddedMachine::preset(name).and_then(|machine| machine.open());
    let driver = driver.map_err(|errno| Failure::Simulation { name: name.into(), errno })?;
    Ok((Box::new(driver), format!("simulated machine {name} in this process ({why})")))
}
