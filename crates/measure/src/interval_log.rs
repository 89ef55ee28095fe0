//! The text of an HDR interval log: one histogram per interval and tag, as lines that HdrHistogram's tools read.
//!
//! Format 1.3, as HistogramLogWriter of HdrHistogram (Java) writes it: comment lines, the legend, then
//! `Tag=<tag>,<start>,<length>,<max>,<histogram>` with start and length in seconds, start counted from the base time, the
//! maximum in milliseconds (for the eye alone), and the histogram, in nanoseconds, as base64 of the V2 encoding, deflated.
//! Each line is made by itself and handed out, so a log can be appended to once a second and nothing is kept.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializeError, V2DeflateSerializer};
use thiserror::Error;

use crate::histogram::LatencyHistogram;

const LEGEND: &str = r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#;
const NANOSECONDS_PER_MILLISECOND: f64 = 1_000_000.0;
const NANOSECONDS_PER_SECOND: f64 = 1_000_000_000.0;

/// What tells the histograms of one interval apart, such as `measure:response`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(String);

/// Text that cannot be a tag: empty, or with a comma or white space in it, which the log's format gives a meaning.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is no tag of an interval log: it must not be empty, nor have commas or white space")]
pub struct TagError {
    /// The text.
    pub text: String,
}

impl Tag {
    /// The tag `<phase>:<metric>`.
    ///
    /// # Errors
    /// When either has a comma or white space in it, or is empty.
    pub fn of(phase: &str, metric: &str) -> Result<Tag, TagError> {
        let text = format!("{phase}:{metric}");
        let forbidden = |c: char| c == ',' || c.is_whitespace();
        if phase.is_empty() || metric.is_empty() || text.contains(forbidden) {
            return Err(TagError { text });
        }
        Ok(Tag(text))
    }

    /// The tag as it stands in the log.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a histogram could not be written.
#[derive(Debug, Error)]
#[error("the histogram of {tag} cannot be serialised: {reason:?}")]
pub struct SerializeError {
    /// The tag of its line.
    pub tag: String,
    /// What the serialiser said.
    pub reason: V2DeflateSerializeError,
}

/// Makes the lines of an interval log. Keeps only buffers that are used again.
pub struct IntervalLog {
    serializer: V2DeflateSerializer,
    encoded: Vec<u8>,
}

impl Default for IntervalLog {
    fn default() -> Self {
        Self::new()
    }
}

impl IntervalLog {
    /// A maker of lines.
    pub fn new() -> IntervalLog {
        IntervalLog {
            serializer: V2DeflateSerializer::new(),
            encoded: Vec::new(),
        }
    }

    /// The lines that open a log. `base_unix_ns` is the wall-clock time, in nanoseconds since 1970, that the starts of
    /// intervals are counted from; `comments` are put on top, one line each.
    pub fn header(base_unix_ns: u64, comments: &[&str]) -> String {
        let mut text = String::from("#[Histogram log format version 1.3]\n");
        for line in comments.iter().flat_map(|comment| comment.lines()) {
            text.push('#');
            text.push_str(line);
            text.push('\n');
        }
        let seconds = base_unix_ns as f64 / NANOSECONDS_PER_SECOND;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "#[StartTime: {seconds:.3} (seconds since epoch)]");
        let _ = writeln!(text, "#[BaseTime: {seconds:.3} (seconds since epoch)]");
        let _ = writeln!(text, "{LEGEND}");
        text
    }

    /// Adds the line of one histogram to `text`; none when nothing was recorded in the interval. `start_ns` is counted
    /// from the header's base time.
    ///
    /// # Errors
    /// When the serialiser refuses the histogram: a count above 2^63, or a deflater that fails.
    pub fn append(
        &mut self,
        text: &mut String,
        tag: &Tag,
        start_ns: u64,
        length_ns: u64,
        histogram: &LatencyHistogram,
    ) -> Result<(), SerializeError> {
        let Some(max_ns) = histogram.max_ns() else {
            return Ok(());
        };
        self.encoded.clear();
        self.serializer
            .serialize(&histogram.to_hdr(), &mut self.encoded)
            .map_err(|reason| SerializeError {
                tag: tag.0.clone(),
                reason,
            })?;
        let _ = write!(
            text,
            "Tag={},{:.3},{:.3},{:.3},",
            tag.0,
            start_ns as f64 / NANOSECONDS_PER_SECOND,
            length_ns as f64 / NANOSECONDS_PER_SECOND,
            max_ns as f64 / NANOSECONDS_PER_MILLISECOND,
        );
        STANDARD.encode_string(&self.encoded, text);
        text.push('\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use std::time::Duration;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    fn recorded(values_ms: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        for value in values_ms {
            histogram.record_n(value * MS, 1);
        }
        histogram
    }

