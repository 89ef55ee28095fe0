//! Where two runs that are two halves of one load meet, so that records which one sends can be timed by the other.
//!
//! One process produces, another consumes, perhaps on another host, and both were given the same run id. The stamps of
//! records are in the time of the sending run, which the receiving one has to place on its own clock. They talk through a
//! topic of one partition: the receiver asks, again and again; the sender answers with the times at which it read and
//! answered, and with when its load began. [`measure::clock_offset`] makes an offset and its bound of that, whatever the
//! wall clocks say.

use crate::shared::Shared;
use client::batch::{Batch, BatchBuilder, HEADER_LEN, RecordHeaders};
use client::clock::RunClock;
use client::consumer::{Consumer, Deliver, OWNERS, StartAt, Subscription};
use client::net::Net;
use client::producer::{BatchTag, Producer};
use measure::clock_offset::{Exchange, OffsetEstimate};
use model::client_config::{Acks, Compression, ConsumerConfig, OffsetReset, ProducerConfig};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Questions follow in quick succession until so many are answered, for a small bound soon; then one a second keeps it small.
const QUICK_EXCHANGES: u64 = 20;
const QUICK_NS: u64 = 100_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// The thread looks this often whether it is to end.
const LOOK_NS: u64 = 50_000_000;
/// A message that decodes to more is not one of ours.
const MOST_DECODED_BYTES: usize = 1 << 20;
const UNKNOWN: i64 = i64::MIN;
/// What every message begins with.
const GREETING: &str = "plimsoll-clock 1";

/// Which half of the load this run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// It produces, and answers.
    Sender,
    /// It consumes, and asks.
    Receiver,
}

/// The sending run's time, as the threads that consume see it.
#[derive(Debug)]
pub struct SenderClock {
    /// When the sender's load began, on our clock, which may be before our clock's own beginning.
    origin_ns: AtomicI64,
    is_given_up: AtomicBool,
    unplaced: AtomicU64,
}

/// Where a due time of the sender's lies on our clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// There.
    At(i64),
    /// It may be known later.
    NotYet,
    /// It will not be known.
    Never,
}

impl Default for SenderClock {
    fn default() -> SenderClock {
        SenderClock {
            origin_ns: AtomicI64::new(UNKNOWN),
            is_given_up: AtomicBool::new(false),
            unplaced: AtomicU64::new(0),
        }
    }
}

impl SenderClock {
    /// Places a due time.
    #[inline]
    pub fn place(&self, due_ns: u64) -> Placed {
        match self.origin_ns.load(Ordering::Acquire) {
            UNKNOWN if self.is_given_up.load(Ordering::Acquire) => Placed::Never,
            UNKNOWN => Placed::NotYet,
            origin_ns => Placed::At(origin_ns.saturating_add(due_ns.min(i64::MAX as u64) as i64)),
        }
    }

    /// Waits no longer for it; what was not placed stays so, and is told apart.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    /// Records were timed by their timestamps, for want of anything better.
    pub fn count_unplaced(&self, records: u64) {
        self.unplaced.fetch_add(records, Ordering::Relaxed);
    }

    /// Records that were timed so.
    pub fn unplaced(&self) -> u64 {
        self.unplaced.load(Ordering::Relaxed)
    }

    /// Says when the sender's load began, on our clock.
    pub fn set_origin(&self, origin_ns: i64) {
        self.origin_ns.store(origin_ns, Ordering::Release);
    }
}

/// What a receiver came to know of the sender's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Our wall clock less the sender's, in nanoseconds; absent when no answer came.
    pub wall_offset_ns: Option<i64>,
    /// The greatest error of the offset at any time at which records came.
    pub bound_ns: Option<u64>,
    /// Questions that were answered.
    pub exchanges: u64,
    /// Whether more than one sending run answered.
    pub has_several_senders: bool,
}

/// A message of the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Ask {
        asker: u64,
        asked_ns: u64,
    },
    Answer {
        asker: u64,
        asked_ns: u64,
        read_ns: u64,
        answered_ns: u64,
        sender: u64,
        /// When the sender's load began, on its clock, once it has.
        start_ns: Option<u64>,
        /// The sender's wall-clock time at its clock's beginning, since 1970.
        wall_ns: u64,
    },
}

