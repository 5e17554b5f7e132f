//! The hardware side of hsakmt: what the kernel driver KFD is told and what it answers.
//!
//! ```text
//! manager (hsakmt-core) -> Driver = driver::KfdDriver -> device (ioctls)     -+-> Kfd: /dev/kfd
//!                                                     -> host (address space)  +-> sim::embedded: sim::machine, no kernel
//! /sys/.../kfd/topology -> topology -> Topology
//! ```
//!
//! - [`uapi`], [`opcode`]: the kernel's structs and request numbers, and nothing else.
//! - [`device`]: an open KFD, one method per ioctl, one loop that restarts them, over a transport.
//! - [`host`]: the process's address space: reserve, map, release.
//! - [`driver`]: both together as `hsakmt_core::driver::Driver`, over any transport.
//! - [`environment`]: how an environment variable is read.
//! - [`topology`]: what machine this is, read from sysfs.
//! - [`sim`]: a simulated KFD, in this process or behind another program's system calls.

pub mod device;
pub mod driver;
pub mod environment;
pub mod host;
mod maps;
pub mod opcode;
#[cfg(feature = "sim")]
pub mod sim;
pub mod topology;
pub mod uapi;
