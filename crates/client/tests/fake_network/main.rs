//! The state machines of group, consumer and producer on a network and a clock that exist only here: each request that they send is
//! looked at, and each answer is made up.

mod consumer;
mod group;
mod network;
mod producer;
