//! What the proofs share.
pub mod contract;
pub mod install;
pub mod layout;
pub mod sim;
pub mod tool;
