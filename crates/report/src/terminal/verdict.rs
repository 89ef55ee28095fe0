//! The verdict with the figures it rests on.

use model::result::{LimitedBy, RunResult};

use crate::wrap::wrapped;

/// What held the run back, as the end of a sentence.
pub(super) fn limit_words(limited_by: LimitedBy) -> &'static str {
    match limited_by {
        LimitedBy::Generator => "limited by the load generator",
        LimitedBy::Quota => "limited by a client quota",
        LimitedBy::Cluster => "limited by the cluster",
        LimitedBy::Nothing => "limited by nothing but the rate asked for",
        LimitedBy::Unknown => "limited by what cannot be told",
    }
}

pub(super) fn section(result: &RunResult) -> String {
    let Some(verdict) = &result.verdict else {
        return String::new();
    };
    let sustained = match verdict.sustained {
        Some(true) => "sustained, ",
        Some(false) => "not sustained, ",
        None => "",
    };
    let mut text = wrapped(
        "Verdict   ",
        &format!("{sustained}{}", limit_words(verdict.limited_by)),
    );
    for evidence in &verdict.evidence {
        text.push_str(&wrapped("  - ", &evidence.text));
    }
    text
}
