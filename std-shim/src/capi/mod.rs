//! The C face: every name of `libhsakmt.so.1`.
//!
//! In: what a C caller passes, which may be anything. Out: an `HSAKMT_STATUS`, and out-parameters written whole. Each
//! entry has one shape, made by [`entry!`]: check that arguments exist, convert them, call one safe function of the
//! crate, convert the answer. Never here: logic, locks, state; a panic that reaches C; an entry that calls another.
//!
//! - `process`: open, close, version; `topology`: what nodes there are; `memory`: objects; `pointer`: the two calls
//!   the library exists for.
//! - `convert`: Rust answers into C structs. `argument`: C arguments into Rust.
//! - `unwritten`: names that exist and answer NOT_IMPLEMENTED.

mod unwritten;

pub use unwritten::{RETIRED, UNWRITTEN};
