//! Scales: positions of ticks and their labels.

/// A range with ticks at round numbers.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Scale {
    /// Returns the position of `value` between the ends: 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from)
    }
}

/// Returns a scale over `low` to `high` whose ends are ticks, with about `count` steps.
pub(super) fn round_ends(low: f64, high: f64, count: f64) -> Scale {
    let (low, high) = widened(low, high);
    let step = nice_step((high - low) / count.max(1.0));
    let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
    let ticks = ticks(first, last, step, true);
    Scale { from: first * step, to: last * step, ticks }
}

/// Returns a scale over exactly `low` to `high`, with ticks at the round numbers between. `plain` writes years, not thousands.
pub(super) fn exact_ends(low: f64, high: f64, count: f64, plain: bool) -> Scale {
    let (low, high) = widened(low, high);
    let mut step = nice_step((high - low) / count.max(1.0));
    if plain {
        step = step.max(1.0);
    }
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    Scale { from: low, to: high, ticks: ticks(first, last, step, !plain) }
}

/// Values and differences below this count as zero.
const SMALLEST: f64 = 1e-100;
/// The largest value that can be drawn; beyond it the arithmetic of scales would overflow.
pub(super) const LARGEST: f64 = 1e100;

/// Makes room round a single value, and keeps ends that doubles can still tell apart.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > (size * 1e-12).max(SMALLEST) {
        return (low, high);
    }
    let room = if size <= SMALLEST { 1.0 } else { size * 0.1 };
    (low - room, high + room)
}

fn ticks(first: f64, last: f64, step: f64, grouped: bool) -> Vec<(f64, String)> {
    let count = (last - first).clamp(0.0, 1_000.0) as usize;
    let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    let label = |value: f64| if grouped { number_with(value, decimals) } else { format!("{value:.decimals$}") };
    (0..=count).map(|index| (first + index as f64) * step).map(|value| (value, label(value))).collect()
}

/// Returns the smallest of 1, 2, 2.5, 5 times a power of ten that is not below `step`.
fn nice_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let steps = if power >= 10.0 { [1.0, 2.0, 2.5, 5.0, 10.0] } else { [1.0, 2.0, 5.0, 5.0, 10.0] };
    steps.into_iter().map(|factor| factor * power).find(|nice| *nice >= step * 0.999_999).unwrap_or(10.0 * power)
}

/// `value` with thousands separated and `decimals` decimals.
pub(super) fn number_with(value: f64, decimals: usize) -> String {
    if value.abs() >= 1e15 || (value != 0.0 && value.abs() < 1e-9) {
        return format!("{value:.2e}");
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let sign = if value < 0.0 && !is_zero { "−" } else { "" };
    if fraction.is_empty() { format!("{sign}{grouped}") } else { format!("{sign}{grouped}.{fraction}") }
}

/// `value` as a reader wants it beside a bar: two decimals at most, fewer for large numbers.
pub(super) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        large if large >= 1_000.0 => 0,
        medium if medium >= 100.0 => 1,
        small if small >= 0.1 || small == 0.0 => 2,
        _ => 4,
    };
    let text = number_with(value, decimals);
    if text.contains('.') && !text.contains('e') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Returns a moment in an ISO 8601 text, in days since 1970-01-01: `2024`, `2024-03`, `2024-03-05`, `2024-03-05T10:30:00Z`.
