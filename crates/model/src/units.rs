//! Sizes, rates and durations as types, with one place for reading and writing each.
//!
//! What is written by `Display` reads back as the same value. Prefixes follow IEC 80000-13: `kB`, `MB`, `GB` are powers
//! of 1000, `KiB`, `MiB`, `GiB` powers of 1024.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A text that is no value of a unit: what was given, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct UnitError {
    /// What is wrong and what is allowed.
    pub problem: String,
}

fn unit_error<T>(problem: impl Into<String>) -> Result<T, UnitError> {
    Err(UnitError {
        problem: problem.into(),
    })
}

/// An exact non-negative decimal: `digits / 10^scale`.
struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    /// `self * factor` where that is a whole number that fits.
    fn times(&self, factor: u128) -> Option<u64> {
        let product = self.digits.checked_mul(factor)?;
        let divisor = 10u128.pow(self.scale);
        if product % divisor != 0 {
            return None;
        }
        u64::try_from(product / divisor).ok()
    }
}

/// Splits `16.5KiB` into the number and the trimmed rest. `None` where the text does not start with a plain number.
fn split_number(text: &str) -> Option<(Decimal, &str)> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    // 20 + 9 digits are more than any unit here can mean, and keep the arithmetic within u128.
    let fraction = fraction.trim_end_matches('0');
    if whole.trim_start_matches('0').len() > 20 || fraction.len() > 9 {
        return None;
    }
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((
        Decimal {
            digits,
            scale: fraction.len() as u32,
        },
        unit.trim(),
    ))
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

const BYTE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

impl ByteSize {
    /// This many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        ByteSize(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const ALLOWED: &str = "a size is a whole number of bytes such as 512, or a number with a unit such as 16KiB, 1MB, \
                               1.5GiB (units: B, kB, MB, GB, TB of 1000; KiB, MiB, GiB, TiB of 1024)";
        let Some((number, unit)) = split_number(text.trim()) else {
            return unit_error(ALLOWED);
        };
        if ["k", "m", "g", "t"].contains(&unit.to_ascii_lowercase().as_str()) {
            let (upper, kilo) = (
                unit.to_ascii_uppercase(),
                if unit.eq_ignore_ascii_case("k") { "k" } else { unit },
            );
            return unit_error(format!(
                "\"{unit}\" may mean 1000 or 1024; write {kilo}B or {upper}iB"
            ));
        }
        let unit = if unit.is_empty() { "B" } else { unit };
        let Some(&(_, factor)) = BYTE_UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        else {
            return unit_error(ALLOWED);
        };
        match number.times(u128::from(factor)) {
            Some(bytes) => Ok(ByteSize(bytes)),
            None => unit_error("a size is a whole number of bytes, and less than 16 EiB"),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = BYTE_UNITS
            .iter()
            .filter(|(_, size)| self.0 >= *size && self.0.is_multiple_of(*size));
        match unit.max_by_key(|(_, size)| *size) {
            Some((name, size)) => write!(f, "{}{name}", self.0 / size),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A rate of bytes, greater than zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRate(u64);

impl ByteRate {
    /// This many bytes per second; `None` for zero.
    pub const fn from_bytes_per_second(bytes_per_second: u64) -> Option<Self> {
        if bytes_per_second == 0 {
            None
        } else {
            Some(ByteRate(bytes_per_second))
        }
    }

    /// Bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let Some(size) = text.trim().strip_suffix("/s") else {
            return unit_error("a byte rate is a size per second, such as 10MB/s or 1MiB/s");
        };
        match ByteRate::from_bytes_per_second(size.parse::<ByteSize>()?.bytes()) {
            Some(rate) => Ok(rate),
            None => unit_error("a byte rate must be greater than zero"),
        }
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", ByteSize(self.0))
    }
}

/// A rate of records: an exact fraction of records over seconds, in lowest terms, greater than zero.
///
/// It is kept as a fraction so that the due time of record k can be computed from k without rounding the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    records: u64,
    seconds: u64,
}

impl Rate {
    /// The highest rate that is taken for meant: 100 million records a second. A bare encoder fills about 25 million
    /// records of 100 B a second on two cores, so that more is a slip or a wish for `max`.
    pub const MAX: Rate = Rate {
        records: 100_000_000,
        seconds: 1,
    };
    /// The lowest rate that is taken for meant: one record a day.
    pub const MIN: Rate = Rate {
        records: 1,
        seconds: 86_400,
    };

