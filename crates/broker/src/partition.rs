//! One partition: its log, who leads it, who follows, and how far all of them are.
//!
//! There is one copy of the log, the leader's. A follower is a position in it, which goes along with every append unless
//! its broker is down or its replication is paused. High watermark, in-sync replicas, leader epochs, and truncation at a
//! change of leader follow from the positions as they do in Kafka.

use crate::log::{Log, Marker, ProducedBatch};
use crate::producer_state::{ActiveProducer, Judgement, Producers, Sequenced};
use crate::settings::TopicSettings;
use crate::stable_offset::Transactions;
use model::broker_script::Lie;
use wire::ErrorCode;
use wire::fetch::AbortedTransaction;

/// Brokers that can be leaders and followers, as partitions see them.
pub(crate) trait Brokers {
    /// Whether the broker runs.
    fn is_up(&self, broker: i32) -> bool;
    /// Whether it fetches from leaders.
    fn replicates(&self, broker: i32) -> bool;
    /// Whether it is kept out of the in-sync replicas of partitions that it does not lead; it does not fetch then.
    fn is_kept_out(&self, broker: i32) -> bool;
}

/// One replica of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) broker: i32,
    pub(crate) is_in_sync: bool,
    /// Offset up to which it has the log.
    position: i64,
    /// When it last had all of it.
    caught_up_at: u64,
}

/// A refusal in a produce response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) error: ErrorCode,
    pub(crate) reason: Option<String>,
}

impl From<ErrorCode> for Refused {
    fn from(error: ErrorCode) -> Refused {
        Refused { error, reason: None }
    }
}

/// Where a batch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    /// High watermark from which on all of it is committed.
    pub(crate) end_offset: i64,
    /// −1 unless the broker sets timestamps.
    pub(crate) log_append_time_ms: i64,
    /// Bytes that the log grew by: zero for a duplicate.
    pub(crate) grown_bytes: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Partition {
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: Vec<Replica>,
    log: Log,
    high_watermark: i64,
    producers: Producers,
    transactions: Transactions,
    /// A batch that is acknowledged and goes behind the next one, as a script has it.
    held_back: Option<ProducedBatch>,
    /// Fetches that wait for records here.
    pub(crate) waiting_fetches: Vec<u64>,
    /// Produce requests that wait for the high watermark here.
    pub(crate) waiting_produces: Vec<u64>,
}

impl Partition {
    /// An empty partition with these replicas, the preferred leader first.
    pub(crate) fn new(replicas: &[i32], brokers: &impl Brokers, now: u64) -> Partition {
        let replicas: Vec<Replica> = replicas
            .iter()
            .map(|broker| Replica {
                broker: *broker,
                is_in_sync: brokers.is_up(*broker),
                position: 0,
                caught_up_at: now,
            })
            .collect();
        let leader = replicas
            .iter()
            .find(|replica| replica.is_in_sync)
            .map(|replica| replica.broker);
        let mut log = Log::default();
        log.begin_epoch(0);
        let mut partition = Partition {
            leader,
            leader_epoch: 0,
            replicas,
            log,
            high_watermark: 0,
            producers: Producers::default(),
            transactions: Transactions::default(),
            held_back: None,
            waiting_fetches: Vec::new(),
            waiting_produces: Vec::new(),
        };
        partition.follow(brokers, now);
        partition
    }

    pub(crate) fn leader(&self) -> Option<i32> {
        self.leader
    }

