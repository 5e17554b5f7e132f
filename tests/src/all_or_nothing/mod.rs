//! All or nothing, seen from outside: each verb, with each system call it makes failing once, on the level of kernel
//! objects, CPU mappings and file descriptors.
//!
//! ```text
//! setting  the machine, its environment, and where this program runs itself again
//! state    everything a failed verb must leave as it was
//! bench    a context on that machine, and what a verb needs prepared
//! verbs    every verb, and how many failures must at least have reached it
//! strike   the loop: k = 1, 2, ... until the verb gets through
//! walk     one verb behind real system calls, where a fault strikes from outside
//! ```
//! Comes in: a setting. Goes out: how often each fault struck each verb, or a panic that names verb, fault and the lines
//! that differ. What never happens: a fault that is counted without having struck, a comparison that other threads
//! disturb - each setting is a process of its own, whose allocator leaves the address space alone.

mod bench;
mod setting;
mod state;
mod strike;
mod verbs;
mod walk;

pub use bench::{Bench, Given};
pub use setting::{SETTINGS, Setting, inside, run_again, run_under};
pub use state::State;
pub use strike::{Fault, Struck, strike_all};
pub use verbs::{Verb, all};
pub use walk::{MARK, choose, walk};
