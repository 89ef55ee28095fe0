//! Client quotas: who may produce and fetch how many bytes a second at each broker (KIP-13, KIP-55), and create and delete
//! how many partitions a second in the cluster (KIP-599). No clock: time is handed in.
//!
//! A quota is set for an [`Entity`] (KIP-546). Which one holds for a client is decided for each [`Kind`] by itself, the
//! most particular first; the entity also says who shares it. Who has not logged in is the user [`ANONYMOUS`].
//!
//! The byte rate is that of the samples in the last `quota.window.num` windows of `quota.window.size.seconds`. A client
//! that exceeds its bound B by the rate R over the window W is held back for (R − B) / B · W: as long as it takes until the
//! rate is B again if nothing comes. Mutations are taken from a bucket of tokens that holds what the same number of windows
//! would refill; a client is held back while it is below zero.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// The user that clients are who have not logged in.
pub(crate) const ANONYMOUS: &str = "ANONYMOUS";

/// Whose requests are booked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// As whom it has logged in, or [`ANONYMOUS`].
    pub(crate) user: String,
    /// The name that it gives itself.
    pub(crate) client_id: String,
}

/// What a quota bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Partitions created and deleted a second.
    Mutations,
    /// Bytes of answers to Fetch a second, at each broker.
    Fetch,
    /// Bytes of Produce requests a second, at each broker.
    Produce,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Mutations, Kind::Fetch, Kind::Produce];

    /// Kafka's name for it.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Kind::Mutations => "controller_mutation_rate",
            Kind::Fetch => "consumer_byte_rate",
            Kind::Produce => "producer_byte_rate",
        }
    }

    pub(crate) fn of_key(key: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.key() == key)
    }
}

/// One part of an entity: a name, or all those for whom nothing is set by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Name {
    Default,
    Of(String),
}

/// Whom a quota is set for: a user, a client id, or both together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Entity {
    pub(crate) user: Option<Name>,
    pub(crate) client_id: Option<Name>,
}

impl Entity {
    /// Those that a client belongs to, the most particular first.
    fn all_of(client: &Client) -> [Entity; 8] {
        let user = || Some(Name::Of(client.user.clone()));
        let client = || Some(Name::Of(client.client_id.clone()));
        let default = || Some(Name::Default);
        let parts = [
            (user(), client()),
            (user(), default()),
            (user(), None),
            (default(), client()),
            (default(), default()),
            (default(), None),
            (None, client()),
            (None, default()),
        ];
        parts.map(|(user, client_id)| Entity { user, client_id })
    }
}

/// Who shares what a quota allows: all clients of a user, all with a client id, or those that are both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sharers {
    user: Option<String>,
    client_id: Option<String>,
}

impl Sharers {
    /// Those among whom a client shares the quota of an entity: a default holds for each of those that it stands for.
    fn of(entity: &Entity, client: &Client) -> Sharers {
        Sharers {
            user: entity.user.is_some().then(|| client.user.clone()),
            client_id: entity.client_id.is_some().then(|| client.client_id.clone()),
        }
    }
}

/// The windows over which a rate is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// How many, the one that is not over among them.
    pub(crate) count: u64,
    /// The length of one.
    pub(crate) ms: u64,
}

/// The quotas of a cluster, and what has been used of them.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    bounds: BTreeMap<Entity, BTreeMap<Kind, f64>>,
    rates: HashMap<(i32, Kind, Sharers), ByteRate>,
    buckets: HashMap<Sharers, Bucket>,
    /// What is no longer in use is looked for when there are more than this.
    tidied_above: usize,
}

/// Below this, what is no longer in use is not worth looking for.
const LEAST_TIDIED_ABOVE: usize = 1024;

impl Quotas {
    /// Whether there is any.
    pub(crate) fn are_set(&self) -> bool {
        !self.bounds.is_empty()
    }

