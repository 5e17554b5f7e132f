#![no_std]
//! placeholder, being written
#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;
pub mod address;
pub mod aperture;
pub mod driver;
pub mod epoch;
pub mod error;
pub mod flags;
pub mod info;
pub mod list;
mod lookup;
pub mod node;
pub mod pool;
pub mod reader;
pub mod record;
pub mod registry;
pub mod snapshot;
mod tree;
mod userptr;