    /// `records` in `seconds`.
    ///
    /// # Errors
    /// When either is zero, or the rate lies outside [`Rate::MIN`] to [`Rate::MAX`].
    pub fn new(records: u64, seconds: u64) -> Result<Self, UnitError> {
        if records == 0 {
            return unit_error("a rate must be greater than zero");
        }
        if seconds == 0 {
            return unit_error("a rate needs a time greater than zero");
        }
        let divisor = greatest_common_divisor(records, seconds);
        let rate = Rate {
            records: records / divisor,
            seconds: seconds / divisor,
        };
        if rate > Rate::MAX {
            return unit_error("a rate above 100 million records/s is more than any generator reaches");
        }
        if rate < Rate::MIN {
            return unit_error("a rate below one record a day is taken for a slip");
        }
        Ok(rate)
    }

    /// The numerator of the fraction: this many records …
    pub const fn records(self) -> u64 {
        self.records
    }

    /// … in this many seconds, the denominator.
    pub const fn seconds(self) -> u64 {
        self.seconds
    }

    /// The nearest floating-point number of records per second, for showing and comparing, not for schedules.
    pub fn per_second(self) -> f64 {
        self.records as f64 / self.seconds as f64
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let left = u128::from(self.records) * u128::from(other.seconds);
        left.cmp(&(u128::from(other.records) * u128::from(self.seconds)))
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const ALLOWED: &str = "a rate is records per second such as 50000, 0.5, 50k or 1.5M, or with its time such as 10/s, 30/m, 1/h";
        let text = text.trim();
        let (amount, time) = text.split_once('/').unwrap_or((text, "s"));
        if amount.starts_with('-') {
            return unit_error("a rate must be greater than zero");
        }
        let Some((number, prefix)) = split_number(amount.trim()) else {
            return unit_error(ALLOWED);
        };
        let factor: u128 = match prefix {
            "" => 1,
            "k" | "K" => 1_000,
            "M" => 1_000_000,
            _ => return unit_error(ALLOWED),
        };
        // A day's denominator is kept in front of the unit, so that Display's "n/<seconds>s" reads back.
        let time = time.trim();
        let unit_at = time.find(|c: char| !c.is_ascii_digit()).unwrap_or(time.len());
        let (count, unit) = time.split_at(unit_at);
        let seconds_in_unit: u64 = match unit {
            "s" | "sec" | "second" => 1,
            "m" | "min" | "minute" => 60,
            "h" | "hour" => 3_600,
            "d" | "day" => 86_400,
            _ => return unit_error(ALLOWED),
        };
        let count: u64 = if count.is_empty() {
            1
        } else {
            count.parse().or_else(|_| unit_error(ALLOWED))?
        };
        let too_fine = || UnitError {
            problem: "a rate may have at most nine decimals".to_owned(),
        };
        let records = number.digits.checked_mul(factor).ok_or_else(too_fine)?;
        let seconds = u128::from(count) * u128::from(seconds_in_unit) * 10u128.pow(number.scale);
        if records == 0 {
            return unit_error("a rate must be greater than zero");
        }
        let shift = |value: u128| u64::try_from(value).map_err(|_| too_fine());
        let divisor = greatest_common_divisor_wide(records, seconds).max(1);
        Rate::new(shift(records / divisor)?, shift(seconds / divisor)?)
    }
}

fn greatest_common_divisor_wide(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.seconds == 1 {
            return write!(f, "{}/s", self.records);
        }
        // A decimal with at most nine places if the fraction is one, else the fraction itself.
        let nano = 1_000_000_000u128;
        let scaled = u128::from(self.records) * nano;
        if scaled.is_multiple_of(u128::from(self.seconds)) {
            let value = scaled / u128::from(self.seconds);
            let text = format!("{}.{:09}", value / nano, value % nano);
            return write!(f, "{}/s", text.trim_end_matches('0'));
        }
        write!(f, "{}/{}s", self.records, self.seconds)
    }
}

/// How fast a workload is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetRate {
    /// An open loop: records are due on a schedule of this rate, over all producers of all topics together.
    Fixed(Rate),
    /// A closed loop: as fast as the cluster acknowledges, bounded by the client's settings. No record has a due time.
    Max,
}

