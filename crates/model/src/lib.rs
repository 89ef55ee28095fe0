//! What plimsoll is told and what it says: the workload, the target, the client properties and the result document,
//! with the units they are written in, and the parsing and validation of the files they come from.
//!
//! This crate is the lowest leaf of the workspace. It knows no sockets, no clock, no environment, and prints nothing:
//! text comes in, values or typed faults go out. All faults of an input are found at once (see [`fault::Faults`]), and
//! each value remembers where it came from (see [`source::Source`]).

pub mod broker_script;
pub mod client_config;
pub mod fault;
pub mod objective;
pub mod preset;
pub mod properties;
pub mod result;
pub mod source;
mod spelling;
pub mod target;
pub mod units;
pub mod workload;
mod yaml;
