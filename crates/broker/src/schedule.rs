//! What a script does to whole brokers: when each goes down, comes back, stops to fetch, or leaves the in-sync replicas.

use model::broker_script::BrokerScript;
use std::time::Duration;

/// Something that is done to a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It goes down.
    Down(i32),
    /// It comes back.
    Up(i32),
    /// Its followers stop to fetch.
    FollowersStop(i32),
    /// They fetch again.
    FollowersGoOn(i32),
    /// It leaves the in-sync replicas at once, wherever it follows.
    IsrShrinks(i32),
    /// It comes back to them.
    IsrGrows(i32),
}

/// The next changes after a time since the script began, with theirs; none if there are no more. Those of one time come
/// together, in the order of the rules, what ends before what begins.
pub(crate) fn next_changes(
    script: &BrokerScript,
    after: Option<Duration>,
) -> Option<(Duration, Vec<Change>)> {
    let is_later = |at: &Duration| after.is_none_or(|after| *at > after);
    let mut next: Option<(Duration, Vec<(u8, Change)>)> = None;
    for rule in &script.rules {
        let effect = &rule.effect;
        let pair = match (effect.down, effect.follower_stops, effect.isr_shrinks) {
            (Some(broker), ..) => (Change::Down(broker), Change::Up(broker)),
            (_, Some(broker), _) => (Change::FollowersStop(broker), Change::FollowersGoOn(broker)),
            (.., Some(broker)) => (Change::IsrShrinks(broker), Change::IsrGrows(broker)),
            (None, None, None) => continue,
        };
        let begins = begins_after(rule.when.from, rule.when.every, after);
        let ends = rule
            .when
            .length
            .and_then(|length| begins_after(rule.when.from + length, rule.when.every, after));
        for (at, order, change) in [(ends, 0, pair.1), (begins, 1, pair.0)] {
            let Some(at) = at.filter(is_later) else { continue };
            match &mut next {
                Some((soonest, changes)) if *soonest == at => changes.push((order, change)),
                Some((soonest, _)) if *soonest < at => {}
                _ => next = Some((at, vec![(order, change)])),
            }
        }
    }
    let (at, mut changes) = next?;
    changes.sort_by_key(|(order, _)| *order);
    Some((at, changes.into_iter().map(|(_, change)| change).collect()))
}

/// The first of `first`, `first + every`, … that is after `after`.
fn begins_after(first: Duration, every: Option<Duration>, after: Option<Duration>) -> Option<Duration> {
    let Some(after) = after else { return Some(first) };
    if first > after {
        return Some(first);
    }
    let every = every.filter(|every| !every.is_zero())?;
    let rounds = (after - first).as_nanos() / every.as_nanos() + 1;
    let beyond = u64::try_from(rounds * every.as_nanos()).ok()?;
    Some(first + Duration::from_nanos(beyond))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(rules: &str, count: usize) -> Vec<(u64, Vec<Change>)> {
        let (apis, errors) = crate::rig::known_names();
        let script = BrokerScript::parse("s.yaml", &format!("rules:\n{rules}"), &apis, &errors).unwrap();
        let (mut after, mut all) = (None, Vec::new());
        while all.len() < count
            && let Some((at, changes)) = next_changes(&script, after)
        {
            all.push((at.as_secs(), changes));
            after = Some(at);
        }
        all
    }

    #[test]
    fn a_broker_goes_down_and_comes_back_again_and_again() {
        use Change::{Down, Up};
        let found = changes("  - { down: 2, from: 10s, for: 5s, every: 30s }\n", 4);
        let expected = [
            (10, vec![Down(2)]),
            (15, vec![Up(2)]),
            (40, vec![Down(2)]),
            (45, vec![Up(2)]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_ends_comes_before_what_begins_and_other_rules_change_nothing() {
        use Change::{Down, FollowersGoOn, FollowersStop, IsrGrows, IsrShrinks, Up};
        let rules = "  - { delay: 1ms }\n  - { down: 1, from: 20s }\n  - { down: 2, for: 20s }\n\
                     \x20 - { follower_stops: 3, from: 5s, for: 1s }\n\
                     \x20 - { isr_shrinks: 1, from: 6s, for: 14s }\n";
        let expected = [
            (0, vec![Down(2)]),
            (5, vec![FollowersStop(3)]),
            (6, vec![FollowersGoOn(3), IsrShrinks(1)]),
            (20, vec![Up(2), IsrGrows(1), Down(1)]),
        ];
        assert_eq!(changes(rules, 10), expected);
    }
}