impl FromStr for TargetRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.trim() == "max" {
            return Ok(TargetRate::Max);
        }
        match text.parse() {
            Ok(rate) => Ok(TargetRate::Fixed(rate)),
            Err(error) => unit_error(format!(
                "{error}; or give max to send as fast as the cluster acknowledges"
            )),
        }
    }
}

impl fmt::Display for TargetRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetRate::Fixed(rate) => write!(f, "{rate}"),
            TargetRate::Max => f.write_str("max"),
        }
    }
}

const TIME_UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads a duration such as `60s`, `5m`, `250ms` or `1h30m`; parts go from the larger unit to the smaller, each once.
///
/// # Errors
/// When a part has no unit or an unknown one, or the whole exceeds u64 nanoseconds (584 years).
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    const ALLOWED: &str =
        "a duration is a number with a unit such as 60s, 5m, 250ms or 1h30m (units: d, h, m, s, ms, us, ns)";
    let mut rest = text.trim();
    if rest.is_empty() {
        return unit_error(ALLOWED);
    }
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.chars().all(|c| c.is_ascii_digit()) {
        return unit_error(format!("a duration needs a unit: {rest}s, {rest}m or {rest}ms"));
    }
    let mut total_ns: u64 = 0;
    let mut last_unit = u64::MAX;
    while !rest.is_empty() {
        let Some((number, after)) = split_number(rest) else {
            return unit_error(ALLOWED);
        };
        let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, tail) = after.split_at(unit_end);
        let unit = if unit == "µs" || unit == "μs" {
            "us"
        } else {
            unit
        };
        let Some(&(_, unit_ns)) = TIME_UNITS.iter().find(|(name, _)| *name == unit) else {
            return unit_error(ALLOWED);
        };
        if unit_ns >= last_unit {
            return unit_error(
                "the parts of a duration go from the larger unit to the smaller, each once, such as 1h30m",
            );
        }
        last_unit = unit_ns;
        let part = number
            .times(u128::from(unit_ns))
            .and_then(|part_ns| total_ns.checked_add(part_ns));
        match part {
            Some(sum_ns) => total_ns = sum_ns,
            None => {
                return unit_error("a duration is a whole number of nanoseconds, and less than 584 years");
            }
        }
        rest = tail.trim_start();
    }
    Ok(Duration::from_nanos(total_ns))
}