    /// What is set, in the order of entities.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Entity, &BTreeMap<Kind, f64>)> {
        self.bounds.iter()
    }

    /// Sets a bound, which is finite and more than 0, or takes it away. What has been used counts on.
    pub(crate) fn set(&mut self, entity: &Entity, kind: Kind, bound: Option<f64>) {
        let bounds = self.bounds.entry(entity.clone()).or_default();
        match bound {
            Some(bound) => bounds.insert(kind, bound),
            None => bounds.remove(&kind),
        };
        if bounds.is_empty() {
            self.bounds.remove(entity);
        }
    }

    /// The bound that holds for a client, and who shares it.
    fn bound(&self, kind: Kind, client: &Client) -> Option<(Sharers, f64)> {
        if !self.are_set() {
            return None;
        }
        Entity::all_of(client).iter().find_map(|entity| {
            let bound = *self.bounds.get(entity)?.get(&kind)?;
            Some((Sharers::of(entity, client), bound))
        })
    }

    /// The most bytes that a client can be served at once without being held back for it, if nothing came before.
    pub(crate) fn most_at_once(&self, kind: Kind, client: &Client, windows: Windows) -> Option<u64> {
        let (_, bound) = self.bound(kind, client)?;
        let full = windows.count.saturating_sub(1) * windows.ms;
        Some((bound * full as f64 / 1e3) as u64)
    }

    /// Books bytes on a client at a broker; gives for how many ms it is to be held back.
    pub(crate) fn book(
        &mut self,
        (broker, client): (i32, &Client),
        kind: Kind,
        bytes: usize,
        windows: Windows,
        now: u64,
    ) -> u32 {
        let Some((sharers, bound)) = self.bound(kind, client) else {
            return 0;
        };
        let now_ms = now / 1_000_000;
        self.tidy(windows, now_ms);
        let rate = self.rates.entry((broker, kind, sharers)).or_default();
        rate.record(bytes as f64, windows, now_ms);
        rate.excess_ms(bound, windows, now_ms)
    }

    /// Takes back what was booked just now, for an answer that is not given after all.
    pub(crate) fn unbook(
        &mut self,
        (broker, client): (i32, &Client),
        kind: Kind,
        bytes: usize,
        windows: Windows,
        now: u64,
    ) {
        if let Some((sharers, _)) = self.bound(kind, client)
            && let Some(rate) = self.rates.get_mut(&(broker, kind, sharers))
        {
            rate.record(-(bytes as f64), windows, now / 1_000_000);
        }
    }

    /// Books so many partitions that are created or deleted.
    ///
    /// # Errors
    /// If `is_strict` and the client may change nothing for so many ms; then nothing is booked. Otherwise it may, and is to
    /// be held back for the ms that come back.
    pub(crate) fn mutate(
        &mut self,
        client: &Client,
        partitions: usize,
        is_strict: bool,
        windows: Windows,
        now: u64,
    ) -> Result<u32, u32> {
        let Some((sharers, bound)) = self.bound(Kind::Mutations, client) else {
            return Ok(0);
        };
        let now_ms = now / 1_000_000;
        self.tidy(windows, now_ms);
        let fresh = Bucket::full(bound, windows, now_ms);
        let bucket = self.buckets.entry(sharers).or_insert(fresh);
        bucket.refill(bound, windows, now_ms);
        if is_strict {
            return match bucket.debt_ms(bound) {
                0 => {
                    bucket.tokens -= partitions as f64;
                    Ok(0)
                }
                debt_ms => Err(debt_ms),
            };
        }
        bucket.tokens -= partitions as f64;
        Ok(bucket.debt_ms(bound))
    }

    /// Forgets who has used nothing for so long that it makes no difference any more.
    fn tidy(&mut self, windows: Windows, now_ms: u64) {
        if self.rates.len() + self.buckets.len() <= self.tidied_above.max(LEAST_TIDIED_ABOVE) {
            return;
        }
        self.rates.retain(|_, rate| {
            rate.forget(windows, now_ms);
            !rate.samples.is_empty()
        });
        let bounds: HashMap<Sharers, f64> = self
            .buckets
            .keys()
            .filter_map(|sharers| {
                let client = Client {
                    user: sharers.user.clone().unwrap_or_default(),
                    client_id: sharers.client_id.clone().unwrap_or_default(),
                };
                let (found, bound) = self.bound(Kind::Mutations, &client)?;
                (found == *sharers).then_some((found, bound))
            })
            .collect();
        self.buckets.retain(|sharers, bucket| {
            // Without a bound it is not asked for; with one, a full bucket is as good as a new one.
            bounds.get(sharers).is_some_and(|&bound| {
                bucket.refill(bound, windows, now_ms);
                bucket.tokens < Bucket::full(bound, windows, now_ms).tokens
            })
        });
        self.tidied_above = 2 * (self.rates.len() + self.buckets.len());
    }
}

