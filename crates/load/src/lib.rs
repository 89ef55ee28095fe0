//! Runs a workload on a target and records what happened.
//!
//! [`coordinate::run`] is the way in. It prepares the topics ([`prepare`]), starts the threads that produce ([`producing`])
//! and consume ([`consuming`], [`verify`]), compares clocks with another run ([`meeting`]), gathers what they write down ([`recorder`]) and makes the result of it
//! ([`summary`]). The world is touched through `client`, but for the host's own figures ([`host`]).

pub mod channel;
pub mod consuming;
pub mod coordinate;
pub mod host;
pub mod keys;
pub mod meeting;
pub mod observer;
pub mod payload;
mod places;
pub mod plan;
pub mod prepare;
pub mod producing;
pub mod recorder;
pub mod shared;
pub mod summary;
pub mod verify;

pub use coordinate::run;