    pub(crate) fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    pub(crate) fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// Up to where a consumer may read that wants committed records only.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.transactions
            .last_stable_offset(self.high_watermark)
            .max(self.log.start_offset())
    }

    /// The aborted transactions among the records from `from` to below `until`.
    pub(crate) fn aborted(&self, from: i64, until: i64) -> Vec<AbortedTransaction> {
        self.transactions.aborted(from, until)
    }

    /// What is remembered of producers: each with the first offset of its open transaction.
    pub(crate) fn producers(&self) -> impl Iterator<Item = (ActiveProducer, Option<i64>)> + '_ {
        let all = self.producers.active().into_iter();
        all.map(|producer| (producer, self.transactions.open_since(producer.producer_id)))
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    pub(crate) fn replicas(&self) -> impl Iterator<Item = i32> + '_ {
        self.replicas.iter().map(|replica| replica.broker)
    }

    pub(crate) fn in_sync(&self) -> impl Iterator<Item = i32> + '_ {
        self.replicas
            .iter()
            .filter(|replica| replica.is_in_sync)
            .map(|replica| replica.broker)
    }

    /// How far the replica on `broker` is behind the leader, in records; `None` if it has none.
    pub(crate) fn lag_of(&self, broker: i32) -> Option<i64> {
        let replica = self.replicas.iter().find(|replica| replica.broker == broker)?;
        Some(self.log.end_offset() - replica.position)
    }

    /// Whether `broker` leads and the client knows of no other epoch.
    pub(crate) fn check_leader(&self, broker: i32, client_epoch: i32) -> Result<(), ErrorCode> {
        if client_epoch >= 0 && client_epoch < self.leader_epoch {
            return Err(ErrorCode::FENCED_LEADER_EPOCH);
        }
        if client_epoch > self.leader_epoch {
            return Err(ErrorCode::UNKNOWN_LEADER_EPOCH);
        }
        if self.leader == Some(broker) {
            Ok(())
        } else {
            Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)
        }
    }

    /// Appends a batch as the leader `broker`. `waits_for_all` is acks = all.
    pub(crate) fn append(
        &mut self,
        broker: i32,
        batch: &ProducedBatch,
        waits_for_all: bool,
        settings: &TopicSettings,
        brokers: &impl Brokers,
        (now, now_ms): (u64, i64),
    ) -> Result<Appended, Refused> {
        if self.leader != Some(broker) {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER.into());
        }
        check_limits(batch, settings, now_ms)?;
        if waits_for_all && self.in_sync().count() < settings.min_insync_replicas {
            return Err(ErrorCode::NOT_ENOUGH_REPLICAS.into());
        }
        let log_append_time_ms = if settings.is_log_append_time { now_ms } else { -1 };
        let sequenced = (batch.producer_id >= 0).then_some(Sequenced {
            producer_id: batch.producer_id,
            producer_epoch: batch.producer_epoch,
            base_sequence: batch.base_sequence,
            last_offset_delta: batch.last_offset_delta,
        });
        let records = i64::from(batch.last_offset_delta) + 1;
        match sequenced.map(|sequenced| self.producers.judge(&sequenced)) {
            None | Some(Judgement::Next) => {}
            Some(Judgement::Duplicate { base_offset }) => {
                let end_offset = base_offset + records;
                return Ok(Appended {
                    base_offset,
                    end_offset,
                    log_append_time_ms,
                    grown_bytes: 0,
                });
            }
            Some(Judgement::OutOfOrder { expected }) => {
                return Err(Refused {
                    error: ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
                    reason: Some(format!(
                        "producer {} came with sequence {} where {expected} was next",
                        batch.producer_id, batch.base_sequence
                    )),
                });
            }
            Some(Judgement::Fenced { current }) => {
                return Err(Refused {
                    error: ErrorCode::INVALID_PRODUCER_EPOCH,
                    reason: Some(format!(
                        "producer {} came with epoch {}, but epoch {current} has written since",
                        batch.producer_id, batch.producer_epoch
                    )),
                });
            }
        }
        if !batch.is_transactional && self.transactions.open_since(batch.producer_id).is_some() {
            return Err(Refused {
                error: ErrorCode::INVALID_TXN_STATE,
                reason: Some(format!(
                    "producer {} wrote without a transaction while it has one open here",
                    batch.producer_id
                )),
            });
        }
        let mut stamped = batch.clone();
        if settings.is_log_append_time {
            batch
                .slice
                .with_mut(|bytes| wire::batch::set_log_append_time(bytes, now_ms));
            stamped.max_timestamp_ms = now_ms;
        }
        let base_offset = self.keep(&stamped, now_ms);
        if let Some(sequenced) = sequenced {
            self.producers.remember(&sequenced, base_offset, now_ms);
        }
        if batch.is_transactional {
            self.transactions.written(batch.producer_id, base_offset);
        }
        self.follow(brokers, now);
        if let Some(keep_bytes) = settings.retention_bytes {
            // Kafka does so every few minutes; here records are memory.
            self.log.shrink(keep_bytes, self.high_watermark);
        }
        Ok(Appended {
            base_offset,
            // What a lie keeps back is not awaited.
            end_offset: (base_offset + records).min(self.log.end_offset()),
            log_append_time_ms,
            grown_bytes: batch.slice.len_bytes(),
        })
    }

    /// Appends a batch, or does what a script has it done with instead; gives the offset to acknowledge.
    fn keep(&mut self, batch: &ProducedBatch, now_ms: i64) -> i64 {
        let end = self.log.end_offset();
        let held = self.held_back.take();
        let base_offset = match batch.lie {
            None => self.log.append(batch, self.leader_epoch, now_ms),
            Some(Lie::Lose) => end,
            Some(Lie::Double) => {
                self.log.append(batch, self.leader_epoch, now_ms);
                self.log.append(batch, self.leader_epoch, now_ms)
            }
            Some(Lie::Swap) => {
                self.held_back = Some(batch.clone());
                end
            }
        };
        if let Some(held) = held {
            self.log.append(&held, self.leader_epoch, now_ms);
        }
        base_offset
    }

    /// Appends the marker that ends a producer's transaction here; gives its offset.
    pub(crate) fn append_marker(
        &mut self,
        marker: &Marker,
        batch: &ProducedBatch,
        brokers: &impl Brokers,
        (now, now_ms): (u64, i64),
    ) -> Result<i64, ErrorCode> {
        if self.leader.is_none() {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        if !self
            .producers
            .judge_marker(marker.producer_id, marker.producer_epoch)
        {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        let offset = self.log.append(batch, self.leader_epoch, now_ms);
        self.producers.marked(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            now_ms,
        );
        self.transactions
            .ended(marker.producer_id, offset, !marker.is_commit);
        self.follow(brokers, now);
        self.transactions
            .forget(self.log.start_offset(), self.high_watermark);
        Ok(offset)
    }

    /// Whether what a leader of `leader_epoch` wrote at `offset` is still there.
    pub(crate) fn holds(&self, offset: i64, leader_epoch: i32) -> bool {
        offset < self.log.start_offset()
            || (offset < self.log.end_offset() && self.log.epochs().at(offset) == Some(leader_epoch))
    }

    /// Lets the followers that can do so catch up, and moves the high watermark; true if it moved.
    pub(crate) fn follow(&mut self, brokers: &impl Brokers, now: u64) -> bool {
        let Some(leader) = self.leader else {
            return false;
        };
        let end_offset = self.log.end_offset();
        for replica in &mut self.replicas {
            let is_kept_out = brokers.is_kept_out(replica.broker);
            let follows = brokers.is_up(replica.broker) && brokers.replicates(replica.broker) && !is_kept_out;
            if is_kept_out && replica.broker != leader {
                replica.is_in_sync = false;
            } else if replica.broker == leader || follows {
                replica.position = end_offset;
                replica.caught_up_at = now;
                replica.is_in_sync = true;
            }
        }
        self.advance()
    }

    /// Takes followers out of the in-sync replicas that are behind since before `since`; true if the high watermark
    /// moved for it.
    pub(crate) fn drop_laggards(&mut self, since: u64) -> bool {
        let leader = self.leader;
        let end_offset = self.log.end_offset();
        for replica in &mut self.replicas {
            let is_behind = replica.position < end_offset && replica.caught_up_at < since;
            if is_behind && Some(replica.broker) != leader {
                replica.is_in_sync = false;
            }
        }
        self.advance()
    }

    fn advance(&mut self) -> bool {
        let lowest = self
            .replicas
            .iter()
            .filter(|replica| replica.is_in_sync)
            .map(|replica| replica.position)
            .min();
        let before = self.high_watermark;
        self.high_watermark = before.max(lowest.unwrap_or(before));
        self.high_watermark > before
    }

    /// A broker is gone: it leaves the in-sync replicas, and if it led, another one leads, or none.
    pub(crate) fn broker_stopped(
        &mut self,
        broker: i32,
        settings: &TopicSettings,
        brokers: &impl Brokers,
        now: u64,
    ) {
        let remaining = self.in_sync().any(|other| other != broker);
        if let Some(replica) = self.replicas.iter_mut().find(|replica| replica.broker == broker)
            && remaining
        {
            // The last one in sync stays so: only it is known to have everything.
            replica.is_in_sync = false;
        }
        if self.leader == Some(broker) {
            self.elect(settings, brokers, now);
        }
        self.advance();
    }

    /// A broker is back: it catches up, and leads if nobody does.
    pub(crate) fn broker_started(&mut self, settings: &TopicSettings, brokers: &impl Brokers, now: u64) {
        if self.leader.is_none() {
            self.elect(settings, brokers, now);
        }
        self.follow(brokers, now);
    }

    /// Gives the lead back to the first replica, if it is in sync and another one has it; true if it moved.
    pub(crate) fn prefer_first(&mut self, brokers: &impl Brokers, now: u64) -> bool {
        let Some(first) = self.replicas.first() else {
            return false;
        };
        let (broker, can_lead) = (first.broker, first.is_in_sync && brokers.is_up(first.broker));
        if self.leader == Some(broker) || !can_lead {
            return false;
        }
        self.lead(Some(broker), brokers, now);
        true
    }

    fn elect(&mut self, settings: &TopicSettings, brokers: &impl Brokers, now: u64) {
        let up = |replica: &&Replica| brokers.is_up(replica.broker);
        let clean = self.replicas.iter().filter(up).find(|replica| replica.is_in_sync);
        let unclean = || {
            self.replicas
                .iter()
                .filter(up)
                .find(|_| settings.unclean_leader_election)
        };
        let chosen = clean.or_else(unclean).map(|replica| replica.broker);
        self.lead(chosen, brokers, now);
    }

    fn lead(&mut self, broker: Option<i32>, brokers: &impl Brokers, now: u64) {
        self.leader = broker;
        self.leader_epoch += 1;
        let Some(leader) = self
            .replicas
            .iter_mut()
            .find(|replica| Some(replica.broker) == broker)
        else {
            return;
        };
        leader.is_in_sync = true;
        let position = leader.position;
        if position < self.log.end_offset() {
            // What the old leader had beyond the new one's log is lost, as its followers would truncate it.
            self.log.truncate(position);
            self.producers.truncate(position);
            self.transactions.truncate(position);
            self.high_watermark = self.high_watermark.min(self.log.end_offset());
            for replica in &mut self.replicas {
                replica.position = replica.position.min(self.log.end_offset());
            }
        }
        self.log.begin_epoch(self.leader_epoch);
        self.follow(brokers, now);
    }

    /// Deletes records below `offset`, at most up to the high watermark.
    pub(crate) fn delete_before(&mut self, offset: i64) {
        self.log.delete_before(offset.min(self.high_watermark));
    }

    /// Forgets what retention no longer asks for.
    pub(crate) fn retain(&mut self, settings: &TopicSettings, now_ms: i64) {
        if let Some(retention_ms) = settings.retention_ms {
            self.log
                .expire(now_ms.saturating_sub(retention_ms), self.high_watermark);
        }
        if let Some(keep_bytes) = settings.retention_bytes {
            self.log.shrink(keep_bytes, self.high_watermark);
        }
    }

    /// Forgets the batch at `base_offset` and all before it, because memory is short. Even what is not committed goes:
    /// the budget is a promise.
    pub(crate) fn evict_through(&mut self, base_offset: i64) -> bool {
        let is_evicted = self.log.evict_through(base_offset);
        if is_evicted {
            self.high_watermark = self.high_watermark.max(self.log.start_offset());
        }
        is_evicted
    }

    /// Forgets producers that have not written since `before_ms`.
    pub(crate) fn expire_producers(&mut self, before_ms: i64) {
        let transactions = &self.transactions;
        self.producers
            .expire(before_ms, |id| transactions.open_since(id).is_some());
        self.transactions
            .forget(self.log.start_offset(), self.high_watermark);
    }
}

fn check_limits(batch: &ProducedBatch, settings: &TopicSettings, now_ms: i64) -> Result<(), Refused> {
    if batch.slice.len_bytes() > settings.max_message_bytes {
        return Err(Refused {
            error: ErrorCode::MESSAGE_TOO_LARGE,
            reason: Some(format!(
                "The record batch size is {} bytes, which is more than max.message.bytes = {}",
                batch.slice.len_bytes(),
                settings.max_message_bytes
            )),
        });
    }
    if settings.is_log_append_time || batch.max_timestamp_ms < 0 {
        return Ok(());
    }
    let is_too_new = batch.max_timestamp_ms > now_ms.saturating_add(settings.timestamp_after_max_ms);
    let is_too_old = batch.base_timestamp_ms < now_ms.saturating_sub(settings.timestamp_before_max_ms);
    if is_too_new || is_too_old {
        return Err(Refused {
            error: ErrorCode::INVALID_TIMESTAMP,
            reason: Some(format!(
                "timestamps from {} to {} ms are not all within {} ms before and {} ms after the broker's time, {now_ms} ms",
                batch.base_timestamp_ms,
                batch.max_timestamp_ms,
                settings.timestamp_before_max_ms,
                settings.timestamp_after_max_ms
            )),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Pool;
    use crate::log::tests::produced;
    use crate::settings::{NodeOverrides, Overrides};
    use std::collections::BTreeSet;

    #[derive(Default)]
    struct Fleet {
        down: BTreeSet<i32>,
        paused: BTreeSet<i32>,
        kept_out: BTreeSet<i32>,
    }

    impl Brokers for Fleet {
        fn is_up(&self, broker: i32) -> bool {
            !self.down.contains(&broker)
        }

        fn replicates(&self, broker: i32) -> bool {
            !self.paused.contains(&broker)
        }

        fn is_kept_out(&self, broker: i32) -> bool {
            self.kept_out.contains(&broker)
        }
    }

    fn settings(configs: &[(&str, &str)]) -> TopicSettings {
        let own: Overrides = configs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        TopicSettings::new(&own, &NodeOverrides::default())
    }

    struct Bench {
        partition: Partition,
        fleet: Fleet,
        settings: TopicSettings,
        now: u64,
    }

    impl Bench {
        fn new(configs: &[(&str, &str)]) -> Bench {
            let fleet = Fleet::default();
            Bench {
                partition: Partition::new(&[1, 2, 3], &fleet, 0),
                fleet,
                settings: settings(configs),
                now: 0,
            }
        }

        fn append(&mut self, broker: i32, waits_for_all: bool) -> Result<i64, ErrorCode> {
            let batch = produced(&Pool::new(0), &[0, 1], 10);
            let times = (self.now, 1);
            self.partition
                .append(broker, &batch, waits_for_all, &self.settings, &self.fleet, times)
                .map(|appended| appended.base_offset)
                .map_err(|refused| refused.error)
        }

        fn stop(&mut self, broker: i32) {
            self.fleet.down.insert(broker);
            self.partition
                .broker_stopped(broker, &self.settings, &self.fleet, self.now);
        }

        fn start(&mut self, broker: i32) {
            self.fleet.down.remove(&broker);
            self.partition
                .broker_started(&self.settings, &self.fleet, self.now);
        }

        fn in_sync(&self) -> Vec<i32> {
            self.partition.in_sync().collect()
        }
    }

    #[test]
    fn followers_go_along_and_commit_at_once() {
        let mut bench = Bench::new(&[]);
        assert_eq!(bench.append(1, true), Ok(0));
        assert_eq!(bench.append(1, true), Ok(2));
        assert_eq!(bench.partition.high_watermark(), 4);
        assert_eq!(bench.append(2, true), Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    }

    #[test]
    fn a_lagging_follower_holds_the_high_watermark_until_it_leaves_the_isr() {
        let mut bench = Bench::new(&[]);
        bench.append(1, true).expect("appended");
        bench.fleet.paused.insert(3);
        bench.now = 100;
        assert_eq!(bench.append(1, true), Ok(2));
        assert_eq!(bench.partition.high_watermark(), 2);
        assert_eq!(bench.partition.lag_of(3), Some(2));
        assert!(!bench.partition.drop_laggards(0));
        assert!(bench.partition.drop_laggards(50));
        assert_eq!(
            (bench.partition.high_watermark(), bench.in_sync()),
            (4, vec![1, 2])
        );
        bench.fleet.paused.clear();
        bench.partition.follow(&bench.fleet, 200);
        assert_eq!(bench.in_sync(), [1, 2, 3]);
    }

    #[test]
    fn a_follower_that_is_kept_out_leaves_the_isr_at_once_and_comes_back() {
        let mut bench = Bench::new(&[("min.insync.replicas", "2")]);
        bench.fleet.kept_out = BTreeSet::from([1, 3]);
        assert_eq!(
            bench.append(1, true),
            Ok(0),
            "it was in sync until something came"
        );
        assert_eq!(
            (bench.partition.high_watermark(), bench.in_sync()),
            (2, vec![1, 2]),
            "a leader stays in sync"
        );
        bench.stop(2);
        assert_eq!(bench.append(1, true), Err(ErrorCode::NOT_ENOUGH_REPLICAS));
        bench.stop(1);
        assert_eq!(bench.partition.leader(), None, "who is kept out is not elected");
        bench.start(1);
        bench.start(2);
        bench.fleet.kept_out.clear();
        bench.partition.follow(&bench.fleet, 0);
        assert_eq!(bench.in_sync(), [1, 2, 3]);
        let fresh = Partition::new(
            &[3, 1],
            &Fleet {
                kept_out: BTreeSet::from([1, 3]),
                ..Fleet::default()
            },
            0,
        );
        assert_eq!(fresh.in_sync().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn too_few_in_sync_refuses_acks_all_and_takes_acks_one() {
        let mut bench = Bench::new(&[("min.insync.replicas", "2")]);
        bench.stop(2);
        assert_eq!(bench.append(1, true), Ok(0));
        bench.stop(3);
        assert_eq!(bench.append(1, true), Err(ErrorCode::NOT_ENOUGH_REPLICAS));
        assert_eq!(bench.append(1, false), Ok(2));
    }

    #[test]
    fn the_lead_moves_and_comes_back() {
        let mut bench = Bench::new(&[]);
        bench.append(1, true).expect("appended");
        bench.stop(1);
        assert_eq!(
            (bench.partition.leader(), bench.partition.leader_epoch()),
            (Some(2), 1)
        );
        assert_eq!(bench.append(1, true), Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        assert_eq!(bench.append(2, true), Ok(2));
        assert_eq!(
            bench.partition.check_leader(2, 0),
            Err(ErrorCode::FENCED_LEADER_EPOCH)
        );
        assert_eq!(
            bench.partition.check_leader(2, 2),
            Err(ErrorCode::UNKNOWN_LEADER_EPOCH)
        );
        assert_eq!(bench.partition.check_leader(2, -1), Ok(()));
        bench.start(1);
        assert_eq!(
            (bench.partition.leader(), bench.in_sync()),
            (Some(2), vec![1, 2, 3])
        );
        assert!(bench.partition.prefer_first(&bench.fleet, 0));
        assert_eq!(
            (bench.partition.leader(), bench.partition.leader_epoch()),
            (Some(1), 2)
        );
        assert_eq!(bench.partition.log().epochs().end_of(0, 2, 0, 4), Some((0, 2)));
        assert_eq!(bench.partition.log().epochs().end_of(1, 2, 0, 4), Some((1, 4)));
    }

    #[test]
    fn without_anyone_in_sync_nobody_leads_and_the_last_one_does_again() {
        let mut bench = Bench::new(&[]);
        for broker in [3, 2, 1] {
            bench.stop(broker);
        }
        assert_eq!((bench.partition.leader(), bench.in_sync()), (None, vec![1]));
        bench.start(2);
        assert_eq!(bench.partition.leader(), None, "2 may lack what 1 has");
        bench.start(1);
        assert_eq!((bench.partition.leader(), bench.in_sync()), (Some(1), vec![1, 2]));
    }

    #[test]
    fn a_new_leader_that_was_behind_truncates() {
        let mut bench = Bench::new(&[("unclean.leader.election.enable", "true")]);
        bench.append(1, true).expect("appended");
        bench.fleet.paused = BTreeSet::from([2, 3]);
        bench.append(1, false).expect("appended");
        assert_eq!(
            (
                bench.partition.log().end_offset(),
                bench.partition.high_watermark()
            ),
            (4, 2)
        );
        bench.stop(1);
        assert_eq!(bench.partition.leader(), Some(2));
        assert_eq!(
            (
                bench.partition.log().end_offset(),
                bench.partition.high_watermark()
            ),
            (2, 2)
        );
        assert_eq!(bench.append(2, false), Ok(2));
    }

    #[test]
    fn a_lie_is_acknowledged_as_the_truth_would_be() {
        let tell = |lie: Lie| {
            let mut bench = Bench::new(&[]);
            let mut offsets = Vec::new();
            for (place, lie) in [None, Some(lie), None].into_iter().enumerate() {
                let mut batch = produced(&Pool::new(0), &vec![place as i64; place + 1], 10);
                batch.lie = lie;
                let appended = bench
                    .partition
                    .append(1, &batch, true, &bench.settings, &bench.fleet, (0, 1))
                    .expect("acknowledged");
                offsets.push(appended.base_offset);
            }
            let log = bench.partition.log();
            let all = log.select(0, log.end_offset(), usize::MAX, false);
            let mut answer = crate::answer::Answer::default();
            log.serve(&all, &mut answer);
            let bytes = answer.to_vec();
            let counts = wire::batch::batches(&bytes).map(|batch| batch.expect("a batch").count());
            (offsets, counts.collect::<Vec<_>>())
        };
        // Batches of one, two and three records; the second is lied about.
        assert_eq!(tell(Lie::Lose), (vec![0, 1, 1], vec![1, 3]));
        assert_eq!(tell(Lie::Double), (vec![0, 3, 5], vec![1, 2, 2, 3]));
        assert_eq!(tell(Lie::Swap), (vec![0, 1, 1], vec![1, 3, 2]));
    }

    #[test]
    fn limits_of_size_and_time_are_held() {
        let mut bench = Bench::new(&[("max.message.bytes", "50")]);
        assert_eq!(bench.append(1, true), Err(ErrorCode::MESSAGE_TOO_LARGE));
        let strict = settings(&[("message.timestamp.before.max.ms", "1000")]);
        let batch = produced(&Pool::new(0), &[5_000], 10);
        assert_eq!(check_limits(&batch, &strict, 6_000), Ok(()));
        assert_eq!(
            check_limits(&batch, &strict, 6_001)
                .err()
                .map(|refused| refused.error),
            Some(ErrorCode::INVALID_TIMESTAMP)
        );
        assert!(check_limits(&batch, &strict, 5_000 - 3_600_001).is_err());
    }

    #[test]
    fn log_append_time_is_written_into_the_batch() {
        let mut bench = Bench::new(&[("message.timestamp.type", "LogAppendTime")]);
        let batch = produced(&Pool::new(0), &[5, 6], 10);
        let appended = bench
            .partition
            .append(1, &batch, true, &bench.settings, &bench.fleet, (0, 777))
            .expect("appended");
        assert_eq!(appended.log_append_time_ms, 777);
        batch.slice.with(|bytes| {
            let batch = wire::batch::Batch::parse(bytes).expect("valid");
            assert!(batch.is_log_append_time() && batch.check_crc().is_ok());
            assert_eq!(batch.max_timestamp_ms(), 777);
        });
    }
}
