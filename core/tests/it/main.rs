//! Integration tests of the core, linked once.

mod proto;
