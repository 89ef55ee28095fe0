//! What was measured: figures by round, and tables of their medians.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// What is measured of a case. The name in the JSON document ends with its unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Records acknowledged, or consumed, per second, as the tool itself tells.
    RecordsPerSecond,
    /// Records consumed per second while others are produced.
    ConsumedRecordsPerSecond,
    /// Values of the records, per second.
    PayloadBytesPerSecond,
    /// Records over time, as the slope between two runs, so that start and end fall out.
    SlopeRecordsPerSecond,
    /// CPU of the generator's threads, user and system, as the result tells.
    GeneratorCpuSecondsPerMillionRecords,
    /// CPU of the whole process, as the slope between two runs.
    SlopeCpuSecondsPerMillionRecords,
    /// CPU of the whole process from its start to its end.
    ProcessCpuSecondsPerMillionRecords,
    /// Median service time.
    ServiceP50Seconds,
    /// 99th percentile of the service time.
    ServiceP99Seconds,
    /// A process's life, from before its start to after its end.
    ProcessSeconds,
    /// From the run's start to when its one record was known to be acknowledged.
    AcknowledgedSeconds,
    /// CPU of the whole process.
    ProcessCpuSeconds,
}

impl Figure {
    /// The head of a table's column.
    fn head(self) -> &'static str {
        match self {
            Self::RecordsPerSecond => "records/s",
            Self::ConsumedRecordsPerSecond => "consumed/s",
            Self::PayloadBytesPerSecond => "MB/s",
            Self::SlopeRecordsPerSecond => "records/s by slope",
            Self::GeneratorCpuSecondsPerMillionRecords => "CPU s/M",
            Self::SlopeCpuSecondsPerMillionRecords => "CPU s/M by slope",
            Self::ProcessCpuSecondsPerMillionRecords => "CPU s/M with start",
            Self::ServiceP50Seconds => "service p50",
            Self::ServiceP99Seconds => "service p99",
            Self::ProcessSeconds => "start to end",
            Self::AcknowledgedSeconds => "start to acknowledged",
            Self::ProcessCpuSeconds => "CPU",
        }
    }

    /// A value as a table shows it.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::RecordsPerSecond | Self::ConsumedRecordsPerSecond | Self::SlopeRecordsPerSecond => {
                count(value)
            }
            Self::PayloadBytesPerSecond => significant(value / 1e6),
            Self::GeneratorCpuSecondsPerMillionRecords
            | Self::SlopeCpuSecondsPerMillionRecords
            | Self::ProcessCpuSecondsPerMillionRecords => significant(value),
            Self::ServiceP50Seconds
            | Self::ServiceP99Seconds
            | Self::ProcessSeconds
            | Self::AcknowledgedSeconds
            | Self::ProcessCpuSeconds => format!("{} ms", significant(value * 1e3)),
        }
    }
}

/// A large number with its thousands or millions as a letter: `893 k`, `2.11 M`.
fn count(value: f64) -> String {
    if value.abs() >= 999_500.0 {
        format!("{} M", significant(value / 1e6))
    } else if value.abs() >= 999.5 {
        format!("{} k", significant(value / 1e3))
    } else {
        significant(value)
    }
}

/// Three significant digits, and all digits before the point.
pub fn significant(value: f64) -> String {
    // Of the rounded value: 0.9999 is shown as 1.00.
    let rounded = format!("{value:.2e}");
    let exponent = rounded
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok());
    // At most six behind the point: less than a microsecond of a second says nothing here.
    let decimals = (2 - exponent.unwrap_or(0_i32)).clamp(0, 6);
    format!("{value:.*}", usize::try_from(decimals).unwrap_or_default())
}

/// What one tool gave in one case, round by round.
#[derive(Default, Debug, Serialize)]
pub struct Rounds(BTreeMap<Figure, Vec<f64>>);

impl Rounds {
    /// Adds a round's value; what was not measured adds nothing.
    pub fn add(&mut self, figure: Figure, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0.entry(figure).or_default().push(value);
        }
    }

    /// The median over the rounds; `None` where nothing was measured.
    pub fn median(&self, figure: Figure) -> Option<f64> {
        let mut values = self.0.get(&figure)?.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        if values.len() % 2 == 1 {
            return Some(upper);
        }
        Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, upper))
    }

    /// How far the rounds lie apart: largest less smallest, over the median. `None` with less than two.
    pub fn spread(&self, figure: Figure) -> Option<f64> {
        let values = self.0.get(&figure).filter(|values| values.len() > 1)?;
        let largest = values.iter().copied().max_by(f64::total_cmp)?;
        let smallest = values.iter().copied().min_by(f64::total_cmp)?;
        Some((largest - smallest) / self.median(figure)?)
    }
}

/// One line of a table: a case, and where tools are compared, a tool.
#[derive(Debug, Serialize)]
pub struct Row {
    pub case: String,
    pub tool: String,
    pub rounds: Rounds,
}

/// One table.
#[derive(Debug, Serialize)]
pub struct Section {
    pub title: String,
    /// The settings that all cases have in common, and what the columns mean.
    pub settings: Vec<String>,
    /// The columns, in their order.
    #[serde(skip)]
    pub columns: Vec<Figure>,
    pub rows: Vec<Row>,
    /// Ratios of medians, where tools are compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ratios: Vec<Ratios>,
}

