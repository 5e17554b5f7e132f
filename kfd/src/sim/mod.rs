//! A simulated KFD: the kernel's side of every ioctl, without a GPU.
//!
//! ```text
//! description (what machine) -> machine (the state machine: what each ioctl answers)
//!                                  ^ bytes of one ioctl, and the caller's memory through `Caller`
//!            supervisor -----------+----------- embedded
//!     another program's system calls            under `device::Device`, in this process
//! ```
//!
//! [`machine`] decides everything; the two doors only carry bytes to it, so what is proved through one door holds for
//! the other. Nothing here is on any path of a real device.

pub mod caller;
pub mod description;
pub mod embedded;
pub mod engine;
pub mod machine;
pub mod maps;
pub mod memfd;
mod probe;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod supervisor;
pub mod sysfs;