impl Message {
    fn to_text(self) -> String {
        match self {
            Message::Ask { asker, asked_ns } => format!("{GREETING} ask {asker:016x} {asked_ns}"),
            Message::Answer {
                asker,
                asked_ns,
                read_ns,
                answered_ns,
                sender,
                start_ns,
                wall_ns,
            } => {
                let start = start_ns.map_or("-".to_owned(), |ns| ns.to_string());
                format!(
                    "{GREETING} answer {asker:016x} {asked_ns} {read_ns} {answered_ns} {sender:016x} {start} {wall_ns}"
                )
            }
        }
    }

    fn parse(text: &[u8]) -> Option<Message> {
        let text = std::str::from_utf8(text).ok()?.strip_prefix(GREETING)?;
        let mut words = text.split_ascii_whitespace();
        let kind = words.next()?;
        let id = |word: Option<&str>| u64::from_str_radix(word?, 16).ok();
        let ns = |word: Option<&str>| word?.parse().ok();
        let message = match kind {
            "ask" => Message::Ask {
                asker: id(words.next())?,
                asked_ns: ns(words.next())?,
            },
            "answer" => Message::Answer {
                asker: id(words.next())?,
                asked_ns: ns(words.next())?,
                read_ns: ns(words.next())?,
                answered_ns: ns(words.next())?,
                sender: id(words.next())?,
                start_ns: match words.next()? {
                    "-" => None,
                    word => Some(word.parse().ok()?),
                },
                wall_ns: ns(words.next())?,
            },
            _ => return None,
        };
        words.next().is_none().then_some(message)
    }
}

/// One half's side of the talk: which message follows from which, without sockets.
#[derive(Debug)]
struct Talk {
    half: Half,
    /// This process among those that meet.
    id: u64,
    wall_ns: u64,
    estimate: OffsetEstimate,
    /// The sender that was heard first, its wall-clock time at its clock's beginning, and when its load began.
    sender: Option<(u64, u64, Option<u64>)>,
    has_several_senders: bool,
    next_question_ns: u64,
    worst_bound_ns: Option<u64>,
}

impl Talk {
    fn new(half: Half, id: u64, wall_ns: u64) -> Talk {
        Talk {
            half,
            id,
            wall_ns,
            estimate: OffsetEstimate::new(),
            sender: None,
            has_several_senders: false,
            next_question_ns: 0,
            worst_bound_ns: None,
        }
    }

    /// The next question, where one is due.
    fn question(&mut self, now_ns: u64) -> Option<Message> {
        if self.half == Half::Sender || now_ns < self.next_question_ns {
            return None;
        }
        let pause_ns = if self.estimate.exchanges() < QUICK_EXCHANGES {
            QUICK_NS
        } else {
            SECOND_NS
        };
        self.next_question_ns = now_ns + pause_ns;
        Some(Message::Ask {
            asker: self.id,
            asked_ns: now_ns,
        })
    }

    /// A message was read at `read_ns`; gives the answer to a question. `start_ns` is when our load began.
    fn hear(
        &mut self,
        message: Message,
        read_ns: u64,
        now_ns: u64,
        start_ns: Option<u64>,
    ) -> Option<Message> {
        match message {
            Message::Ask { asker, asked_ns } => (self.half == Half::Sender).then_some(Message::Answer {
                asker,
                asked_ns,
                read_ns,
                answered_ns: now_ns,
                sender: self.id,
                start_ns,
                wall_ns: self.wall_ns,
            }),
            Message::Answer {
                asker,
                asked_ns,
                read_ns: other_read_ns,
                answered_ns,
                sender,
                start_ns,
                wall_ns,
            } => {
                if asker != self.id {
                    return None;
                }
                match &mut self.sender {
                    Some((known, ..)) if *known != sender => {
                        self.has_several_senders = true;
                        return None;
                    }
                    Some((.., known_start_ns)) => *known_start_ns = known_start_ns.or(start_ns),
                    none => *none = Some((sender, wall_ns, start_ns)),
                }
                self.estimate.add(&Exchange {
                    asked_ns,
                    read_ns: other_read_ns,
                    answered_ns,
                    returned_ns: read_ns,
                });
                None
            }
        }
    }

