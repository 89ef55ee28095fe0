//! What must hold of the records of every result, whatever befell the brokers.

use serde_json::Value;

/// What does not hold of a result that must, however the brokers fared.
pub fn broken(result: &Value, is_transactional: bool) -> Vec<String> {
    let mut broken = unaccounted(result, is_transactional);
    let mut must = |holds: bool, what: &str| {
        if !holds {
            broken.push(what.to_owned());
        }
    };
    let totals = &result["whole_run"];
    must(
        result["status"]["state"] == "complete",
        "the run did not complete",
    );
    must(
        totals["confirmed_count"].is_u64(),
        "the brokers' end offsets were not known",
    );
    let found = &totals["verification"];
    for name in [
        "lost_count",
        "unread_count",
        "duplicated_count",
        "reordered_count",
        "corrupt_count",
        "foreign_count",
    ] {
        must(found[name] == 0, &format!("{name} is 0"));
    }
    let ahead = &found["committed_ahead_count"];
    must(ahead == 0, "committed offsets are not ahead of what was given");
    broken
}

/// What does not add up of the records of a result; the brokers' end offsets only where they are known.
pub fn unaccounted(result: &Value, is_transactional: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let totals = &result["whole_run"];
    let count = |name: &str| totals[name].as_u64().unwrap_or(0);
    let mut must = |holds: bool, what: &str| {
        if !holds {
            broken.push(what.to_owned());
        }
    };
    must(
        count("due_count") == count("unsent_count") + count("sent_count"),
        "due = unsent + sent",
    );
    let open = count("unknown_count") + count("unfinished_count");
    must(
        count("sent_count") == count("acknowledged_count") + count("refused_count") + open,
        "sent = acknowledged + refused + unknown + unfinished",
    );
    if let Some(confirmed) = totals["confirmed_count"].as_u64() {
        must(
            count("acknowledged_count") <= confirmed,
            "what was acknowledged is in the log (acknowledged ≤ confirmed)",
        );
        // A transaction that is aborted may leave in the log what was refused of it; and of markers that a coordinator wrote again
        // the result says so.
        let aborted = totals["transactions"]["aborted_count"].as_u64().unwrap_or(0) > 0;
        let warnings = result["warnings"].as_array().map_or(&[][..], Vec::as_slice);
        let is_told = |code: &str| warnings.iter().any(|warning| warning["code"] == code);
        must(
            confirmed <= count("acknowledged_count") + open
                || (is_transactional && (aborted || is_told("markers-repeated"))),
            "nothing is in the log twice (confirmed ≤ acknowledged + unknown + unfinished)",
        );
    }
    must(count("sent_count") > 0, "anything was sent at all");
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_hold_is_named() {
        let sound = serde_json::json!({
            "status": { "state": "complete" },
            "whole_run": {
                "due_count": 10, "unsent_count": 1, "sent_count": 9, "acknowledged_count": 8, "refused_count": 0,
                "unknown_count": 1, "unfinished_count": 0, "confirmed_count": 9,
                "verification": {
                    "lost_count": 0, "unread_count": 0, "duplicated_count": 0, "reordered_count": 0, "corrupt_count": 0,
                    "foreign_count": 0, "committed_ahead_count": 0
                }
            }
        });
        assert_eq!(broken(&sound, false), Vec::<String>::new());
        for (path, value) in [
            ("/whole_run/verification/lost_count", 1),
            ("/whole_run/verification/duplicated_count", 1),
            ("/whole_run/verification/reordered_count", 1),
            ("/whole_run/verification/committed_ahead_count", 3),
            ("/whole_run/confirmed_count", 7),
            ("/whole_run/confirmed_count", 10),
            ("/whole_run/refused_count", 1),
            ("/whole_run/unsent_count", 0),
        ] {
            let mut result = sound.clone();
            *result.pointer_mut(path).expect("it is there") = value.into();
            assert_eq!(broken(&result, false).len(), 1, "{path} = {value}");
        }
    }
}
