//! A transactional producer and the embedded broker: positions of a group count when their transaction commits.

use crate::stage::{admin, brokers, create, properties};
use client::batch::{BatchBuilder, RecordHeaders};
use client::clock::RunClock;
use client::net::Net;
use client::producer::{BatchTag, GroupMember, Producer, TransactionOutcome};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
struct NoTag;

impl BatchTag for NoTag {
    fn split_off(&mut self, _: u32) -> NoTag {
        NoTag
    }
}

struct Transactional {
    clock: RunClock,
    net: Net,
    producer: Producer<NoTag>,
}

impl Transactional {
    fn new(bootstrap: &str) -> Transactional {
        let config = properties(bootstrap, &["transactional.id=t", "linger.ms=0"])
            .producer()
            .expect("valid properties")
            .config;
        let clock = RunClock::start();
        Transactional {
            clock,
            net: Net::new(clock).expect("a poll handle"),
            producer: Producer::new("t", &config, 0, 1).expect("a producer"),
        }
    }

    /// Turns the poll loop until `done` gives something.
    fn until<R>(&mut self, mut done: impl FnMut(&mut Producer<NoTag>, u64) -> Option<R>) -> R {
        let (mut events, mut read) = (Vec::new(), Vec::new());
        loop {
            let now_ns = self.clock.now_ns();
            assert!(now_ns < LIMIT.as_nanos() as u64, "it takes too long");
            self.producer.tick(now_ns, &mut read);
            if let Some(result) = done(&mut self.producer, now_ns) {
                return result;
            }
            self.net.act(self.producer.actions());
            let until_ns = self.producer.next_deadline_ns().min(now_ns + 20_000_000);
            self.net
                .poll(Some(until_ns), &mut events)
                .expect("the poll loop works");
            let now_ns = self.clock.now_ns();
            for (conn, event) in events.drain(..) {
                self.producer.on_net(conn, event, now_ns, &mut read);
                self.net.act(self.producer.actions());
            }
            while self.producer.next_finished().is_some() {}
            read.clear();
        }
    }

    /// Writes one record, moves a group to `offset`, and ends the transaction.
    fn transaction(&mut self, offset: i64, is_commit: bool) -> TransactionOutcome {
        self.until(|producer, now_ns| producer.is_ready(now_ns).then_some(()));
        let now_ns = self.clock.now_ns();
        let headers = RecordHeaders::default();
        let bytes = BatchBuilder::record_len_bound(None, 1, &headers);
        let open = self.producer.open(0, bytes, now_ns).expect("room");
        open.push(1000, None, 1, &headers, |out| out.push(7));
        let member = GroupMember {
            group_id: "g".to_owned(),
            generation: -1,
            ..GroupMember::default()
        };
        let positions = vec![(("t".to_owned(), 0), offset)];
        assert!(self.producer.send_offsets(member, positions, now_ns));
        if !is_commit {
            // So that the coordinator has them before it is asked to forget them.
            let wait_ns = now_ns + 200_000_000;
            self.until(|_, now_ns| (now_ns > wait_ns).then_some(()));
        }
        let now_ns = self.clock.now_ns();
        assert!(self.producer.end_transaction(is_commit, now_ns));
        self.until(|producer, _| producer.next_transaction()).outcome
    }
}

#[test]
fn a_groups_positions_count_when_their_transaction_commits() {
    let brokers = brokers(3);
    let mut admin = admin(&brokers.bootstrap());
    create(&mut admin, "t", 1, 3);
    let mut transactional = Transactional::new(&brokers.bootstrap());
    let place = ("t".to_owned(), 0);
    assert_eq!(transactional.transaction(3, true), TransactionOutcome::Committed);
    assert_eq!(
        admin.committed_offsets("g").expect("an answer").get(&place),
        Some(&3)
    );
    assert_eq!(transactional.transaction(9, false), TransactionOutcome::Aborted);
    assert_eq!(
        admin.committed_offsets("g").expect("an answer").get(&place),
        Some(&3)
    );
    assert_eq!(transactional.transaction(5, true), TransactionOutcome::Committed);
    assert_eq!(
        admin.committed_offsets("g").expect("an answer").get(&place),
        Some(&5)
    );
}
