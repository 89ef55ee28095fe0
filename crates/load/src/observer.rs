//! A thread that asks the brokers for their end offsets, so that a broker that does not answer holds nothing else up.

use crate::channel::receive_within;
use client::admin::{Admin, OffsetAt, TopicPartition};
use client::clock::RunClock;
use client::cluster::Uuid;
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
    /// By the topics' numbers.
    pub topics: Vec<TopicEnds>,
    /// When they were told: the middle of asking and answer, on the clock.
    pub at_ns: u64,
}

/// The end offsets of one topic.
#[derive(Clone, Debug)]
pub struct TopicEnds {
    /// Which topic of that name; all zero before Kafka 2.8.
    pub id: Uuid,
    /// By partition, those included that were added while the load ran.
    pub offsets: Vec<i64>,
}

impl EndOffsets {
    /// Over all partitions.
    pub fn sum(&self) -> u64 {
        let offsets = self.topics.iter().flat_map(|topic| &topic.offsets);
        offsets.map(|&offset| offset.max(0) as u64).sum()
    }

    /// What they have grown by since; `None` where a topic is not the one that it was, or a log has been cut.
    pub fn grown_since(&self, before: &EndOffsets) -> Option<u64> {
        let is_same = |(now, before): (&TopicEnds, &TopicEnds)| {
            let has_fallen = |(now, before): (&i64, &i64)| now < before;
            now.id == before.id && !now.offsets.iter().zip(&before.offsets).any(has_fallen)
        };
        match self.topics.iter().zip(&before.topics).all(is_same) {
            true => self.sum().checked_sub(before.sum()),
            false => None,
        }
    }

    /// The partitions of the topic with that number, and their end offsets.
    pub fn of_topic(&self, topic: usize) -> impl Iterator<Item = (i32, i64)> + '_ {
        let topic = self.topics.get(topic);
        (0..).zip(topic.into_iter().flat_map(|topic| topic.offsets.iter().copied()))
    }
}

impl Observer {
    /// Connects in its own thread, and asks for the offsets of these topics.
    pub fn start(config: AdminConfig, clock: RunClock, topics: Vec<String>) -> std::io::Result<Observer> {
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
                    let ends = admin.as_mut().and_then(|admin| end_offsets(admin, &topics));
                    let at_ns = asked_ns / 2 + clock.now_ns() / 2;
                    let ends = ends.map(|topics| EndOffsets { topics, at_ns });
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

fn end_offsets(admin: &mut Admin, names: &[String]) -> Option<Vec<TopicEnds>> {
    // Partitions may have been added, and a topic may be another one of the same name.
    let infos = admin.topics(Some(names)).ok()?;
    let count = |name: &String| infos.get(name).map_or(0, |info| info.partitions.len() as i32);
    let partitions: Vec<TopicPartition> = names
        .iter()
        .flat_map(|name| (0..count(name)).map(move |partition| (name.clone(), partition)))
        .collect();
    let listed = admin.list_offsets(&partitions, OffsetAt::Latest).ok()?;
    let offset = |partition: TopicPartition| {
        let listed = listed.get(&partition)?.as_ref().ok()?.as_ref()?;
        Some(listed.offset)
    };
    let ends = |name: &String| {
        let info = infos.get(name).filter(|info| !info.partitions.is_empty())?;
        let offsets = (0..count(name)).map(|partition| offset((name.clone(), partition)));
        Some(TopicEnds {
            id: info.topic_id,
            offsets: offsets.collect::<Option<_>>()?,
        })
    };
    names.iter().map(ends).collect()
}
