#![no_std]
//! placeholder, being written
#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;
pub mod address;
pub mod driver;
pub mod flags;
pub mod info;
pub mod node;
