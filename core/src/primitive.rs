//! The one door to atomics and fences: the machine's, or those of loom, which tries every order in which threads may
//! see each other's stores.
//!
//! In a normal build everything here is core's own under the same name. Built with `--cfg loom` it is `modelled`, for
//! `tests/loom` alone: there atomics exist only inside a model, cannot stand in a static, and their orders can be
//! weakened, so that a model shows that it would notice.

#[cfg(not(loom))]
pub(crate) use core::hint::spin_loop;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

#[cfg(loom)]
mod modelled;
#[cfg(loom)]
pub use modelled::*;

/// Declares a function that is `const`, but for loom, whose atomics are made at run time.
macro_rules! const_fn {
    ($(#[$attribute:meta])* pub const fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attribute])*
        pub const fn $($rest)*

        #[cfg(loom)]
        $(#[$attribute])*
        pub fn $($rest)*
    };
}
pub(crate) use const_fn;
