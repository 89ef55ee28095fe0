//! Sentences broken into lines that fit the terminal.

/// The widest line of a report, in characters.
pub(crate) const COLUMNS: usize = 80;

/// Words that stay on the line of the number before them.
const UNITS: [&str; 13] = [
    "%", "ns", "µs", "ms", "s", "min", "h", "B", "kB", "MB", "GB", "TB", "×",
];

/// Breaks a text at blanks so that no line is wider than [`COLUMNS`], the first line after `first`, the others after as
/// many blanks. A word that is wider alone keeps its line to itself. Each line ends with a line feed.
pub(crate) fn wrapped(first: &str, text: &str) -> String {
    let indent = first.chars().count();
    let mut out = String::new();
    let mut line = first.to_owned();
    let mut width = indent;
    let mut is_empty = true;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let mut word = word.to_owned();
        while let Some(unit) =
            words.next_if(|next| UNITS.contains(&next.trim_end_matches([',', ';', ':', ')'])))
        {
            word.push(' ');
            word.push_str(unit);
        }
        let word_width = word.chars().count();
        if !is_empty && width + 1 + word_width > COLUMNS {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent);
            width = indent;
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
            width += 1;
        }
        line.push_str(&word);
        width += word_width;
        is_empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}

/// A text cut to so many characters, with an ellipsis for what is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let head: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{head}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let text = "word ".repeat(60);
        let lines = wrapped("  - ", &text);
        assert!(lines.lines().all(|line| line.chars().count() <= COLUMNS));
        assert!(lines.lines().skip(1).all(|line| line.starts_with("    word")));
        assert_eq!(lines.matches("word").count(), 60);
    }

    #[test]
    fn a_unit_stays_with_its_number() {
        let text = format!("{} 12.5 ms, then", "x".repeat(75));
        assert_eq!(wrapped("", &text), format!("{}\n12.5 ms, then\n", "x".repeat(75)));
    }

    #[test]
    fn a_long_word_keeps_its_line() {
        let path = "x".repeat(100);
        assert_eq!(
            wrapped("", &format!("see {path} now")),
            format!("see\n{path}\nnow\n")
        );
    }

    #[test]
    fn what_is_cut_ends_in_an_ellipsis() {
        assert_eq!(cut("plimsoll", 8), "plimsoll");
        assert_eq!(cut("plimsoll", 5), "plim…");
        assert_eq!(cut("éééé", 3), "éé…");
    }
}
