//! The nearest known name to a misspelt one.

/// The name of `known` that is nearest to `given`, with its distance; the first of several that are equally near.
/// Case counts as no difference here, so that a wrong case alone has distance 0.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<(&'a str, usize)> {
    let given = given.to_lowercase();
    // A name far longer than every key is no misspelling, and comparing it would cost its square.
    if given.chars().count() > 200 {
        return None;
    }
    known
        .into_iter()
        .map(|name| (name, damerau_levenshtein(&given, &name.to_lowercase())))
        .min_by_key(|&(_, distance)| distance)
}

/// Like [`nearest`], and only where it is near enough to be meant: up to a third of the name's length.
pub(crate) fn likely_meant<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (name, distance) = nearest(given, known)?;
    (distance * 3 <= given.chars().count().max(name.chars().count())).then_some(name)
}

/// The number of insertions, deletions, substitutions and swaps of neighbours between two texts, where no part is
/// edited twice (optimal string alignment; G. Navarro, "A guided tour to approximate string matching", 2001).
fn damerau_levenshtein(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitution = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + substitution);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_each_kind_of_slip_once() {
        for (a, b, distance) in [
            ("", "", 0),
            ("", "abc", 3),
            ("linger.ms", "linger.ms", 0),
            ("linger.ms", "linger.m", 1),
            ("linger.ms", "lingger.ms", 1),
            ("linger.ms", "lunger.ms", 1),
            ("linger.ms", "lniger.ms", 1),
            ("producersRate", "producerRate", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(damerau_levenshtein(a, b), distance, "{a} ~ {b}");
            assert_eq!(damerau_levenshtein(b, a), distance, "{b} ~ {a}");
        }
    }

    #[test]
    fn only_a_near_name_is_thought_to_be_meant() {
        let known = ["producerRate", "producersPerTopic", "topics"];
        assert_eq!(likely_meant("producersRate", known), Some("producerRate"));
        assert_eq!(likely_meant("TOPICS", known), Some("topics"));
        assert_eq!(likely_meant("colour", known), None);
        assert_eq!(likely_meant(&"x".repeat(100_000), known), None);
    }
}
