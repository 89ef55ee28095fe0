//! The program as a user calls it: help, messages and exit statuses, brokers and topics, and runs on embedded brokers.

mod broker;
mod help;
mod messages;
mod process;
mod run;
mod secured;
mod topics;