/// Writes a duration so that [`parse_duration`] reads it back: `1h30m`, `250ms`; `0s` for none.
pub fn format_duration(duration: Duration) -> String {
    let mut rest_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if rest_ns == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, unit_ns) in TIME_UNITS {
        if rest_ns >= unit_ns {
            text.push_str(&format!("{}{unit}", rest_ns / unit_ns));
            rest_ns %= unit_ns;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_read_as_written() {
        for (text, bytes) in [
            ("512", 512),
            ("0", 0),
            ("16KiB", 16_384),
            ("16 kib", 16_384),
            ("1MB", 1_000_000),
            ("1.5GiB", 1_610_612_736),
            ("10_000B", 10_000),
            ("1TB", 1_000_000_000_000),
        ] {
            assert_eq!(text.parse::<ByteSize>().map(ByteSize::bytes), Ok(bytes), "{text}");
        }
        assert_eq!(ByteSize::from_bytes(1_048_576).to_string(), "1MiB");
        assert_eq!(ByteSize::from_bytes(1_000_000).to_string(), "1MB");
        assert_eq!(ByteSize::from_bytes(1_500).to_string(), "1500B");
    }

    #[test]
    fn a_wrong_size_says_what_is_allowed() {
        for (text, part) in [
            ("", "whole number of bytes such as 512"),
            ("-1", "whole number of bytes such as 512"),
            ("16k", "write kB or KiB"),
            ("16M", "write MB or MiB"),
            ("1.5", "whole number of bytes, and less"),
            ("99999999999TB", "less than 16 EiB"),
            ("1..5MB", "whole number of bytes such as 512"),
            ("5.", "whole number of bytes such as 512"),
            ("10 apples", "units: B, kB"),
            ("999999999999999999999999999999", "whole number of bytes"),
        ] {
            let error = text.parse::<ByteSize>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn byte_rates_read_as_written() {
        assert_eq!(
            "10MB/s".parse::<ByteRate>().map(ByteRate::bytes_per_second),
            Ok(10_000_000)
        );
        assert_eq!(
            "10MB/s".parse::<ByteRate>().map(|rate| rate.to_string()),
            Ok("10MB/s".to_owned())
        );
        assert!("10MB".parse::<ByteRate>().is_err());
        assert!("0B/s".parse::<ByteRate>().is_err());
    }

    #[test]
    fn rates_are_exact_fractions_in_lowest_terms() {
        for (text, records, seconds, shown) in [
            ("50000", 50_000, 1, "50000/s"),
            ("50k", 50_000, 1, "50000/s"),
            ("1.5M", 1_500_000, 1, "1500000/s"),
            ("0.5", 1, 2, "0.5/s"),
            ("10/s", 10, 1, "10/s"),
            ("30/m", 1, 2, "0.5/s"),
            ("1/h", 1, 3_600, "1/3600s"),
            ("1/d", 1, 86_400, "1/86400s"),
            ("10000000", 10_000_000, 1, "10000000/s"),
            ("0.1", 1, 10, "0.1/s"),
        ] {
            let rate = text.parse::<Rate>().expect(text);
            assert_eq!((rate.records(), rate.seconds()), (records, seconds), "{text}");
            assert_eq!(rate.to_string(), shown);
        }
    }

    #[test]
    fn absurd_rates_are_refused_with_the_reason() {
        for (text, part) in [
            ("0", "greater than zero"),
            ("0.0", "greater than zero"),
            ("-5", "greater than zero"),
            ("100000001", "100 million"),
            ("0.000001", "one record a day"),
            ("fast", "records per second such as"),
            ("10/fortnight", "records per second such as"),
            ("10/", "records per second such as"),
            ("1/0s", "time greater than zero"),
            ("1e6", "records per second such as"),
            ("NaN", "records per second such as"),
        ] {
            let error = text.parse::<Rate>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert_eq!("max".parse::<TargetRate>(), Ok(TargetRate::Max));
        assert!(
            "maximum"
                .parse::<TargetRate>()
                .expect_err("maximum")
                .to_string()
                .contains("or give max")
        );
    }

    #[test]
    fn durations_read_as_written() {
        for (text, ns) in [
            ("60s", 60_000_000_000),
            ("5m", 300_000_000_000),
            ("250ms", 250_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            ("10 us", 10_000),
            ("7ns", 7),
            ("0", 0),
            ("1d", 86_400_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for (text, part) in [
            ("60", "60s, 60m or 60ms"),
            ("", "a number with a unit"),
            ("-1s", "a number with a unit"),
            ("1m1h", "larger unit to the smaller"),
            ("1s1s", "larger unit to the smaller"),
            ("5 parsecs", "units: d, h, m"),
            ("999999999999d", "584 years"),
            ("0.5ns", "whole number of nanoseconds"),
        ] {
            let error = parse_duration(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_size_shown_reads_back(bytes: u64) {
            let size = ByteSize::from_bytes(bytes);
            prop_assert_eq!(size.to_string().parse::<ByteSize>(), Ok(size));
        }

        #[test]
        fn a_round_size_shown_reads_back(count in 0u64..5000, power in 0u32..4) {
            for base in [1000u64, 1024] {
                let size = ByteSize::from_bytes(count * base.pow(power));
                prop_assert_eq!(size.to_string().parse::<ByteSize>(), Ok(size));
            }
        }

        #[test]
        fn a_rate_shown_reads_back(records in 1u64..100_000_000, seconds in 1u64..86_400) {
            let rate = Rate::new(records, seconds).expect("within the limits");
            prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate));
        }

        #[test]
        fn a_duration_shown_reads_back(ns: u64) {
            let duration = Duration::from_nanos(ns);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_a_reader_panic(text in ".{0,40}") {
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<ByteRate>();
            let _ = text.parse::<TargetRate>();
            let _ = parse_duration(&text);
        }

        #[test]
        fn no_numeric_text_makes_a_reader_panic(text in "[0-9._kKMGTiBsmhd/]{0,45}") {
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<ByteRate>();
            let _ = text.parse::<TargetRate>();
            let _ = parse_duration(&text);
        }
    }
}
