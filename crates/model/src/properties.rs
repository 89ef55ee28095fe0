//! Text of the `java.util.Properties` format, as Kafka's own tools and OMB's driver files hold it.
//!
//! A line is `key=value`, `key:value` or `key value`; `#` and `!` start a comment; a backslash at the end of a line
//! continues it; `\t`, `\n`, `\r`, `\f` and `\uXXXX` are characters, and a backslash before any other character is that
//! character. The text itself is UTF-8. Of a repeated key the last value counts, and both are returned.

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The key; may be empty.
    pub name: String,
    /// The value; empty where there is none.
    pub value: String,
    /// The line on which the key stands, counted from 1.
    pub line: u32,
}

/// A line that does not follow the format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct PropertiesError {
    /// The line on which the key stands, counted from 1.
    pub line: u32,
    /// What is wrong.
    pub problem: String,
}

/// Reads all properties in the order of the text.
///
/// # Errors
/// All malformed lines: those with a `\u` that is not followed by four hexadecimal digits, or by half of a surrogate pair.
pub fn parse(text: &str) -> Result<Vec<Property>, Vec<PropertiesError>> {
    let mut properties = Vec::new();
    let mut errors = Vec::new();
    for (line, logical) in logical_lines(text) {
        let (name, value) = split_key(&logical);
        match (unescape(name), unescape(value)) {
            (Ok(name), Ok(value)) => properties.push(Property { name, value, line }),
            (Err(problem), _) | (_, Err(problem)) => errors.push(PropertiesError { line, problem }),
        }
    }
    if errors.is_empty() {
        Ok(properties)
    } else {
        Err(errors)
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

/// The lines that hold a property, continuations joined and leading blanks gone, with their first line's number.
fn logical_lines(text: &str) -> Vec<(u32, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // A carriage return alone ends a line too, as on old Macs.
    let unified = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = unified.split('\n').zip(1u32..);
    let mut logical = Vec::new();
    while let Some((natural, number)) = lines.next() {
        let mut current = natural.trim_start_matches(is_blank);
        if current.is_empty() || current.starts_with(['#', '!']) {
            continue;
        }
        let mut joined = String::new();
        while ends_in_continuation(current) {
            joined.push_str(&current[..current.len() - 1]);
            // A comment sign after a continuation belongs to the value, and a blank line ends it.
            current = lines
                .next()
                .map_or("", |(next, _)| next.trim_start_matches(is_blank));
        }
        joined.push_str(current);
        logical.push((number, joined));
    }
    logical
}

/// Whether a line ends in an odd number of backslashes: an even number are escaped ones.
fn ends_in_continuation(line: &str) -> bool {
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}

/// Splits at the first `=`, `:` or blank that no backslash escapes.
fn split_key(line: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if matches!(c, '=' | ':') || is_blank(c) {
            let rest = line[at..].trim_start_matches(is_blank);
            let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
            return (&line[..at], rest.trim_start_matches(is_blank));
        }
    }
    (line, "")
}

fn unescape(text: &str) -> Result<String, String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut buffer = [0; 2];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            units.extend_from_slice(c.encode_utf16(&mut buffer));
            continue;
        }
        match chars.next() {
            Some('t') => units.push(u16::from(b'\t')),
            Some('n') => units.push(u16::from(b'\n')),
            Some('r') => units.push(u16::from(b'\r')),
            Some('f') => units.push(0x0c),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let is_hex = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                match u16::from_str_radix(&digits, 16) {
                    Ok(unit) if is_hex => units.push(unit),
                    _ => return Err(format!("\\u{digits} is not \\u with four hexadecimal digits")),
                }
            }
            Some(other) => units.extend_from_slice(other.encode_utf16(&mut buffer)),
            None => {}
        }
    }
    String::from_utf16(&units).map_err(|_| "a \\u escape is half of a surrogate pair".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str, u32)]) {
        let properties = parse(text).expect(text);
        let found: Vec<_> = properties
            .iter()
            .map(|p| (p.name.as_str(), p.value.as_str(), p.line))
            .collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn separators_are_equals_colon_and_blank() {
        check(
            "acks=all\nlinger.ms : 5\nbatch.size\t16384\n",
            &[
                ("acks", "all", 1),
                ("linger.ms", "5", 2),
                ("batch.size", "16384", 3),
            ],
        );
        check("a = = b", &[("a", "= b", 1)]);
        check("a   :=b", &[("a", "=b", 1)]);
        check("lonely", &[("lonely", "", 1)]);
        check("=value", &[("", "value", 1)]);
    }

    #[test]
    fn values_keep_their_trailing_blanks() {
        check("client.id=me  ", &[("client.id", "me  ", 1)]);
    }

    #[test]
    fn comments_and_blank_lines_are_no_properties() {
        check(
            "# one\n  ! two\n\n \t\x0c\na=1#not a comment\n",
            &[("a", "1#not a comment", 5)],
        );
    }

    #[test]
    fn a_backslash_at_the_end_continues_the_line() {
        check("a=1,\\\n   2,\\\n\t3\nb=4", &[("a", "1,2,3", 1), ("b", "4", 4)]);
        check("a=1\\\\\nb=2", &[("a", "1\\", 1), ("b", "2", 2)]);
        check("a=1\\\n\nb=2", &[("a", "1", 1), ("b", "2", 3)]);
        check("a=1\\\n#2\nb=3", &[("a", "1#2", 1), ("b", "3", 3)]);
        check("a=1\\", &[("a", "1", 1)]);
        check("# comment \\\na=1", &[("a", "1", 2)]);
    }

    #[test]
    fn every_line_ending_counts_once() {
        check(
            "a=1\r\nb=2\rc=3\nd=4",
            &[("a", "1", 1), ("b", "2", 2), ("c", "3", 3), ("d", "4", 4)],
        );
    }

    #[test]
    fn escapes_stand_for_their_characters() {
        check(
            r"a\ b\=c\:d=e\tf\ng\rh\fi\qj",
            &[("a b=c:d", "e\tf\ng\rh\x0ciqj", 1)],
        );
        check(r"k=\u00e9\u4E2D\uD83D\uDE00", &[("k", "é中😀", 1)]);
        check(r"path=C:\\temp", &[("path", r"C:\temp", 1)]);
    }

    #[test]
    fn all_malformed_escapes_are_told_with_their_lines() {
        let errors = parse("a=\\u12\nb=1\nc=\\uD83D\nd=\\u+123").expect_err("malformed");
        let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "line 1: \\u12 is not \\u with four hexadecimal digits",
                "line 3: a \\u escape is half of a surrogate pair",
                "line 4: \\u+123 is not \\u with four hexadecimal digits",
            ]
        );
    }

    /// Writes a property so that every character of it survives.
    fn written(text: &str) -> String {
        let escape = |unit: u16| match char::from_u32(u32::from(unit)) {
            Some(c) if c.is_ascii_alphanumeric() => c.to_string(),
            _ => format!("\\u{unit:04X}"),
        };
        text.encode_utf16().map(escape).collect()
    }

    proptest! {
        #[test]
        fn what_is_written_escaped_reads_back(name in "\\PC{1,20}", value in ".{0,40}") {
            let properties = parse(&format!("{}={}", written(&name), written(&value)));
            prop_assert_eq!(properties, Ok(vec![Property { name, value, line: 1 }]));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[ \\t\\r\\n\\\\=:#!ua0-9é]{0,60}") {
            let _ = parse(&text);
        }
    }
}
