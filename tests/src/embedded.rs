//! The primary context on a simulated machine in this process.

use hsakmt::Context;
use hsakmt_core::error::Error;
use hsakmt_kfd::sim::embedded::EmbeddedMachine;

/// Opens it on a new machine with one CPU node and two GPUs, without the SVM API; once more if it is open.
pub fn open_once(context: Context) -> Result<(), Error> {
    let machine = EmbeddedMachine::preset("gfx90a").expect("a preset");
    context.open_with(|| Ok(Box::new(machine.open().map_err(|_| Error::NotOpened)?)))
}

/// Opens and sets up the primary context.
pub fn open() -> Context {
    let context = Context::primary();
    open_once(context).expect("it is closed");
    context.acquire_system_properties().expect("a topology");
    context
}
