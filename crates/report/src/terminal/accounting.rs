//! Where every record went, over the measured phase and over the whole run.

use model::result::{Consumed, RunResult, Totals};

use super::{Manner, loaded_ns, measured};
use crate::figures;
use crate::wrap::{cut, wrapped};

/// Groups shown one by one; of more, the least and the most are shown.
const MOST_GROUPS: usize = 8;
const LABEL: usize = 34;
const COLUMN: usize = 22;

pub(super) fn section(result: &RunResult) -> String {
    let manner = Manner::of(result);
    let table = Table {
        measured: measured(result),
        whole_run: &result.whole_run,
        text: String::new(),
    };
    let mut text = table.head(result);
    text.push_str(&table.rows(manner));
    for note in notes(result, manner) {
        text.push_str(&wrapped("  ", &note));
    }
    text
}

struct Table<'a> {
    measured: Option<&'a Totals>,
    whole_run: &'a Totals,
    text: String,
}

impl Table<'_> {
    fn head(&self, result: &RunResult) -> String {
        let phase = result.measured();
        let length = phase.map(|phase| {
            let short = if phase.short { " (short)" } else { "" };
            format!("measured, {}{short}", figures::length(phase.duration_ns()))
        });
        let whole = loaded_ns(result).map(|ns| format!("whole run, {}", figures::length(ns)));
        let (measured, whole) = (
            length.unwrap_or_default(),
            whole.unwrap_or_else(|| "whole run".to_owned()),
        );
        format!("{:<LABEL$}{measured:>COLUMN$}{whole:>COLUMN$}\n", "Records")
    }

    fn rows(mut self, manner: Manner) -> String {
        if manner.produces {
            self.row("due", |totals| totals.due_count);
            self.row("unsent", |totals| totals.unsent_count);
            self.row("sent", |totals| Some(totals.sent_count));
            if manner.acks_0 {
                self.row("written, no broker ack", |totals| totals.written_count);
            }
            self.row("acknowledged", |totals| totals.acknowledged_count);
            self.row("refused", |totals| Some(totals.refused_count));
            self.row("unknown", |totals| Some(totals.unknown_count));
            self.row("unfinished", |totals| Some(totals.unfinished_count));
            self.row("confirmed by the brokers", |totals| totals.confirmed_count);
            self.transactions();
        }
        self.consumed();
        let verification = |pick: fn(&model::result::Verification) -> u64| {
            move |totals: &Totals| totals.verification.as_ref().map(pick)
        };
        self.row("lost", |totals| totals.verification?.lost_count);
        if self
            .whole_run
            .verification
            .is_some_and(|found| found.unread_count.is_some_and(|count| count > 0))
        {
            self.row("not read in time", |totals| totals.verification?.unread_count);
        }
        if self
            .whole_run
            .verification
            .is_some_and(|found| found.expired_count.is_some_and(|count| count > 0))
        {
            self.row("gone before they were read", |totals| {
                totals.verification?.expired_count
            });
        }
        if self
            .whole_run
            .verification
            .is_some_and(|found| found.committed_ahead_count.is_some_and(|count| count > 0))
        {
            self.row("committed, not given", |totals| {
                totals.verification?.committed_ahead_count
            });
        }
        self.row("duplicated", verification(|found| found.duplicated_count));
        self.row("reordered", verification(|found| found.reordered_count));
        self.row("corrupt", verification(|found| found.corrupt_count));
        self.row("foreign", verification(|found| found.foreign_count));
        if self
            .whole_run
            .verification
            .is_some_and(|found| found.redelivered_count > 0)
        {
            self.row("redelivered", verification(|found| found.redelivered_count));
        }
        self.text
    }

    fn row(&mut self, label: &str, pick: impl Fn(&Totals) -> Option<u64>) {
        let measured = figures::count_or_dash(self.measured.and_then(&pick));
        let whole_run = figures::count_or_dash(pick(self.whole_run));
        let label = cut(&format!("  {label}"), LABEL);
        self.text.push_str(&format!(
            "{label:<LABEL$}{measured:>COLUMN$}{whole_run:>COLUMN$}\n"
        ));
    }

    fn transactions(&mut self) {
        let Some(whole) = self.whole_run.transactions else {
            return;
        };
        self.row("of these in aborted transactions", |totals| {
            Some(totals.transactions?.aborted_records_count)
        });
        if whole.undecided_count.is_some() {
            self.row("in undecided transactions", |totals| {
                totals.transactions?.undecided_records_count
            });
        }
        self.row("transactions committed", |totals| {
            Some(totals.transactions?.committed_count)
        });
        self.row("transactions aborted", |totals| {
            Some(totals.transactions?.aborted_count)
        });
        if whole.undecided_count.is_some() {
            self.row("transactions undecided", |totals| {
                totals.transactions?.undecided_count
            });
        }
    }

    fn consumed(&mut self) {
        let groups: Vec<String> = self
            .whole_run
            .consumed
            .iter()
            .map(|group| group.group.clone())
            .collect();
        match groups.len() {
            0 => self.row("consumed", |_| None),
            1 => self.row("consumed", |totals| Some(totals.consumed.first()?.records_count)),
            2..=MOST_GROUPS => {
                for group in groups {
                    let of_group = |consumed: &&Consumed| consumed.group == group;
                    self.row(&format!("consumed by {group}"), |totals| {
                        Some(totals.consumed.iter().find(of_group)?.records_count)
                    });
                }
            }
            many => {
                let counts = |totals: &Totals| {
                    totals
                        .consumed
                        .iter()
                        .map(|group| group.records_count)
                        .collect::<Vec<_>>()
                };
                self.row(&format!("consumed, least of {many} groups"), |totals| {
                    counts(totals).into_iter().min()
                });
                self.row(&format!("consumed, most of {many} groups"), |totals| {
                    counts(totals).into_iter().max()
                });
            }
        }
    }
}

