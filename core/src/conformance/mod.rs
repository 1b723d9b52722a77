//! What the tests of this and other crates share to check that they do what the core promises.
//!
//! Not for production code: behind the feature `conformance`.

pub mod batches;
pub mod filters;
#[cfg(feature = "golden")]
pub mod golden;
mod values;
pub mod wire;
