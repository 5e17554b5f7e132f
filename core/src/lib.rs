//! GPU memory bookkeeping with wait-free look-ups.
//!
//! Given any address, returns the allocation that contains it: kind, node, flags, CPU and GPU address, size, nodes it is
//! registered to and mapped on, user data. That is `hsaKmtQueryPointerInfo` of AMD's user-mode thunk `libhsakmt`. Here it is a walk
//! through an immutable snapshot: no lock, no system call, no allocation, no retry.
//!
//! ```text
//! read:   address -> page -> object -> info                              Session::query_pointer, any thread
//!            |         |        |        |
//!         lookup     pages   record    info          userptr, aperture, tree: where a page alone does not answer
//!
//! write:  verb -> decide -> driver -> edit -> publish -> retire          Manager, one at a time
//!            |       |         |        |        |         |
//!         manager  ledger   driver   pages,  registry  epoch
//!                                    tree
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | [`address`], [`node`], [`flags`], [`info`], [`error`] | the words everything is said in |
//! | [`aperture`] | which index an address is looked for in |
//! | `record`, `list` | what readers see of an object: one cache line, and its lists of nodes |
//! | `pages` | the page index: objects by page, one load a level |
//! | `tree`, `userptr` | a persistent B+ tree; the userptr index, whose intervals overlap |
//! | `index`, `nodes` | either of both as the index of objects by address; the pools that all draw on |
//! | [`snapshot`], `version`, `lookup`, `many` | everything at one instant, THE READ PATH, and many look-ups side by side |
//! | [`epoch`] | when retired memory may be reused: crossbeam-epoch, or fixed reader slots |
//! | [`pool`], `primitive` | where memory comes from; the one door to atomics |
//! | [`region`], [`fixed`] | a fixed piece of memory, and a registry in a `static` over it |
//! | [`registry`], [`reader`] | one writer, many readers, the single store that connects them |
//! | [`objects`] | the write side for whoever keeps their own books |
//! | [`driver`] | what a device must answer |
//! | `ledger`, `va`, [`manager`] | what only the writer knows, whose addresses are whose, and every verb with its undo |
//!
//! The crate is `no_std`; [`docs::embedded`] says what it needs and costs without an operating system.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | none | | everything in the table above but crossbeam: the registry and the memory manager over any [`pool::Memory`], in a `static` ([`fixed`]) or wherever the caller has bytes |
//! | `alloc` | yes | [`pool::Heap`], the crossbeam-epoch domain, [`Registry::new`](registry::Registry::new) |
//!
//! Rust 1.88 or later.
//!
//! # Example
//! ```
//! use hsakmt_core::{address::PageSize, pool::Heap, registry::Registry};
//!
//! let mut registry = Registry::new();
//! let (_writer, readers) = registry.split(PageSize::FOUR_KIB, Heap)?;
//! let mut reader = readers.reader().expect("crossbeam has a place for everyone");
//! let mut session = reader.session();
//! assert_eq!(session.query_pointer(0x1000)?.size, 0, "nothing there yet");
//! # Ok::<(), hsakmt_core::error::Error>(())
//! ```
#![no_std]
#![deny(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)]
#![cfg_attr(test, allow(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable))]

// Readers need loads and stores of a pointer's width. The writer, and whoever claims a reader's slot, need more: swap,
// compare_exchange, fetch_add. Feature `alloc` needs nothing beyond that.
#[cfg(not(target_has_atomic = "ptr"))]
compile_error!(
    "hsakmt-core needs compare-and-swap of a pointer's width, for the writer and for claiming reader slots; this target \
     has none (cfg target_has_atomic = \"ptr\" is not set)"
);

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(test, loom))]
extern crate std;

pub mod address;
pub mod aperture;
#[allow(unsafe_code)]
mod array;
#[cfg(all(target_has_atomic = "ptr", not(loom)))]
pub mod docs;
#[allow(unsafe_code)]
pub mod driver;
#[cfg(target_has_atomic = "ptr")]
#[allow(unsafe_code)]
pub mod epoch;
pub mod error;
#[cfg(all(target_has_atomic = "ptr", not(loom)))]
pub mod fixed;
pub mod flags;
#[allow(unsafe_code)]
mod index;
pub mod info;
#[doc(hidden)]
#[cfg(target_has_atomic = "ptr")]
pub mod internals;
mod ledger;
#[allow(unsafe_code)]
mod list;
#[allow(unsafe_code)]
mod lookup;
#[cfg(target_has_atomic = "ptr")]
pub mod manager;
#[allow(unsafe_code)]
mod many;
pub mod node;
mod nodes;
#[cfg(target_has_atomic = "ptr")]
pub mod objects;
#[allow(unsafe_code)]
mod pages;
#[allow(unsafe_code)]
pub mod pool;
#[cfg(loom)]
#[allow(unsafe_code)]
pub mod primitive;
#[cfg(not(loom))]
mod primitive;
#[cfg(target_has_atomic = "ptr")]
#[allow(unsafe_code)]
pub mod reader;
mod record;
#[cfg(all(target_has_atomic = "ptr", not(loom)))]
#[allow(unsafe_code)]
pub mod region;
#[cfg(target_has_atomic = "ptr")]
#[allow(unsafe_code)]
pub mod registry;
#[allow(unsafe_code)]
pub mod snapshot;
#[allow(unsafe_code)]
mod tree;
mod userptr;
mod va;
#[allow(unsafe_code)]
mod version;
