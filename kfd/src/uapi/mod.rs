//! The kernel's words: every struct and constant of KFD's ioctl interface (`kfd_ioctl.h`), as of 1.17 and with AMD's
//! additions that are not upstream.
//!
//! What comes in: nothing; this room holds no logic. What goes out: `#[repr(C)]` structs without hidden padding, so
//! that each can be read from and written to plain bytes (zerocopy proves it when compiling), and [`LAYOUTS`] and
//! [`CONSTANTS`], tables of the same facts for the tests that compare them with the kernel's header.
//!
//! Field comments say which way a field travels: *in* is read by the kernel, *out* is written by it. Pointers are
//! `u64` on every machine; a GPU id is a `u32` here and becomes [`hsakmt_core::node::GpuId`] in [`crate::device`].
//! A C union is a `payload` of plain words with one method per member that copies it out, and [`overlay`] to put one
//! in. Fields are named as in C, except that `type` is `kind` and the four in capitals are in small letters.

use zerocopy::{FromBytes, Immutable, IntoBytes};

#[macro_use]
mod declare;

mod debug;
mod event;
mod memory;
mod process;
mod queue;
mod tools;

pub use debug::*;
pub use event::*;
pub use memory::*;
pub use process::*;
pub use queue::*;
pub use tools::*;

/// One struct as the compiler laid it out.
#[derive(Clone, Copy, Debug)]
pub struct StructLayout {
    /// Its name in C.
    pub c_name: &'static str,
    /// Bytes.
    pub size: usize,
    /// Its fields in order; the members of a union stand together.
    pub fields: &'static [&'static [FieldLayout]],
}

/// One field as the compiler laid it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    /// Its name in C.
    pub c_name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// One constant: name in C, value, bytes.
pub type Constant = (&'static str, u64, usize);

/// Every struct of the interface.
pub const LAYOUTS: &[&[StructLayout]] =
    &[process::LAYOUTS, queue::LAYOUTS, event::LAYOUTS, memory::LAYOUTS, debug::LAYOUTS, tools::LAYOUTS];

/// Every constant of the interface, request numbers excepted: those are in [`crate::opcode`].
pub const CONSTANTS: &[&[Constant]] =
    &[process::CONSTANTS, queue::CONSTANTS, event::CONSTANTS, memory::CONSTANTS, debug::CONSTANTS, tools::CONSTANTS];

/// `value` as the words of a `payload`: what is left over is zero, what does not fit is cut off.
pub fn overlay<T: IntoBytes + Immutable, const WORDS: usize>(value: &T) -> [u64; WORDS] {
    let mut words = [0u64; WORDS];
    for (to, from) in words.as_mut_bytes().iter_mut().zip(value.as_bytes()) {
        *to = *from;
    }
    words
}

/// A struct from the bytes of a caller: shorter ones are continued with zeros, longer ones cut off, which is what the
/// kernel does with a caller built on another version of the struct.
pub fn from_caller<T: FromBytes + IntoBytes>(bytes: &[u8]) -> T {
    let mut value = T::new_zeroed();
    for (to, from) in value.as_mut_bytes().iter_mut().zip(bytes) {
        *to = *from;
    }
    value
}