/// Why there are dashes, and what does not add up.
fn notes(result: &RunResult, manner: Manner) -> Vec<String> {
    let mut notes = Vec::new();
    let whole_run = &result.whole_run;
    if manner.closed_loop {
        notes.push("due, unsent: at rate max records have no schedule".to_owned());
    }
    if manner.acks_0 {
        notes.push("acknowledged: with acks=0 no broker acknowledges a record".to_owned());
    }
    if whole_run.transactions.is_some() && whole_run.confirmed_count.is_some() {
        notes.push("confirmed: the markers that end transactions are taken off".to_owned());
    }
    if manner.produces && whole_run.confirmed_count.is_none() {
        notes.push("confirmed: end offsets were not sampled, or others write to these topics".to_owned());
    }
    if !manner.consumes {
        notes.push("consumed, lost to foreign: nothing was read back".to_owned());
    } else if whole_run.verification.is_none() {
        notes.push("lost to foreign: records were not verified".to_owned());
    }
    if let Some(gap) = gap(whole_run) {
        notes.push(gap);
    }
    notes
}

/// Where the brokers' end offsets contradict what the client believes.
fn gap(totals: &Totals) -> Option<String> {
    let confirmed = totals.confirmed_count?;
    if let Some(written) = totals.written_count.filter(|&written| written > confirmed) {
        let gap = figures::count(written - confirmed);
        return Some(format!(
            "! {gap} records were written and are not in the log: with acks=0 no producer is told"
        ));
    }
    if let Some(acknowledged) = totals
        .acknowledged_count
        .filter(|&acknowledged| acknowledged > confirmed)
    {
        let gap = figures::count(acknowledged - confirmed);
        return Some(format!(
            "! {gap} records were acknowledged and are not in the log by its end offsets"
        ));
    }
    let believed =
        totals.acknowledged_count.or(totals.written_count)? + totals.unknown_count + totals.unfinished_count;
    (confirmed > believed).then(|| {
        let gap = figures::count(confirmed - believed);
        format!("! {gap} more records are in the log than can have been sent: duplicates, or others write to these topics")
    })
}
