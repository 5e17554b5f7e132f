//! What the proofs share.
pub mod layout;
