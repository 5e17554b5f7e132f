//! The C face: every name of `libhsakmt.so.1`.
//!
//! In: what a C caller passes, which may be anything. Out: an `HSAKMT_STATUS`, and out-parameters written whole. Each
//! entry has one shape, made by `entry!` or `twins!`: check that arguments exist, convert them, call one safe function of the
//! crate, convert the answer. Never here: logic, locks, state; a panic that reaches C; an entry that calls another.
//!
//! | file | entries |
//! |---|---|
//! | `process` | open, close, version, contexts |
//! | `topology` | what nodes there are |
//! | `pointer` | the two calls the library exists for |
//! | `memory` | objects: make, register, map, end |
//! | `sharing` | memory of others: dmabufs, other processes' buffers |
//! | `counters` | performance counters |
//! | `queues` | user-mode queues |
//! | `svm` | shared virtual memory, XNACK, memory left |
//! | `retired` | names that exist and answer NOT_IMPLEMENTED |
//! | `debugger` | a process that debugs itself |
//! | `events` | events and waits |
//! | `runtime` | trap handlers, cache policies, the runtime that a debugger finds |
//! | `tools` | management events, counters, sampling |
//! | `dtif` | what `libdtif.so` has besides |
//!
//! Every call on a context has two names: the plain one means the primary context, the one that ends in `Ctx` is given
//! one. `argument` turns C arguments into Rust, `convert` Rust answers into C structs.

mod argument;
mod convert;
mod counters;
mod debugger;
#[cfg(not(feature = "abi-6-2-4"))]
mod dtif;
mod events;
mod memory;
mod pointer;
mod process;
mod queues;
mod retired;
mod runtime;
mod sharing;
mod svm;
mod tools;
mod topology;

#[cfg(feature = "abi-5-2-3")]
pub use retired::OLDER;
pub use retired::RETIRED;

use std::panic::{AssertUnwindSafe, catch_unwind};

use hsakmt_core::error::{Error, Result};

use crate::cancel;
use crate::context::Context;
use crate::status::Status;

/// The way from C into the crate: an error becomes its status, a panic becomes the general failure. State is never half
/// changed by either: edits are built aside, and locks of a panicked writer are recovered. A pending cancellation of the
/// thread waits until the entry has returned.
#[inline(always)]
fn boundary<T: Into<Status>>(body: impl FnOnce() -> T) -> Status {
    cancel::without(|| caught(body))
}

/// Out of line: a frame that catches panics would abort a forced unwind that begins after its end.
#[inline(never)]
fn caught<T: Into<Status>>(body: impl FnOnce() -> T) -> Status {
    prompt_boundary(body)
}

/// [`boundary`] for entries that do not come to a cancellation point, but where they hold cancellation off themselves: those
/// that take tens of nanoseconds.
#[inline(always)]
fn prompt_boundary<T: Into<Status>>(body: impl FnOnce() -> T) -> Status {
    catch_unwind(AssertUnwindSafe(body)).map_or(Status::Error, Into::into)
}

/// `context`, if it is open: for entries that look at their other arguments only then.
#[inline(always)]
fn opened(context: Context) -> Result<Context> {
    if context.is_open() { Ok(context) } else { Err(Error::NotOpened) }
}

/// What an open context knows of the machine, before it looks at node lists: whether there is a dGPU, and how many nodes.
/// Nothing and none before the first Acquire.
fn machine(context: Context) -> Result<(bool, u32)> {
    context.manage(|manager| Ok((manager.is_dgpu(), manager.writer().layout().node_count)))
}

/// Declares C entries. A body is a block of type `Result<()>` or `Status`. `in boundary` says which way in they take;
/// [`boundary`] if it is missing.
macro_rules! entry {
    (in $boundary:ident $($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            #[allow(non_snake_case, reason = "the C names")]
            #[unsafe(no_mangle)]
            extern "C-unwind" fn $name($($argument: $type),*) -> $crate::status::Status {
                $crate::capi::$boundary(move || $body)
            }
        )*
    };
    ($($entries:tt)*) => {
        $crate::capi::entry! { in boundary $($entries)* }
    };
}
use entry;

/// Declares C entries in pairs: the plain call, which means the primary context, and its twin, which is given one. The
/// body is written once.
macro_rules! twins {
    (in $boundary:ident $($(#[$doc:meta])* fn $name:ident, $twin:ident($context:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block)*) => {
        $crate::capi::entry! {
            in $boundary
            $(
                $(#[$doc])*
                fn $name($($argument: $type),*) {
                    let $context = $crate::context::Context::primary();
                    $body
                }

                #[doc = concat!("As `", stringify!($name), "`, in a context.")]
                fn $twin(ctx: $crate::capi::argument::Channel $(, $argument: $type)*) {
                    let $context = ctx.context()?;
                    $body
                }
            )*
        }
    };
    ($($entries:tt)*) => {
        $crate::capi::twins! { in boundary $($entries)* }
    };
}
use twins;
