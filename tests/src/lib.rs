//! What the proofs share.
pub mod all_or_nothing;
pub mod contract;
pub mod debian_13;
pub mod embedded;
pub mod fuzz;
pub mod install;
pub mod layout;
pub mod machines;
pub mod promise;
pub mod sim;
pub mod tool;
