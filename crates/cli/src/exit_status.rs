//! With what status the process ends: one table for all commands.

use model::result::{RunResult, State};

/// The status of a process that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// What was asked for was done.
    Done,
    /// It could not be done, or records of a run were not acknowledged.
    Failed,
    /// The command line or a file is wrong; nothing was started.
    Usage,
    /// A term of the objectives was not kept.
    ObjectiveMissed,
    /// Consumers found records lost, duplicated, reordered or corrupt.
    Damaged,
    /// SIGINT or SIGTERM ended it early.
    Interrupted,
}

/// The table as help and README show it.
pub const TABLE: &str = "\
Exit status:
    0  done
    1  failed, or some records were refused, unknown or unfinished
    2  usage: the command line or a file is wrong, and nothing was started
    3  an objective was missed
    4  records were lost, duplicated, reordered or corrupt
  130  interrupted by SIGINT or SIGTERM";

impl ExitStatus {
    /// The number that the shell sees.
    pub const fn code(self) -> u8 {
        match self {
            ExitStatus::Done => 0,
            ExitStatus::Failed => 1,
            ExitStatus::Usage => 2,
            ExitStatus::ObjectiveMissed => 3,
            ExitStatus::Damaged => 4,
            ExitStatus::Interrupted => 130,
        }
    }

    /// The status that a run's result stands for. Damage outweighs all else: it is what must not be overlooked.
    pub fn of_result(result: &RunResult) -> ExitStatus {
        let totals = &result.whole_run;
        if totals.verification.is_some_and(|found| found.found_damage()) {
            return ExitStatus::Damaged;
        }
        match result.status.state {
            State::Partial => ExitStatus::Interrupted,
            State::Failed => ExitStatus::Failed,
            State::Complete if totals.refused_count + totals.unknown_count + totals.unfinished_count > 0 => {
                ExitStatus::Failed
            }
            State::Complete if result.objectives.iter().any(|outcome| !outcome.kept) => {
                ExitStatus::ObjectiveMissed
            }
            State::Complete => ExitStatus::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::result::{ObjectiveOutcome, Totals, Verification};

    fn result(state: State, whole_run: Totals) -> RunResult {
        let text = include_str!("../../../docs/sample-result.json");
        let mut result = RunResult::from_json(text).expect("the sample is a result");
        result.status.state = state;
        result.whole_run = whole_run;
        result.objectives.clear();
        result
    }

    #[test]
    fn a_missed_objective_has_a_status_of_its_own_below_failures() {
        let missed = ObjectiveOutcome {
            objective: "p99 < 20ms".to_owned(),
            measured: Some(3e7),
            unit: "ns".to_owned(),
            kept: false,
        };
        for (refused_count, kept, expected) in [
            (0, false, ExitStatus::ObjectiveMissed),
            (0, true, ExitStatus::Done),
            (1, false, ExitStatus::Failed),
        ] {
            let totals = Totals {
                refused_count,
                ..Totals::default()
            };
            let mut result = result(State::Complete, totals);
            result.objectives = vec![ObjectiveOutcome {
                kept,
                ..missed.clone()
            }];
            assert_eq!(ExitStatus::of_result(&result), expected);
        }
    }

    #[test]
    fn a_run_whose_records_all_arrived_is_done() {
        let totals = Totals {
            sent_count: 10,
            acknowledged_count: Some(10),
            ..Totals::default()
        };
        assert_eq!(
            ExitStatus::of_result(&result(State::Complete, totals)),
            ExitStatus::Done
        );
    }

    #[test]
    fn a_rate_that_was_not_reached_is_no_failure() {
        let totals = Totals {
            due_count: Some(10),
            unsent_count: Some(9),
            sent_count: 1,
            ..Totals::default()
        };
        assert_eq!(
            ExitStatus::of_result(&result(State::Complete, totals)),
            ExitStatus::Done
        );
    }

    #[test]
    fn records_that_were_not_acknowledged_are_a_failure() {
        let failures = [
            Totals {
                refused_count: 1,
                ..Totals::default()
            },
            Totals {
                unknown_count: 1,
                ..Totals::default()
            },
            Totals {
                unfinished_count: 1,
                ..Totals::default()
            },
        ];
        for totals in failures {
            assert_eq!(
                ExitStatus::of_result(&result(State::Complete, totals)),
                ExitStatus::Failed
            );
        }
    }

    #[test]
    fn an_interrupted_run_says_so_unless_records_are_damaged() {
        assert_eq!(
            ExitStatus::of_result(&result(State::Partial, Totals::default())),
            ExitStatus::Interrupted
        );
        let verification = Some(Verification {
            lost_count: Some(1),
            ..Verification::default()
        });
        let totals = Totals {
            verification,
            ..Totals::default()
        };
        assert_eq!(
            ExitStatus::of_result(&result(State::Partial, totals)),
            ExitStatus::Damaged
        );
    }

    #[test]
    fn the_readme_shows_the_table_of_the_help() {
        let readme = include_str!("../../../README.md");
        for row in TABLE.lines().skip(1) {
            assert!(readme.contains(row.trim()), "README.md lacks {row:?}");
        }
    }
}
