//! What is made of a result: text for a terminal of 80 columns, JSON, and CSV.
//!
//! Every report is made from the [`model::result::RunResult`] alone, so that an old result can be shown again, and equal
//! input gives equal bytes. Nothing here prints or knows a clock.

pub mod csv;
mod figures;
pub mod json;
pub mod terminal;
mod wrap;