/// Bytes that came in one window.
#[derive(Clone, Copy, Debug)]
struct Sample {
    began_ms: u64,
    last_ms: u64,
    bytes: f64,
}

/// A rate over the last windows, as Kafka's metrics take it: a window begins with the first event after the end of the one
/// before, and counts for as long as its last event is within the whole span.
#[derive(Debug, Default)]
struct ByteRate {
    /// The oldest first.
    samples: VecDeque<Sample>,
}

impl ByteRate {
    fn record(&mut self, bytes: f64, windows: Windows, now_ms: u64) {
        match self.samples.back_mut() {
            Some(current) if now_ms.saturating_sub(current.began_ms) < windows.ms => {
                current.bytes += bytes;
                current.last_ms = now_ms;
            }
            _ => {
                // One more than the windows, since the oldest may still reach into the span.
                if self.samples.len() as u64 > windows.count {
                    self.samples.pop_front();
                }
                self.samples.push_back(Sample {
                    began_ms: now_ms,
                    last_ms: now_ms,
                    bytes,
                });
            }
        }
    }

    /// Drops samples without an event in the whole span.
    fn forget(&mut self, windows: Windows, now_ms: u64) {
        let span_ms = windows.count * windows.ms;
        self.samples
            .retain(|sample| now_ms.saturating_sub(sample.last_ms) < span_ms);
    }

    /// The time over which the rate is taken: since the oldest sample began, and at least all windows but the one that is
    /// not over, in which nothing came if there are no samples of them.
    fn window_ms(&self, windows: Windows, now_ms: u64) -> u64 {
        let oldest_ms = self.samples.front().map_or(now_ms, |oldest| oldest.began_ms);
        let elapsed_ms = now_ms.saturating_sub(oldest_ms);
        let missing = windows
            .count
            .saturating_sub(1)
            .saturating_sub(elapsed_ms / windows.ms.max(1));
        (elapsed_ms + missing * windows.ms).max(1)
    }

    /// For how long nothing may come so that the rate is `bound` again; 0 if it is not above.
    fn excess_ms(&mut self, bound: f64, windows: Windows, now_ms: u64) -> u32 {
        self.forget(windows, now_ms);
        let window_ms = self.window_ms(windows, now_ms) as f64;
        let bytes: f64 = self.samples.iter().map(|sample| sample.bytes).sum();
        let rate = bytes / window_ms * 1e3;
        if rate <= bound {
            return 0;
        }
        whole_ms((rate - bound) / bound * window_ms)
    }
}

/// Tokens of which each lets a client create or delete one partition.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    refilled_ms: u64,
}

impl Bucket {
    fn full(bound: f64, windows: Windows, now_ms: u64) -> Bucket {
        Bucket {
            tokens: bound * (windows.count * windows.ms) as f64 / 1e3,
            refilled_ms: now_ms,
        }
    }

    fn refill(&mut self, bound: f64, windows: Windows, now_ms: u64) {
        let since_ms = now_ms.saturating_sub(self.refilled_ms);
        let most = Bucket::full(bound, windows, now_ms);
        self.tokens = most.tokens.min(self.tokens + bound * since_ms as f64 / 1e3);
        self.refilled_ms = now_ms.max(self.refilled_ms);
    }

    /// When there will be no debt any more.
    fn debt_ms(&self, bound: f64) -> u32 {
        if self.tokens >= 0.0 {
            return 0;
        }
        whole_ms(-self.tokens / bound * 1e3)
    }
}

