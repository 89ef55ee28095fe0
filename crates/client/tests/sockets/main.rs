//! The client over real sockets, against the embedded brokers and against listeners that are none.

mod admin;
mod consumer;
mod guarded;
mod hostile;
mod secured;
mod stage;
mod transactions;
mod unreachable;
