//! Reading matter: pages about more than one part.

#[doc = include_str!("docs/embedded.md")]
pub mod embedded {}