/// At most what the protocol's field holds. Casts saturate.
fn whole_ms(ms: f64) -> u32 {
    (ms.round() as u32).min(i32::MAX as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOWS: Windows = Windows { count: 11, ms: 1000 };
    const MS: u64 = 1_000_000;

    fn client(user: &str, client_id: &str) -> Client {
        Client {
            user: user.to_owned(),
            client_id: client_id.to_owned(),
        }
    }

    /// One that has not logged in.
    fn nobody(client_id: &str) -> Client {
        client(ANONYMOUS, client_id)
    }

    fn entity(user: Option<&str>, client_id: Option<&str>) -> Entity {
        let name = |text: &str| match text {
            "*" => Name::Default,
            text => Name::Of(text.to_owned()),
        };
        Entity {
            user: user.map(name),
            client_id: client_id.map(name),
        }
    }

    fn quotas(set: &[(Option<&str>, Option<&str>, Kind, f64)]) -> Quotas {
        let mut quotas = Quotas::default();
        for (user, client_id, kind, bound) in set {
            quotas.set(&entity(*user, *client_id), *kind, Some(*bound));
        }
        quotas
    }

    /// (R − B) / B · W with R = 20 MB / 10 s, B = 1 MB/s and W = 10 s, as KIP-13 has it.
    #[test]
    fn a_client_is_held_back_until_its_rate_is_the_bound_again() {
        let mut quotas = quotas(&[(None, Some("c"), Kind::Produce, 1e6)]);
        let mut book = |bytes, now| quotas.book((1, &nobody("c")), Kind::Produce, bytes, WINDOWS, now);
        assert_eq!(book(10_000_000, 0), 0, "all windows but one may be used at once");
        assert_eq!(book(10_000_000, 0), 10_000);
        // The windows that were empty before it came are no longer counted, and the bytes still are, until all is over.
        assert_eq!(book(0, 10_000 * MS), 10_000);
        assert_eq!(book(0, 11_000 * MS), 0);
    }

    #[test]
    fn the_most_particular_entity_holds_and_says_who_shares() {
        let all = [
            (Some(ANONYMOUS), Some("c"), 1.0),
            (Some(ANONYMOUS), Some("*"), 2.0),
            (Some(ANONYMOUS), None, 3.0),
            (Some("*"), Some("c"), 4.0),
            (Some("*"), Some("*"), 5.0),
            (Some("*"), None, 6.0),
            (None, Some("c"), 7.0),
            (None, Some("*"), 8.0),
        ];
        for from in 0..all.len() {
            let set: Vec<_> = all[from..]
                .iter()
                .map(|&(user, client_id, bound)| (user, client_id, Kind::Fetch, bound))
                .collect();
            let quotas = quotas(&set);
            let (user, client_id, bound) = all[from];
            let expected = Sharers {
                user: user.map(|_| ANONYMOUS.to_owned()),
                client_id: client_id.map(|_| "c".to_owned()),
            };
            assert_eq!(quotas.bound(Kind::Fetch, &nobody("c")), Some((expected, bound)));
            assert_eq!(quotas.bound(Kind::Produce, &nobody("c")), None);
        }
        assert_eq!(
            quotas(&[(None, Some("d"), Kind::Fetch, 1.0)]).bound(Kind::Fetch, &nobody("c")),
            None
        );
    }

    #[test]
    fn defaults_hold_for_each_and_users_share() {
        let mut each = quotas(&[(None, Some("*"), Kind::Produce, 1e3)]);
        assert!(each.book((1, &nobody("a")), Kind::Produce, 20_000, WINDOWS, 0) > 0);
        assert_eq!(each.book((1, &nobody("b")), Kind::Produce, 10_000, WINDOWS, 0), 0);
        assert_eq!(
            each.book((2, &nobody("a")), Kind::Produce, 10_000, WINDOWS, 0),
            0,
            "each broker has its own"
        );
        let mut of_users = quotas(&[
            (Some("alice"), None, Kind::Produce, 1e3),
            (Some("*"), None, Kind::Produce, 2e3),
        ]);
        let mut held_back = |user, client_id| {
            of_users.book((1, &client(user, client_id)), Kind::Produce, 15_000, WINDOWS, 0) > 0
        };
        assert!(held_back("alice", "a"));
        assert!(!held_back("bob", "a"), "the default allows twice as much");
        assert!(!held_back(ANONYMOUS, "a"), "and each has it for himself");
        assert!(held_back("bob", "b"), "with whatever client id");
        let mut shared = quotas(&[(Some(ANONYMOUS), None, Kind::Produce, 1e3)]);
        assert_eq!(
            shared.book((1, &nobody("a")), Kind::Produce, 10_000, WINDOWS, 0),
            0
        );
        assert_eq!(
            shared.book((1, &nobody("b")), Kind::Produce, 10_000, WINDOWS, 0),
            10_000
        );
    }

    /// Whoever sends again when it may: what is sent over an hour, by request size. A window begins with an event, so that
    /// of n requests in a window there are n − 1 pauses: the share 1/n is what the rate is below the bound.
    #[test]
    fn the_sustained_rate_is_the_bound() {
        for (bytes, bound) in [
            (16_384, 1e6),
            (1_048_576, 100e6),
            (100_000, 10e6),
            (16_384, 333_333.0),
        ] {
            let mut quotas = quotas(&[(None, Some("c"), Kind::Produce, bound)]);
            let (mut now_ms, mut sent) = (0, 0.0);
            // Its answers take a millisecond.
            while now_ms < 3_600_000 {
                sent += bytes as f64;
                now_ms +=
                    1 + u64::from(quotas.book((1, &nobody("c")), Kind::Produce, bytes, WINDOWS, now_ms * MS));
            }
            let found = sent / 3600.0 / bound;
            assert!((found - 1.0).abs() < 0.01, "{bytes} bytes at {bound}: {found}");
        }
    }

    #[test]
    fn an_idle_client_has_all_windows_again() {
        let mut quotas = quotas(&[(None, Some("c"), Kind::Produce, 1e6)]);
        assert!(quotas.book((1, &nobody("c")), Kind::Produce, 20_000_000, WINDOWS, 0) > 0);
        assert_eq!(
            quotas.book((1, &nobody("c")), Kind::Produce, 10_000_000, WINDOWS, 11_000 * MS),
            0
        );
    }

    #[test]
    fn what_is_taken_back_does_not_count() {
        let mut quotas = quotas(&[(None, Some("c"), Kind::Fetch, 1e6)]);
        assert_eq!(
            quotas.most_at_once(Kind::Fetch, &nobody("c"), WINDOWS),
            Some(10_000_000)
        );
        assert!(quotas.book((1, &nobody("c")), Kind::Fetch, 30_000_000, WINDOWS, 0) > 0);
        quotas.unbook((1, &nobody("c")), Kind::Fetch, 30_000_000, WINDOWS, 0);
        assert_eq!(
            quotas.book((1, &nobody("c")), Kind::Fetch, 10_000_000, WINDOWS, 0),
            0
        );
    }

    #[test]
    fn mutations_take_tokens_and_wait_for_new_ones() {
        let mut quotas = quotas(&[(None, Some("c"), Kind::Mutations, 2.0)]);
        let mut strictly =
            |partitions, ms: u64| quotas.mutate(&nobody("c"), partitions, true, WINDOWS, ms * MS);
        // 22 tokens: the first to go below zero may, and the next waits until all of them are there again.
        assert_eq!(strictly(20, 0), Ok(0));
        assert_eq!(strictly(10, 0), Ok(0));
        assert_eq!(strictly(1, 0), Err(4000));
        assert_eq!(strictly(1, 3000), Err(1000));
        assert_eq!(strictly(1, 4000), Ok(0));
        assert_eq!(
            quotas.mutate(&nobody("c"), 3, false, WINDOWS, 4000 * MS),
            Ok(2000)
        );
        assert_eq!(quotas.mutate(&nobody("other"), 100, true, WINDOWS, 0), Ok(0));
    }

    #[test]
    fn what_makes_no_difference_any_more_is_forgotten() {
        let mut quotas = quotas(&[
            (None, Some("*"), Kind::Produce, 1e3),
            (None, Some("*"), Kind::Mutations, 1.0),
        ]);
        for number in 0..50_000_u64 {
            let client = nobody(&number.to_string());
            let now = number * 100 * MS;
            quotas.book((1, &client), Kind::Produce, 1, WINDOWS, now);
            assert_eq!(quotas.mutate(&client, 1, true, WINDOWS, now), Ok(0));
        }
        let kept = quotas.rates.len() + quotas.buckets.len();
        assert!(kept <= 2 * LEAST_TIDIED_ABOVE, "{kept}");
    }

    #[test]
    fn a_bound_that_is_taken_away_leaves_nothing() {
        let mut quotas = quotas(&[(None, Some("c"), Kind::Produce, 1.0)]);
        quotas.set(&entity(None, Some("c")), Kind::Produce, None);
        assert!(!quotas.are_set());
        assert_eq!(
            quotas.book((1, &nobody("c")), Kind::Produce, 1 << 30, WINDOWS, 0),
            0
        );
    }
}
