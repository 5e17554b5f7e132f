//! The process side of the thunk: what a running program needs around [`hsakmt_core`], as a safe Rust API and as the C
//! ABI of `libhsakmt.so.1`.
//!
//! ```text
//! query:  capi::pointer -> thread (my slot) -> shared (root) -> core: snapshot -> info      no lock
//! verb:   capi::memory  -> context (the lock) -> core: manager -> backend (/dev/kfd)        one at a time
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | [`context`], `lock` | open, close, fork; [`Context`] with every verb; the lock they take |
//! | [`shared`] | the memory that readers touch and a fork wipes |
//! | [`thread`] | a thread's reader slot |
//! | [`queues`] | user-mode queues and their memory |
//! | [`system`], `snapshots`, `banks` | the topology snapshot, and what C callers read of it |
//! | [`reason`] | why opening or Acquire was refused |
//! | `connection`, `runtime`, [`events`], `tools`, `counters`, `debugger` | calls that need no memory manager |
//! | [`backend`] | `/dev/kfd`, or the simulated machine in this process |
//! | [`memory`], `environment` | where blocks come from; the variables the library honours |
//! | [`status`], [`ctypes`], [`capi`] | the C face |
//!
//! ```no_run
//! use hsakmt::context::Context;
//!
//! let context = Context::primary();
//! context.open()?;
//! context.acquire_system_properties()?;
//! let kind = context.query_pointer(0x7f00_0000_0000, |info| info.kind)?;
//! println!("{kind:?}");
//! context.close()?;
//! # Ok::<(), hsakmt_core::error::Error>(())
//! ```
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod backend;
mod banks;
mod cancel;
pub mod capi;
mod connection;
pub mod context;
mod counters;
pub mod ctypes;
mod debugger;
mod environment;
pub mod events;
mod lock;
mod machine_api;
pub mod memory;
mod memory_api;
pub mod queues;
pub mod reason;
mod runtime;
pub mod shared;
mod sharing_api;
mod snapshots;
pub mod status;
pub mod system;
pub mod thread;
mod tls;
mod tools;

pub use context::Context;
