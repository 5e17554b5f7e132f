//! Performance counters (`hsaKmtPmc...`). What each does is `crate::counters`.
//!
//! The calls that take a trace do not ask whether the library is open, as in the C library.

use hsakmt_core::error::{Error, Result};
use hsakmt_core::node;

use super::argument::{Address, In, Out};
use super::entry;
use crate::context::Context;
use crate::counters::{self, Counter};
use crate::ctypes::*;
use crate::status::Status;

/// The context, if it is open. The C library says NO_MEMORY before the first open, and later that there is no such node.
fn opened() -> Result<Context> {
    let context = Context::primary();
    let never = context.generation() == 0;
    super::opened(context).map_err(|_| if never { Error::NoMemory } else { Error::InvalidNode })
}

entry! {
    /// What counters a GPU has.
    fn hsaKmtPmcGetCounterProperties(NodeId: u32, CounterProperties: Out<*const u32>) {
        let context = opened()?;
        let mut place = CounterProperties.required()?;
        place.set(context.counters(node::NodeId(NodeId))?);
        Ok(())
    }

    /// Registers counters to be traced.
    fn hsaKmtPmcRegisterTrace(
        NodeId: u32,
        NumberOfCounters: u32,
        Counters: In<HsaCounter>,
        TraceRoot: Out<HsaPmcTraceRoot>,
    ) {
        let context = opened()?;
        let mut place = TraceRoot.required()?;
        if Counters.is_missing() || NumberOfCounters == 0 {
            return Err(Error::InvalidParameter);
        }
        // More than a trace can have are not read: the node is checked first, and then their number.
        let counters = Counters.copy((NumberOfCounters as usize).min(counters::MOST_COUNTERS))?;
        let too_many = NumberOfCounters as usize > counters.len();
        let mut list: Vec<Counter> = counters.iter().map(counter).collect();
        if too_many {
            list.push(Counter { block: 0, kind: 0, bits: 0 });
        }
        let trace = context.register_trace(node::NodeId(NodeId), &list)?;
        place.set(HsaPmcTraceRoot { TraceBufferMinSizeBytes: trace.buffer, NumberOfPasses: 1, TraceId: trace.id });
        Ok(())
    }

    /// Ends a trace.
    fn hsaKmtPmcUnregisterTrace(NodeId: u32, TraceId: u64) {
        counters::unregister_trace(node::NodeId(NodeId), TraceId)
    }

    /// Takes what a trace needs: nothing. 5.2.3 has shared counters only of an IOMMU, which no kernel has any more.
    fn hsaKmtPmcAcquireTraceAccess(NodeId: u32, TraceId: u64) {
        let access = counters::check_trace(TraceId).and_then(|_| counters::standing_gpu(node::NodeId(NodeId)).map(|_| ()));
        match access {
            Ok(()) if cfg!(feature = "abi-5-2-3") => Status::Unavailable,
            access => access.into(),
        }
    }

    /// Gives it back.
    fn hsaKmtPmcReleaseTraceAccess(_NodeId: u32, TraceId: u64) {
        counters::check_trace(TraceId)
    }

    /// Starts a trace. There is no file to start it by: ERROR.
    fn hsaKmtPmcStartTrace(TraceId: u64, TraceBuffer: Address, TraceBufferSizeBytes: u64) {
        if TraceBuffer.0 == 0 || TraceBufferSizeBytes == 0 {
            return Err(Error::InvalidParameter);
        }
        counters::check_trace(TraceId).and(Err(Error::Failed))
    }

    /// Reads a trace's counters. None was started, so none has a buffer: NO_MEMORY.
    fn hsaKmtPmcQueryTrace(TraceId: u64) {
        counters::check_trace(TraceId).and(Err(Error::NoMemory))
    }

    /// Stops a trace. None was started: ERROR.
    fn hsaKmtPmcStopTrace(TraceId: u64) {
        counters::check_trace(TraceId).and(Err(Error::Failed))
    }
}

fn counter(counter: &HsaCounter) -> Counter {
    Counter { block: counter.BlockIndex, kind: counter.Type, bits: counter.CounterSizeInBits }
}