    /// When the sender's load began, on our clock, as far as is known.
    fn origin_ns(&self, now_ns: u64) -> Option<i64> {
        let (_, _, start_ns) = self.sender?;
        let offset = self.estimate.at(now_ns)?;
        i64::try_from(i128::from(start_ns?) - i128::from(offset.offset_ns)).ok()
    }

    /// Records came: the offset that they were timed with counts.
    fn used(&mut self, now_ns: u64) {
        if let Some(offset) = self.estimate.at(now_ns) {
            self.worst_bound_ns = self.worst_bound_ns.max(Some(offset.bound_ns));
        }
    }

    fn told(&self, now_ns: u64) -> Told {
        let offset = self.estimate.at(now_ns);
        let wall_offset_ns = self
            .sender
            .zip(offset)
            .and_then(|((_, sender_wall_ns, _), offset)| {
                let apart = i128::from(self.wall_ns) - i128::from(sender_wall_ns);
                i64::try_from(apart - i128::from(offset.offset_ns)).ok()
            });
        Told {
            wall_offset_ns,
            bound_ns: self.worst_bound_ns.or(offset.map(|offset| offset.bound_ns)),
            exchanges: self.estimate.exchanges(),
            has_several_senders: self.has_several_senders,
        }
    }
}

/// The thread that talks.
#[derive(Debug)]
pub struct Meeting {
    is_over: Arc<AtomicBool>,
    told: Arc<Mutex<Told>>,
    thread: JoinHandle<()>,
}

/// How the talk's own producer and consumer are configured.
#[derive(Clone, Debug)]
pub struct MeetingClients {
    producer: ProducerConfig,
    consumer: ConsumerConfig,
}

impl MeetingClients {
    /// The run's connections, with settings that bring each message across at once.
    pub fn of(producer: &ProducerConfig, consumer: &ConsumerConfig) -> MeetingClients {
        let mut producer = producer.clone();
        producer.acks = Acks::Leader;
        producer.idempotence = false;
        producer.linger = Duration::ZERO;
        producer.compression = Compression::None;
        producer.batch_size_bytes = 1024;
        producer.buffer_memory_bytes = producer.buffer_memory_bytes.max(1 << 20);
        let mut consumer = consumer.clone();
        consumer.fetch_min_bytes = 1;
        consumer.group_id = None;
        consumer.group_instance_id = None;
        consumer.auto_commit = false;
        consumer.auto_offset_reset = OffsetReset::Latest;
        MeetingClients { producer, consumer }
    }
}

impl Meeting {
    /// Begins to talk on `topic`. `id` is this process's among those that meet.
    ///
    /// # Errors
    ///
    /// When the system grants no thread.
    pub fn start(
        topic: &str,
        half: Half,
        id: u64,
        clients: MeetingClients,
        shared: Arc<Shared>,
    ) -> std::io::Result<Meeting> {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::new(Mutex::new(Told::default()));
        let (topic, ends, tells) = (topic.to_owned(), Arc::clone(&is_over), Arc::clone(&told));
        let thread = std::thread::Builder::new()
            .name("meet".to_owned())
            .spawn(move || {
                let wall_ns = shared.clock.wall_start().as_nanos() as u64;
                let talk = Talk::new(half, id, wall_ns);
                // Without the talk the run goes on, and says that the clocks could not be compared.
                let _ = run(&topic, talk, &clients, &shared, &ends, &tells);
            })?;
        Ok(Meeting {
            is_over,
            told,
            thread,
        })
    }

    /// Ends the talk, and says what came of it.
    pub fn end(self) -> Told {
        self.is_over.store(true, Ordering::Release);
        let _ = self.thread.join();
        *self.told.lock().expect("no holder panics")
    }
}

#[derive(Debug, Default)]
struct NoTag;

impl BatchTag for NoTag {
    fn split_off(&mut self, _records: u32) -> NoTag {
        NoTag
    }
}

/// Gathers the messages of an answer to Fetch.
#[derive(Default)]
struct Heard(Vec<(Message, u64)>, Vec<u8>);

