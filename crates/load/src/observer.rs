//! A thread that asks the brokers for their end offsets, so that a broker that does not answer holds nothing else up.

use crate::channel::receive_within;
use client::admin::{Admin, OffsetAt, TopicPartition};
use client::clock::RunClock;
use model::client_config::AdminConfig;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Asks when told to; see the module.
#[derive(Debug)]
pub struct Observer {
    ask: Sender<()>,
    answers: Receiver<Option<EndOffsets>>,
    thread: JoinHandle<()>,
    taken: std::cell::RefCell<Vec<Option<EndOffsets>>>,
}

/// The end offsets at one moment.
#[derive(Clone, Debug)]
pub struct EndOffsets {
    /// By the places of the partitions.
    pub offsets: Vec<i64>,
    /// When they were told: the middle of asking and answer, on the clock.
    pub at_ns: u64,
}

impl EndOffsets {
    /// Over all partitions.
    pub fn sum(&self) -> u64 {
        self.offsets.iter().map(|&offset| offset.max(0) as u64).sum()
    }
}

impl Observer {
    /// Connects in its own thread.
    pub fn start(
        config: AdminConfig,
        clock: RunClock,
        partitions: Vec<TopicPartition>,
    ) -> std::io::Result<Observer> {
        let (ask, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("observe".to_owned())
            .spawn(move || {
                let mut admin = Admin::connect(&config, clock, Duration::from_secs(10)).ok();
                while asked.recv().is_ok() {
                    if admin.is_none() {
                        admin = Admin::connect(&config, clock, Duration::from_secs(10)).ok();
                    }
                    let asked_ns = clock.now_ns();
                    let offsets = admin.as_mut().and_then(|admin| end_offsets(admin, &partitions));
                    let at_ns = asked_ns / 2 + clock.now_ns() / 2;
                    let ends = offsets.map(|offsets| EndOffsets { offsets, at_ns });
                    if answer.send(ends).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Observer {
            ask,
            answers,
            thread,
            taken: Vec::new().into(),
        })
    }

    /// Asks for the end offsets as they are now.
    pub fn ask(&self) {
        let _ = self.ask.send(());
    }

    /// Asks for the last time and waits for the answer.
    pub fn ask_last(&self, asked_before: usize, within: Duration) -> Option<EndOffsets> {
        self.ask();
        let mut taken = self.taken.borrow_mut();
        while taken.len() <= asked_before {
            taken.push(receive_within(&self.answers, within).ok()?);
        }
        taken.last().cloned().flatten()
    }

    /// The first answer, once a later one has been waited for.
    pub fn first(&self) -> Option<EndOffsets> {
        self.taken.borrow().first().cloned().flatten()
    }

    /// The answers in the order of the questions; absent where one did not come.
    pub fn end(self, asked: usize) -> Vec<Option<EndOffsets>> {
        let mut answers = self.taken.into_inner();
        while answers.len() < asked {
            match receive_within(&self.answers, Duration::from_secs(5)) {
                Ok(answer) => answers.push(answer),
                Err(_) => break,
            }
        }
        drop(self.ask);
        // A thread that waits for a broker that is gone is left to its own time-out.
        if self.thread.is_finished() {
            let _ = self.thread.join();
        }
        answers.resize(asked, None);
        answers
    }
}

fn end_offsets(admin: &mut Admin, partitions: &[TopicPartition]) -> Option<Vec<i64>> {
    let listed = admin.list_offsets(partitions, OffsetAt::Latest).ok()?;
    partitions
        .iter()
        .map(|partition| {
            listed
                .get(partition)?
                .as_ref()
                .ok()?
                .as_ref()
                .map(|listed| listed.offset)
        })
        .collect()
}
