//! What the proofs share.
pub mod install;
pub mod layout;
pub mod sim;