pub(super) fn days_of(text: &str) -> Option<f64> {
    let text = text.trim();
    let (date, time) = text.split_once(['T', ' ']).map_or((text, None), |(date, time)| (date, Some(time)));
    let mut parts = date.split('-');
    let field = |part: &str, digits: usize| (part.len() == digits).then(|| part.parse::<u32>().ok()).flatten();
    let year = field(parts.next()?, 4)?;
    let month = parts.next().map_or(Some(1), |part| field(part, 2))?;
    let day = parts.next().map_or(Some(1), |part| field(part, 2))?;
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = match time {
        None => 0.0,
        Some(time) => {
            let clock = time.split(['Z', '+', '-', '.']).next()?;
            let fields: Vec<f64> = clock.split(':').map(|part| field(part, 2).map(f64::from)).collect::<Option<_>>()?;
            fields.iter().zip([3_600.0, 60.0, 1.0]).map(|(field, seconds)| field * seconds).sum()
        }
    };
    Some(days_from_civil(i64::from(year), i64::from(month), i64::from(day)) as f64 + seconds / 86_400.0)
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar.
///
/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns the date that is `days` after 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns a scale over exactly the days `low` to `high`, with about `count` ticks at years, months, days or hours.
pub(super) fn calendar(low: f64, high: f64, count: f64) -> Scale {
    let (low, high) = if high > low { (low, high) } else { (low - 1.0, high + 1.0) };
    let step = (high - low) / count.max(1.0);
    let ticks = if step > 200.0 {
        year_ticks(low, high, nice_step((step / 365.25).max(1.0)).round() as i64)
    } else if step > 14.0 {
        let months = [1, 2, 3, 6, 12].into_iter().find(|months| *months as f64 * 30.5 >= step).unwrap_or(12);
        month_ticks(low, high, months)
    } else if step >= 0.5 {
        let days = [1_u32, 2, 5, 7, 14].into_iter().find(|days| f64::from(*days) >= step).unwrap_or(14);
        let first = low.ceil() as i64;
        (first..=high.floor() as i64).step_by(days as usize).map(|day| (day as f64, day_label(day))).collect()
    } else {
        let hours = [1, 2, 3, 6, 12].into_iter().find(|hours| f64::from(*hours) / 24.0 >= step).unwrap_or(12);
        hour_ticks(low, high, hours)
    };
    Scale { from: low, to: high, ticks }
}

fn year_ticks(low: f64, high: f64, years: i64) -> Vec<(f64, String)> {
    let (first, last) = (civil_from_days(low.floor() as i64).0, civil_from_days(high.floor() as i64).0);
    let begin = first.div_euclid(years) * years;
    (begin..=last)
        .step_by(years as usize)
        .map(|year| (days_from_civil(year, 1, 1) as f64, year.to_string()))
        .filter(|(day, _)| *day >= low && *day <= high)
        .collect()
}

fn month_ticks(low: f64, high: f64, months: i64) -> Vec<(f64, String)> {
    let (year, month, _) = civil_from_days(low.floor() as i64);
    let begin = (year * 12 + month - 1).div_euclid(months) * months;
    (0..2_000)
        .map(|index| begin + index * months)
        .map(|month| (month.div_euclid(12), month.rem_euclid(12)))
        .map(|(year, month)| (days_from_civil(year, month + 1, 1) as f64, format!("{} {year}", MONTHS[month as usize])))
        .take_while(|(day, _)| *day <= high)
        .filter(|(day, _)| *day >= low)
        .collect()
}

fn hour_ticks(low: f64, high: f64, hours: i32) -> Vec<(f64, String)> {
    let step = f64::from(hours) / 24.0;
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    let label = |index: i64| {
        let hour = index * i64::from(hours);
        if hour.rem_euclid(24) == 0 { day_label(hour.div_euclid(24)) } else { format!("{:02}:00", hour.rem_euclid(24)) }
    };
    (first..=last).take(1_000).map(|index| (index as f64 * step, label(index))).collect()
}

fn day_label(day: i64) -> String {
    let (_, month, day) = civil_from_days(day);
    format!("{day} {}", MONTHS[(month - 1) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_stand_at_round_numbers_with_thousands_separated() {
        assert_eq!(labels(&round_ends(0.0, 48_123.0, 5.0)), ["0", "10,000", "20,000", "30,000", "40,000", "50,000"]);
        assert_eq!(labels(&round_ends(-3.2, 4.1, 4.0)), ["−4", "−2", "0", "2", "4", "6"]);
        assert_eq!(labels(&round_ends(0.0, 0.31, 4.0)), ["0.0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(labels(&exact_ends(2001.0, 2017.0, 6.0, true)), ["2005", "2010", "2015"]);
        assert_eq!(labels(&exact_ends(2001.0, 2003.0, 8.0, true)), ["2001", "2002", "2003"]);
    }

    #[test]
    fn every_range_has_an_end_and_a_few_ticks() {
        let hostile = [0.0, -1.0, 1e-300, LARGEST, -LARGEST, 5e-324, 1.0, 1.0 + f64::EPSILON, 1e15 + 1.0, 123_456_789.123];
        for low in hostile {
            for high in hostile {
                if low <= high {
                    for scale in [round_ends(low, high, 6.0), exact_ends(low, high, 6.0, false), exact_ends(low, high, 6.0, true)]
                    {
                        assert!(scale.from < scale.to && scale.ticks.len() <= 1_001, "{low} {high}: {scale:?}");
                        assert!(scale.from.is_finite() && scale.to.is_finite(), "{low} {high}: {scale:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_are_short_and_exact_enough() {
        let cases = [
            (1_234_567.8, "1,234,568"),
            (123.456, "123.5"),
            (12.0, "12"),
            (0.5, "0.5"),
            (-0.001, "−0.001"),
            (-0.0, "0"),
            (1e20, "1.00e20"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn dates_are_read_and_others_are_not() {
        assert_eq!(days_of("1970-01-02"), Some(1.0));
        assert_eq!(days_of("2000-03"), Some(11_017.0));
        assert_eq!(days_of("1970-01-01T12:00:00Z"), Some(0.5));
        assert_eq!(days_of("1970-01-01 06:00"), Some(0.25));
        for text in ["", "Q1", "2024-13", "2024-1-1", "24-01-01", "2024-01-01-01", "2024-01-01Tx", "２０２４"] {
            assert_eq!(days_of(text), None, "{text}");
        }
        for day in (-800_000..800_000).step_by(997) {
            let (year, month, date) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, date), day);
        }
    }

    #[test]
    fn calendars_have_ticks_at_years_months_days_and_hours() {
        let between = |low, high| calendar(days_of(low).unwrap(), days_of(high).unwrap(), 8.0);
        assert_eq!(
            labels(&between("2001-01-01", "2017-01-01")),
            ["2002", "2004", "2006", "2008", "2010", "2012", "2014", "2016"]
        );
        assert_eq!(
            labels(&between("2012-01-01", "2012-06-30")),
            ["Jan 2012", "Feb 2012", "Mar 2012", "Apr 2012", "May 2012", "Jun 2012"]
        );
        assert_eq!(labels(&between("2012-01-30", "2012-02-03")), ["30 Jan", "31 Jan", "1 Feb", "2 Feb", "3 Feb"]);
        assert_eq!(
            labels(&between("2012-01-01T06:00", "2012-01-02T06:00")),
            ["06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "2 Jan", "03:00", "06:00"]
        );
        assert!(!labels(&between("2012-01-01", "2012-01-01")).is_empty());
    }
}
