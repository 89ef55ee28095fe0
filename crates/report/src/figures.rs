//! Figures as text: three significant digits where a value was measured, every digit where it was counted.

/// A count with its thousands separated: `1,234,567`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count, or a dash where it was not measured.
pub(crate) fn count_or_dash(value: Option<u64>) -> String {
    value.map_or_else(|| "–".to_owned(), count)
}

/// A span of time in the unit in which it has one to three digits before the point: `41.0 µs`, `7.00 ms`, `2.10 s`.
pub(crate) fn time(ns: u64) -> String {
    // What would round up to 1000 of a unit is shown in the next one.
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_500 => format!("{} µs", significant(ns as f64 / 1e3)),
        999_500..999_500_000 => format!("{} ms", significant(ns as f64 / 1e6)),
        _ => format!("{} s", significant(ns as f64 / 1e9)),
    }
}

/// The length of a phase: `30 s`, `1 min 30 s`, `0.50 s`.
pub(crate) fn length(ns: u64) -> String {
    let seconds = (ns as f64 / 1e9).round() as u64;
    match seconds {
        0..10 => format!("{} s", significant(ns as f64 / 1e9)),
        10..120 => format!("{seconds} s"),
        120..7_200 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        120..7_200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// A rate or a mean: every digit before the point, and three significant ones at least.
pub(crate) fn number(value: f64) -> String {
    if value >= 999.5 {
        count(value.round() as u64)
    } else {
        significant(value)
    }
}

/// Three significant digits, without the zeros of a whole number.
pub(crate) fn significant(value: f64) -> String {
    let decimals: usize = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Bytes in the decimal unit that fits: `512 B`, `66.0 MB`.
pub(crate) fn bytes(value: f64) -> String {
    for (unit, size) in [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)] {
        if value >= size * 0.9995 {
            return format!("{} {unit}", significant(value / size));
        }
    }
    format!("{} B", significant(value))
}

/// A part of a whole as a percentage: `93 %`, `0.4 %`.
pub(crate) fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent == 0.0 || percent >= 9.95 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_by_thousands() {
        let shown: Vec<_> = [0, 12, 999, 1_000, 54_321, 1_234_567, u64::MAX]
            .map(count)
            .to_vec();
        assert_eq!(
            shown,
            [
                "0",
                "12",
                "999",
                "1,000",
                "54,321",
                "1,234,567",
                "18,446,744,073,709,551,615"
            ]
        );
    }

    #[test]
    fn times_take_the_unit_that_fits() {
        for (ns, shown) in [
            (0, "0 ns"),
            (850, "850 ns"),
            (1_000, "1.00 µs"),
            (41_000, "41.0 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (7_004_000, "7.00 ms"),
            (123_456_789, "123 ms"),
            (999_600_000, "1.00 s"),
            (2_100_000_000, "2.10 s"),
            (3_600_000_000_000, "3600 s"),
        ] {
            assert_eq!(time(ns), shown);
        }
    }

    #[test]
    fn lengths_of_phases_read_as_a_clock_does() {
        for (ns, shown) in [
            (500_000_000, "0.500 s"),
            (30_000_000_000, "30 s"),
            (90_200_000_000, "90 s"),
        ] {
            assert_eq!(length(ns), shown);
        }
        assert_eq!(length(600_000_000_000), "10 min");
        assert_eq!(length(605_000_000_000), "10 min 5 s");
        assert_eq!(length(7_260_000_000_000), "2 h 1 min");
    }

    #[test]
    fn measured_figures_have_three_significant_digits() {
        let shown: Vec<_> = [0.0, 0.5, 0.12345, 1.0, 12.34, 99.97, 123.4, 999.6, 49_998.4]
            .map(number)
            .to_vec();
        assert_eq!(
            shown,
            [
                "0", "0.500", "0.123", "1.00", "12.3", "100", "123", "1,000", "49,998"
            ]
        );
        let shown: Vec<_> = [512.0, 1_000.0, 66_000_000.0, 1.2345e12].map(bytes).to_vec();
        assert_eq!(shown, ["512 B", "1.00 kB", "66.0 MB", "1.23 TB"]);
        assert_eq!(
            [0.0, 0.004, 0.0996, 0.934, 1.0].map(percent),
            ["0 %", "0.4 %", "10 %", "93 %", "100 %"]
        );
    }
}