impl Deliver for Heard {
    fn batch(&mut self, _: &str, _: i32, batch: &Batch<'_>, from_offset: i64, delivered_ns: u64) {
        let base_offset = batch.base_offset();
        let Ok(records) = batch.records(&mut self.1, MOST_DECODED_BYTES) else {
            return;
        };
        for record in records.flatten() {
            if base_offset + i64::from(record.offset_delta) >= from_offset
                && let Some(message) = record.value.and_then(Message::parse)
            {
                self.0.push((message, delivered_ns));
            }
        }
    }
}

fn run(
    topic: &str,
    mut talk: Talk,
    clients: &MeetingClients,
    shared: &Shared,
    is_over: &AtomicBool,
    told: &Mutex<Told>,
) -> std::io::Result<()> {
    let clock: RunClock = shared.clock;
    let mut net = Net::new(clock)?;
    // Owners 0 and 1 are the consumer's.
    let at = Subscription::Partitions(vec![((topic.to_owned(), 0), StartAt::Latest)]);
    let mut consumer =
        Consumer::new(&clients.consumer, &at, 0, clock.wall_start()).map_err(std::io::Error::other)?;
    let mut producer: Producer<NoTag> =
        Producer::new(topic, &clients.producer, OWNERS, 0).map_err(std::io::Error::other)?;
    let headers = RecordHeaders::default();
    let mut to_send: Vec<Message> = Vec::new();
    let mut heard = Heard::default();
    let (mut events, mut read) = (Vec::new(), Vec::new());
    let mut consumed = 0;
    while !is_over.load(Ordering::Acquire) {
        let now_ns = clock.now_ns();
        let question_ns = if talk.half == Half::Receiver {
            talk.next_question_ns
        } else {
            u64::MAX
        };
        let until_ns = consumer
            .next_deadline_ns()
            .min(producer.next_deadline_ns())
            .max(now_ns + 1_000_000)
            .min(question_ns.max(now_ns))
            .min(now_ns + LOOK_NS);
        net.poll(Some(until_ns), &mut events)?;
        let now_ns = clock.now_ns();
        for (conn, event) in events.drain(..) {
            if conn.owner < OWNERS {
                consumer.on_net(conn, event, now_ns, &mut read);
            } else {
                producer.on_net(conn, event, now_ns, &mut read);
            }
        }
        consumer.tick(now_ns, &mut read);
        consumer.deliver(&mut heard, now_ns, &mut read);
        for (message, read_ns) in heard.0.drain(..) {
            to_send.extend(talk.hear(message, read_ns, clock.now_ns(), shared.start_ns()));
        }
        if consumer.is_assigned_and_positioned() {
            to_send.extend(talk.question(now_ns));
        }
        for message in to_send.drain(..) {
            let text = message.to_text();
            let bound = BatchBuilder::record_len_bound(None, text.len(), &headers) + HEADER_LEN;
            // What finds no room is not sent: another question follows.
            if let Ok(open) = producer.open(0, bound, now_ns) {
                open.push(clock.wall_ms(now_ns), None, text.len(), &headers, |out| {
                    out.extend_from_slice(text.as_bytes());
                });
                producer.appended(0, bound, bound, now_ns);
            }
        }
        producer.tick(now_ns, &mut read);
        while producer.next_finished().is_some() {}
        while producer.next_incident().is_some() {}
        while consumer.next_event().is_some() {}
        net.act(consumer.actions());
        net.act(producer.actions());
        read.drain(..).for_each(|frame| net.recycle(frame));
        if let Some(sender_clock) = &shared.sender_clock {
            if let Some(origin_ns) = talk.origin_ns(now_ns) {
                sender_clock.set_origin(origin_ns);
            }
            let count = shared.live.consumed.load(Ordering::Relaxed);
            if count > consumed {
                consumed = count;
                talk.used(now_ns);
            }
        }
        *told.lock().expect("no holder panics") = talk.told(now_ns);
    }
    let now_ns = clock.now_ns();
    consumer.abandon(now_ns, &mut read);
    producer.abandon(now_ns);
    net.act(consumer.actions());
    net.act(producer.actions());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back_as_they_were_written() {
        let answer = Message::Answer {
            asker: u64::MAX,
            asked_ns: 1,
            read_ns: 2,
            answered_ns: 3,
            sender: 7,
            start_ns: None,
            wall_ns: 1_700_000_000_000_000_000,
        };
        let started = match answer {
            Message::Answer {
                asker,
                asked_ns,
                read_ns,
                answered_ns,
                sender,
                wall_ns,
                ..
            } => Message::Answer {
                asker,
                asked_ns,
                read_ns,
                answered_ns,
                sender,
                start_ns: Some(9),
                wall_ns,
            },
            ask => ask,
        };
        let ask = Message::Ask {
            asker: 0,
            asked_ns: u64::MAX,
        };
        for message in [answer, started, ask] {
            assert_eq!(Message::parse(message.to_text().as_bytes()), Some(message));
        }
        for text in [
            "",
            "plimsoll-clock 2 ask 0 0",
            "plimsoll-clock 1 ask 0",
            "plimsoll-clock 1 ask 0 0 0",
            "plimsoll-clock 1 answer 0 1 2 3 4 x 5",
            "plimsoll-clock 1 sing 0 0",
        ] {
            assert_eq!(Message::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Message::parse(&[0xff, 0xfe]), None);
    }

    /// The sender's clock is 5 s ahead, its wall clock 250 ms ahead of ours; each way takes 1 ms.
    #[test]
    fn a_question_and_its_answer_place_the_senders_records() {
        const MS: u64 = 1_000_000;
        let ahead = 5_000 * MS;
        let ours = 100 * SECOND_NS;
        // Wall clocks at the clocks' beginnings: the sender's clock began 5 s earlier.
        let mut receiver = Talk::new(Half::Receiver, 1, ours);
        let mut sender = Talk::new(Half::Sender, 2, ours - ahead + 250 * MS);
        assert_eq!(sender.question(0), None);
        assert_eq!(receiver.origin_ns(0), None);
        let question = receiver.question(10 * MS).expect("the first is due at once");
        assert_eq!(receiver.question(11 * MS), None);
        let read_ns = 11 * MS + ahead;
        let answer = sender
            .hear(question, read_ns, read_ns + MS, None)
            .expect("a sender answers");
        assert_eq!(receiver.hear(answer, 13 * MS, 13 * MS, None), None);
        assert_eq!(receiver.origin_ns(13 * MS), None, "its load has not begun");
        // It begins when our clock says 1 s.
        let question = receiver.question(SECOND_NS).expect("due");
        let answer = sender
            .hear(
                question,
                SECOND_NS + MS + ahead,
                SECOND_NS + MS + ahead,
                Some(SECOND_NS + ahead),
            )
            .expect("a sender answers");
        receiver.hear(answer, SECOND_NS + 2 * MS, SECOND_NS + 2 * MS, None);
        assert_eq!(receiver.origin_ns(SECOND_NS + 2 * MS), Some(SECOND_NS as i64));
        receiver.used(SECOND_NS + 2 * MS);
        let told = receiver.told(SECOND_NS + 2 * MS);
        assert_eq!(told.wall_offset_ns, Some(-(250 * MS as i64)));
        assert_eq!((told.bound_ns, told.exchanges), (Some(MS), 2));
        assert!(!told.has_several_senders);
    }

    #[test]
    fn answers_to_others_and_of_a_second_sender_are_not_taken() {
        let mut receiver = Talk::new(Half::Receiver, 1, 0);
        let answer = |asker, sender| Message::Answer {
            asker,
            asked_ns: 10,
            read_ns: 20,
            answered_ns: 20,
            sender,
            start_ns: Some(0),
            wall_ns: 0,
        };
        receiver.hear(answer(9, 2), 30, 30, None);
        assert_eq!(receiver.told(30), Told::default());
        receiver.hear(answer(1, 2), 30, 30, None);
        receiver.hear(answer(1, 3), 30, 30, None);
        let told = receiver.told(30);
        assert_eq!((told.exchanges, told.has_several_senders), (1, true));
    }

    #[test]
    fn due_times_are_placed_once_the_beginning_is_known() {
        let clock = SenderClock::default();
        assert_eq!(clock.place(5), Placed::NotYet);
        clock.give_up();
        assert_eq!(clock.place(5), Placed::Never);
        clock.set_origin(-100);
        assert_eq!(clock.place(5), Placed::At(-95));
    }
}