/// plimsoll's medians over those of the other tools, in one case.
#[derive(Debug, Serialize)]
pub struct Ratios {
    pub case: String,
    pub rate_over_java: Option<f64>,
    pub rate_over_librdkafka: Option<f64>,
    pub cpu_over_java: Option<f64>,
    pub cpu_over_librdkafka: Option<f64>,
}

impl Section {
    /// The median of a figure in one case with one tool.
    pub fn median(&self, case: &str, tool: &str, figure: Figure) -> Option<f64> {
        let row = self
            .rows
            .iter()
            .find(|row| row.case == case && row.tool == tool)?;
        row.rounds.median(figure)
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        for line in &self.settings {
            writeln!(f, "  {line}")?;
        }
        let compares = self.rows.iter().any(|row| row.tool != self.rows[0].tool);
        let mut head = vec!["case"];
        head.extend(compares.then_some("tool"));
        head.extend(self.columns.iter().map(|figure| figure.head()));
        head.push("spread");
        let mut lines = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        let mut previous = "";
        for row in &self.rows {
            // A case is named once, above all of its tools.
            let case = if row.case == previous { "" } else { &row.case };
            previous = &row.case;
            let mut line = vec![case.to_owned()];
            line.extend(compares.then(|| row.tool.clone()));
            line.extend(
                self.columns
                    .iter()
                    .map(|figure| shown(row.rounds.median(*figure), |value| figure.show(value))),
            );
            let spread = self.columns.first().and_then(|figure| row.rounds.spread(*figure));
            line.push(shown(spread, |spread| format!("{:.0} %", 100.0 * spread)));
            lines.push(line);
        }
        f.write_str(&aligned(&lines, if compares { 2 } else { 1 }))?;
        if !self.ratios.is_empty() {
            let head = [
                "plimsoll over",
                "Java: rate",
                "librdkafka: rate",
                "Java: CPU",
                "librdkafka: CPU",
            ];
            let mut lines = vec![head.map(str::to_owned).to_vec()];
            for ratios in &self.ratios {
                let values = [
                    ratios.rate_over_java,
                    ratios.rate_over_librdkafka,
                    ratios.cpu_over_java,
                    ratios.cpu_over_librdkafka,
                ];
                let mut line = vec![ratios.case.clone()];
                line.extend(values.map(|value| shown(value, significant)));
                lines.push(line);
            }
            write!(f, "\n{}", aligned(&lines, 1))?;
        }
        Ok(())
    }
}

/// A value, or `-` where nothing was measured.
pub fn shown(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// Lines of cells as a text with aligned columns: the first ones to the left, the others to the right.
pub fn aligned(lines: &[Vec<String>], left_columns: usize) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut out = String::from(" ");
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            out.push_str(&if column < left_columns {
                format!(" {cell:<width$} ")
            } else {
                format!(" {cell:>width$} ")
            });
        }
        text.push_str(out.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(values: &[f64]) -> Rounds {
        let mut rounds = Rounds::default();
        for value in values {
            rounds.add(Figure::RecordsPerSecond, Some(*value));
        }
        rounds
    }

    #[test]
    fn the_median_of_an_even_number_of_rounds_lies_between_the_two_in_the_middle() {
        let median = |values: &[f64]| rounds(values).median(Figure::RecordsPerSecond);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[8.0, 2.0, 4.0, 100.0]), Some(6.0));
    }

    #[test]
    fn what_was_not_measured_adds_no_round() {
        let mut rounds = rounds(&[3.0]);
        rounds.add(Figure::RecordsPerSecond, None);
        rounds.add(Figure::RecordsPerSecond, Some(f64::NAN));
        assert_eq!(rounds.median(Figure::RecordsPerSecond), Some(3.0));
        assert_eq!(rounds.spread(Figure::RecordsPerSecond), None);
        assert_eq!(rounds.median(Figure::ProcessSeconds), None);
    }

    #[test]
    fn the_spread_is_told_over_the_median() {
        assert_eq!(
            rounds(&[90.0, 100.0, 110.0]).spread(Figure::RecordsPerSecond),
            Some(0.2)
        );
    }

    #[test]
    fn three_digits_are_shown_and_never_a_whole_digit_less() {
        let shown = [0.0, 0.000_4, 0.153_99, 9.876, 98.76, 987.6, 9_876.5].map(significant);
        assert_eq!(
            shown,
            ["0.00", "0.000400", "0.154", "9.88", "98.8", "988", "9876"]
        );
        let shown = [7.0, 893_106.0, 999_600.0, 2_113_000.0, 12_345_678.0].map(count);
        assert_eq!(shown, ["7.00", "893 k", "1.00 M", "2.11 M", "12.3 M"]);
    }

    #[test]
    fn a_table_names_a_case_once_and_leaves_a_dash_where_nothing_was_measured() {
        let row = |tool: &str, values: &[f64]| Row {
            case: "100 B".to_owned(),
            tool: tool.to_owned(),
            rounds: rounds(values),
        };
        let section = Section {
            title: "Producing".to_owned(),
            settings: vec!["acks 1".to_owned()],
            columns: vec![Figure::RecordsPerSecond, Figure::ServiceP50Seconds],
            rows: vec![row("plimsoll", &[2e6, 2.2e6]), row("librdkafka", &[])],
            ratios: Vec::new(),
        };
        assert_eq!(
            section.to_string(),
            "\
Producing
  acks 1
  case   tool        records/s  service p50  spread
  100 B  plimsoll       2.10 M            -    10 %
         librdkafka          -            -       -
"
        );
    }
}
