//! Calendar time in UTC, for the names of folders.

use std::fmt;
use std::time::Duration;

/// A second of the Gregorian calendar in UTC, without leap seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcSecond {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

impl UtcSecond {
    /// The second that is `since_epoch` after 1970 began.
    ///
    /// Days are counted in eras of 400 years (146,097 days) from 1 March of year 0, so that a leap day is the last of its
    /// year; month m of such a year, March being 0, begins on day (153 m + 2) / 5.
    pub fn from_epoch(since_epoch: Duration) -> UtcSecond {
        let seconds = since_epoch.as_secs();
        // 1 March of year 0 is 719,468 days before 1970.
        let days = seconds / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let is_next_year = month >= 10;
        UtcSecond {
            year: era * 400 + year_of_era + u64::from(is_next_year),
            month: if is_next_year { month - 9 } else { month + 3 },
            day: day_of_year - (153 * month + 2) / 5 + 1,
            second_of_day: seconds % 86_400,
        }
    }
}

/// `2026-03-01T12-30-05`: as ISO 8601, but without colons, which not every file system takes.
impl fmt::Display for UtcSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UtcSecond {
            year,
            month,
            day,
            second_of_day,
        } = self;
        let (hour, minute, second) = (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_their_dates() {
        // As `date -u -d @…` tells them.
        for (seconds, date) in [
            (0, "1970-01-01T00-00-00"),
            (951_782_399, "2000-02-28T23-59-59"),
            (951_782_400, "2000-02-29T00-00-00"),
            (951_868_800, "2000-03-01T00-00-00"),
            (1_709_164_800, "2024-02-29T00-00-00"),
            (1_735_689_599, "2024-12-31T23-59-59"),
            (1_796_097_057, "2026-12-01T03-50-57"),
            (4_107_542_400, "2100-03-01T00-00-00"),
        ] {
            assert_eq!(
                UtcSecond::from_epoch(Duration::from_secs(seconds)).to_string(),
                date
            );
        }
    }
}
