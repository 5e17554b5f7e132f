//! What the package `hsakmt` needs of the read path and of reader slots. Not part of the public interface: it changes
//! without notice.
//!
//! Each item here that could take a reader's protection away is `unsafe`:
//! ```
//! use core::num::NonZeroUsize;
//! use hsakmt_core::epoch::slots::{Fences, Slots};
//!
//! static SLOTS: Slots<2, Fences> = Slots::new(Fences);
//! let owner = NonZeroUsize::MIN;
//! // SAFETY: the only claim; this thread gives it back and has not entered.
//! let slot = unsafe { SLOTS.claim(owner) }.expect("two are free");
//! // SAFETY: as above.
//! unsafe { SLOTS.release(slot, owner) };
//! // SAFETY: no claim is left; there is one registry.
//! let claim = unsafe { SLOTS.join_as(owner, 0) };
//! ```
//! A slot is not claimed by guessing an owner, nor released under a reader:
//! ```compile_fail,E0133
//! # use core::num::NonZeroUsize;
//! # use hsakmt_core::epoch::slots::{Fences, Slots};
//! static SLOTS: Slots<2, Fences> = Slots::new(Fences);
//! let slot = SLOTS.claim(NonZeroUsize::MIN);
//! ```
//! ```compile_fail,E0133
//! # use core::num::NonZeroUsize;
//! # use hsakmt_core::epoch::slots::{Fences, Slots};
//! # static SLOTS: Slots<2, Fences> = Slots::new(Fences);
//! # let slot = unsafe { SLOTS.claim(NonZeroUsize::MIN) }.expect("two are free");
//! SLOTS.release(slot, NonZeroUsize::MIN);
//! ```
//! The owner word of a free slot is 0, so no owner has that number:
//! ```compile_fail,E0308
//! # use hsakmt_core::epoch::slots::{Fences, Slots};
//! # static SLOTS: Slots<2, Fences> = Slots::new(Fences);
//! let claim = unsafe { SLOTS.join_as(0, 0) };
//! ```
//! Generations are not started over by a safe caller:
//! ```
//! # use hsakmt_core::registry::Registry;
//! let registry = Registry::new();
//! // SAFETY: far below half of a word; there is no writer.
//! unsafe { registry.count_from(1 << 20) };
//! ```
//! ```compile_fail,E0133
//! # use hsakmt_core::registry::Registry;
//! # let registry = Registry::new();
//! registry.count_from(usize::MAX);
//! ```

pub use crate::epoch::slots::{Inside, Kept, Outermost, Slot};
pub use crate::epoch::{Crowd, Emptied, Stay};
pub use crate::lookup::Reached;
