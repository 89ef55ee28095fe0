//! What is fed, and with what. The first bytes of an input choose among the kinds of a target.

mod batches;
mod brokers;
mod exchanges;
mod files;
mod hot_path;
mod messages;

use crate::mutation::Random;

/// Feeds an input to what is tested.
pub type Run = Box<dyn FnMut(&[u8])>;

/// One target.
pub struct Target {
    pub name: &'static str,
    /// Makes an input.
    pub input: fn(&mut Random) -> Vec<u8>,
    /// Feeds an input; panics on a finding.
    pub run: Run,
}

impl Target {
    pub fn all() -> Vec<Target> {
        vec![
            messages::requests(),
            messages::responses(),
            hot_path::produce(),
            hot_path::fetch(),
            batches::batches(),
            exchanges::exchanges(),
            brokers::brokers(),
            files::files(),
        ]
    }

    pub fn named(name: &str) -> Option<Target> {
        Target::all().into_iter().find(|target| target.name == name)
    }
}