    fn line(tag: &Tag, start_ns: u64, histogram: &LatencyHistogram) -> String {
        let mut text = String::new();
        IntervalLog::new()
            .append(&mut text, tag, start_ns, SECOND, histogram)
            .expect("serialised");
        text
    }

    #[test]
    fn the_header_names_the_version_the_times_and_the_columns() {
        assert_eq!(
            IntervalLog::header(1_700_000_000_123_000_000, &["a run\nof two lines"]),
            "#[Histogram log format version 1.3]\n\
             #a run\n\
             #of two lines\n\
             #[StartTime: 1700000000.123 (seconds since epoch)]\n\
             #[BaseTime: 1700000000.123 (seconds since epoch)]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
        );
    }

    #[test]
    fn the_lines_are_read_back_with_every_value() {
        let response = recorded(&[1, 2, 3, 500]);
        let service = recorded(&[1]);
        let tags = [
            Tag::of("measure", "response").expect("a tag"),
            Tag::of("warm-up", "service").expect("a tag"),
        ];
        let mut text = IntervalLog::header(1_700_000_000_000_000_000, &[]);
        let mut log = IntervalLog::new();
        log.append(&mut text, &tags[0], 10 * SECOND, SECOND, &response)
            .expect("serialised");
        log.append(&mut text, &tags[1], 11 * SECOND, SECOND + 250 * MS, &service)
            .expect("serialised");

        let entries: Vec<_> = IntervalLogIterator::new(text.as_bytes())
            .map(|entry| entry.expect("a line"))
            .collect();
        assert_eq!(
            entries[0],
            LogEntry::StartTime(Duration::from_secs(1_700_000_000))
        );
        assert_eq!(entries[1], LogEntry::BaseTime(Duration::from_secs(1_700_000_000)));
        let read: Vec<(String, Duration, Duration, f64, Histogram<u64>)> = entries[2..]
            .iter()
            .map(|entry| match entry {
                LogEntry::Interval(interval) => (
                    interval.tag().expect("a tag").as_str().to_owned(),
                    interval.start_timestamp(),
                    interval.duration(),
                    interval.max(),
                    Deserializer::new()
                        .deserialize(
                            &mut STANDARD
                                .decode(interval.encoded_histogram())
                                .expect("base64")
                                .as_slice(),
                        )
                        .expect("a histogram"),
                ),
                other => panic!("{other:?} after the header"),
            })
            .collect();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].0, "measure:response");
        assert_eq!(
            (read[0].1, read[0].2, read[0].3),
            (Duration::from_secs(10), Duration::from_secs(1), 500.0)
        );
        assert_eq!(read[0].4, response.to_hdr());
        assert_eq!(read[1].0, "warm-up:service");
        assert_eq!(
            (read[1].1, read[1].2),
            (Duration::from_secs(11), Duration::from_millis(1_250))
        );
        assert_eq!(read[1].4, service.to_hdr());
    }

    #[test]
    fn the_payload_is_the_deflated_second_encoding() {
        let text = line(&Tag::of("measure", "queue").expect("a tag"), 0, &recorded(&[1]));
        let payload = text.trim_end().rsplit(',').next().expect("a payload");
        assert_eq!(
            STANDARD.decode(payload).expect("base64")[..4],
            [0x1c, 0x84, 0x93, 0x14]
        );
    }

    #[test]
    fn an_interval_without_values_has_no_line() {
        assert_eq!(
            line(
                &Tag::of("measure", "queue").expect("a tag"),
                0,
                &LatencyHistogram::new()
            ),
            ""
        );
    }

    #[test]
    fn a_tag_has_no_commas_and_no_white_space() {
        for (phase, metric) in [("a,b", "c"), ("a b", "c"), ("a", "b\n"), ("", "a"), ("a", "")] {
            let text = format!("{phase}:{metric}");
            assert_eq!(Tag::of(phase, metric), Err(TagError { text }));
        }
        assert_eq!(
            Tag::of("measure", "end_to_end").expect("a tag").as_str(),
            "measure:end_to_end"
        );
    }
}
