//! Connections that break, stall, dawdle or lie: every scan gives all rows once, or says why not.

mod corruption;
mod cuts;
mod leaks;
mod matrix;
mod silence;
mod slow;
mod soak;
mod sources;
mod tls;
