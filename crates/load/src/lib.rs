//! Runs a workload on a target and records what happened.

pub mod host;
pub mod keys;
pub mod payload;
pub mod producing;
pub mod recorder;
pub mod shared;
pub mod verify;
