//! `schedule.definition.v1`: a record that has ticks published, by the intervals of the seeds or a pattern of cron.
//!
//! Every interval is turned into one pattern of five fields, so there is one calendar. When clocks change, it follows Vixie cron. A
//! fixed time that does not exist is moved to the end of the gap. A fixed time that exists twice counts once. A step or `*` follows
//! the clock.

use std::time::Duration;

use baton_types::breadcrumb::{Breadcrumb, NewBreadcrumb};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::BreadcrumbError;

/// The schema of schedules.
pub const SCHEDULE_SCHEMA: &str = "schedule.definition.v1";
/// The schema of ticks.
pub const TICK_SCHEMA: &str = "schedule.tick.v1";

/// Time zone of a schedule without one.
const DEFAULT_ZONE: &str = "UTC";

/// The most labels of a schedule.
const MAX_LABELS: usize = 20;

/// Time after which a tick that was not published is missed, and after which the record of a tick ends (seed 001).
const TICK_LIFE: Duration = Duration::from_mins(5);

/// The most missed ticks that are published at once: the newest ones.
const MAX_MISSED: usize = 100;

/// A schedule, read from its record.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Whether ticks are published.
    pub is_enabled: bool,
    /// The kind of its interval, which is the tag `interval:KIND` of its ticks.
    pub kind: &'static str,
    /// Further tags of its ticks.
    pub labels: Vec<String>,
    /// The ticks that are published when a pass comes late.
    pub missed: Missed,
    zone: TimeZone,
    cron: Cron,
}

/// The ticks that are published late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// None.
    #[default]
    Skip,
    /// The last one.
    Last,
    /// All, up to a bound.
    All,
}

/// The context of the record.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    interval: Interval,
    #[serde(default = "enabled")]
    enabled: bool,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    timezone: Option<String>,
    #[serde(default)]
    missed: Missed,
}

const fn enabled() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Interval {
    Minutely {
        #[serde(default = "one")]
        every_n_minutes: u8,
    },
    Hourly {
        #[serde(default)]
        minute: u8,
    },
    Daily {
        time: String,
    },
    Weekly {
        weekdays: Vec<Weekday>,
        time: String,
    },
    Monthly {
        #[serde(default)]
        day_of_month: Option<u8>,
        #[serde(default)]
        nth_weekday: Option<NthWeekday>,
        time: String,
    },
    Cron {
        pattern: String,
    },
}

const fn one() -> u8 {
    1
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Weekday {
    Sun,
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NthWeekday {
    nth: Value,
    weekday: Weekday,
}

impl Schedule {
    /// Reads a schedule from its record.
    ///
    /// # Errors
    /// If the context is no schedule, or never has a tick.
    pub fn read(record: &Breadcrumb) -> Result<Self, BreadcrumbError> {
        Self::of(record.context.text()).map_err(|reason| BreadcrumbError::invalid("context", reason))
    }

    fn of(context: &str) -> Result<Self, String> {
        let form: Form = serde_json::from_str(context).map_err(|error| format!("the schedule cannot be read: {error}"))?;
        let zone = form.timezone.as_deref().unwrap_or(DEFAULT_ZONE);
        let known = TimeZone::get(zone);
        let zone = known.map_err(|_| format!("the time zone {zone:?} is unknown; expected a name such as \"Europe/Berlin\""))?;
        if form.labels.len() > MAX_LABELS {
            return Err(format!("a schedule has {MAX_LABELS} labels at most"));
        }
        let (kind, pattern) = form.interval.pattern()?;
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(&pattern).map_err(|error| format!("the pattern {pattern:?} cannot be read: {error}"))?;
        let Form { enabled, labels, missed, .. } = form;
        let schedule = Self { is_enabled: enabled, kind, labels, missed, zone, cron };
        match schedule.next(Timestamp::from_micros(0)) {
            Some(_) => Ok(schedule),
            None => Err(format!("no day has the time of the pattern {pattern:?}")),
        }
    }

    /// Returns the first tick after `after`.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = jiff::Timestamp::from_microsecond(after.as_micros()).ok()?.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&after, false).ok()?;
        Some(Timestamp::from_micros(next.timestamp().as_microsecond()))
    }

    /// Returns the last tick before `before`.
    fn previous(&self, before: Timestamp) -> Option<Timestamp> {
        let before = jiff::Timestamp::from_microsecond(before.as_micros()).ok()?.to_zoned(self.zone.clone());
        let previous = self.cron.find_previous_occurrence(&before, false).ok()?;
        Some(Timestamp::from_micros(previous.timestamp().as_microsecond()))
    }

    /// Returns the ticks to publish at `now`, in order, if all ticks up to `since` are settled. These are the ticks of the
    /// last five minutes, and the missed ticks before them that the schedule's policy selects, 100 at most.
    pub fn due(&self, since: Timestamp, now: Timestamp) -> Vec<Timestamp> {
        if !self.is_enabled {
            return Vec::new();
        }
        let life = i64::try_from(TICK_LIFE.as_micros()).unwrap_or(i64::MAX);
        let missed_until = Timestamp::from_micros(now.as_micros().saturating_sub(life));
        let wanted = match self.missed {
            Missed::Skip => 0,
            Missed::Last => 1,
            Missed::All => MAX_MISSED,
        };
        let back = std::iter::successors(self.previous(missed_until), |tick| self.previous(*tick));
        let mut due: Vec<Timestamp> = back.take_while(|tick| *tick > since).take(wanted).collect();
        due.reverse();
        // A tick at the bound is not missed.
        let from = Timestamp::from_micros(missed_until.as_micros().saturating_sub(1)).max(since);
        due.extend(self.ticks(from, now));
        due
    }

    /// Iterates over the ticks after `after`, up to `until` inclusive.
    pub fn ticks(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(self.next(after), |tick| self.next(*tick)).take_while(move |tick| *tick <= until)
    }
}

impl Schedule {
    /// Returns the tick at `at` of this schedule, whose record is `schedule`. It is published at `now`.
    pub fn tick(&self, schedule: &Breadcrumb, at: Timestamp, now: Timestamp) -> NewBreadcrumb {
        let context = json!({
            "schedule_id": schedule.id,
            "schedule": schedule.title,
            "interval": self.kind,
            "labels": self.labels,
            "scheduled_at": at.to_string(),
            "published_at": now.to_string(),
        });
        let tags = ["schedule:tick".to_owned(), format!("interval:{}", self.kind)];
        NewBreadcrumb {
            title: format!("Tick: {}", schedule.title),
            schema_name: Some(TICK_SCHEMA.to_owned()),
            context: Json::from(context),
            tags: tags.into_iter().chain(self.labels.iter().cloned()).collect(),
            visibility: schedule.visibility,
            sensitivity: schedule.sensitivity,
            ttl: Some(now.plus(TICK_LIFE)),
            ..NewBreadcrumb::default()
        }
    }
}

impl Interval {
    /// Returns the kind and the pattern: minute, hour, day of the month, month, day of the week.
    fn pattern(&self) -> Result<(&'static str, String), String> {
        Ok(match self {
            Self::Minutely { every_n_minutes } if *every_n_minutes == 60 || 60_u8.checked_rem(*every_n_minutes) != Some(0) => {
                return Err("every_n_minutes divides an hour: 1, 2, 3, 4, 5, 6, 10, 12, 15, 20 or 30".to_owned());
            }
            Self::Minutely { every_n_minutes } => ("minutely", format!("*/{every_n_minutes} * * * *")),
            Self::Hourly { minute: 60.. } => return Err("minute is 0 to 59".to_owned()),
            Self::Hourly { minute } => ("hourly", format!("{minute} * * * *")),
            Self::Daily { time } => ("daily", format!("{} * * *", clock(time)?)),
            Self::Weekly { weekdays, .. } if weekdays.is_empty() => {
                return Err("weekdays has at least one of sun, mon, tue, wed, thu, fri and sat".to_owned());
            }
            Self::Weekly { weekdays, time } => {
                let days: Vec<String> = weekdays.iter().map(|day| (*day as u8).to_string()).collect();
                ("weekly", format!("{} * * {}", clock(time)?, days.join(",")))
            }
            Self::Monthly { day_of_month: Some(day @ 1..=31), nth_weekday: None, time } => {
                ("monthly", format!("{} {day} * *", clock(time)?))
            }
            Self::Monthly { day_of_month: None, nth_weekday: Some(NthWeekday { nth, weekday }), time } => {
                let nth = match nth {
                    Value::String(nth) if nth == "last" => "L".to_owned(),
                    Value::Number(nth) if nth.as_u64().is_some_and(|nth| (1..=5).contains(&nth)) => nth.to_string(),
                    other => return Err(format!("nth is 1 to 5 or \"last\", not {other}")),
                };
                ("monthly", format!("{} * * {}#{nth}", clock(time)?, *weekday as u8))
            }
            Self::Monthly { .. } => {
                return Err("a monthly interval has either day_of_month, 1 to 31, or nth_weekday, such as {\"nth\": 2, \"weekday\": \"mon\"}"
                    .to_owned());
            }
            Self::Cron { pattern } if pattern.split_whitespace().count() != 5 => {
                return Err("a pattern has five fields: minute, hour, day of the month, month, day of the week".to_owned());
            }
            Self::Cron { pattern } => {
                check_steps(pattern)?;
                ("cron", pattern.clone())
            }
        })
    }
}

/// Refuses a step that is longer than its field: it would be no interval of that length.
fn check_steps(pattern: &str) -> Result<(), String> {
    let fields = [("minute", 60), ("hour", 24), ("day of the month", 31), ("month", 12), ("day of the week", 7)];
    for ((name, most), field) in fields.into_iter().zip(pattern.split_whitespace()) {
        for step in field.split(',').filter_map(|part| part.split_once('/')?.1.parse::<u32>().ok()) {
            if step >= most {
                return Err(format!("the step /{step} of the {name} is too long; a step there is less than {most}"));
            }
        }
    }
    Ok(())
}

/// Returns the minute and the hour of a time such as `09:30`, as a pattern has them.
fn clock(time: &str) -> Result<String, String> {
    let number = |text: &str, most: u8| text.parse::<u8>().ok().filter(|number| text.len() == 2 && *number <= most);
    let parts = time.split_once(':').and_then(|(hour, minute)| Some((number(hour, 23)?, number(minute, 59)?)));
    match parts {
        Some((hour, minute)) => Ok(format!("{minute} {hour}")),
        None => Err(format!("the time {time:?} cannot be read; expected hours and minutes such as \"09:30\"")),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Span;
    use jiff::civil::{Date, DateTime, Weekday, date};

    use super::*;

    /// Whether a local time has a tick, by the words of an interval.
    type Matches = fn(DateTime) -> bool;

    fn of(interval: &Value, zone: &str) -> Result<Schedule, String> {
        Schedule::of(&json!({"interval": interval, "timezone": zone}).to_string())
    }

    /// A minute of a year.
    struct Minute {
        at: Timestamp,
        local: DateTime,
        /// The local times before it that do not exist.
        skipped: Vec<DateTime>,
        /// Whether its local time exists twice, and this is the second time.
        is_second_time: bool,
    }

    impl Minute {
        /// Returns the minutes of 2027.
        fn all(zone: &TimeZone) -> Vec<Self> {
            let minute = Span::new().minutes(1);
            let mut at = date(2027, 1, 1).to_zoned(zone.clone()).unwrap();
            let (end, mut minutes) = (date(2028, 1, 1).to_zoned(zone.clone()).unwrap(), Vec::new());
            let mut expected = at.datetime();
            while at < end {
                let local = at.datetime();
                let ambiguous = zone.to_ambiguous_zoned(local);
                let is_second_time = ambiguous.is_ambiguous() && ambiguous.earlier().unwrap() < at;
                let mut skipped = Vec::new();
                while expected < local {
                    skipped.push(expected);
                    expected = expected.checked_add(minute).unwrap();
                }
                expected = local.checked_add(minute).unwrap();
                let micros = at.timestamp().as_microsecond();
                minutes.push(Self { at: Timestamp::from_micros(micros), local, skipped, is_second_time });
                at = at.checked_add(minute).unwrap();
            }
            minutes
        }

        /// Whether it has a tick. A fixed time that does not exist is moved to the end of the gap, and one that exists twice counts once.
        fn has_tick(&self, matches: Matches, is_fixed: bool) -> bool {
            let is_moved = is_fixed && self.skipped.iter().any(|local| matches(*local));
            is_moved || (matches(self.local) && !(is_fixed && self.is_second_time))
        }
    }

    fn is_nth(day: Date, nth: i8, weekday: Weekday) -> bool {
        day.nth_weekday_of_month(nth, weekday).is_ok_and(|found| found == day)
    }

    #[test]
    fn a_year_of_every_interval_equals_a_calendar_of_its_own() {
        let intervals: [(Value, Matches, bool); 10] = [
            (json!({"type": "minutely", "every_n_minutes": 20}), |at| at.minute() % 20 == 0, false),
            (json!({"type": "minutely", "every_n_minutes": 15}), |at| at.minute() % 15 == 0, false),
            (json!({"type": "hourly", "minute": 7}), |at| at.minute() == 7, false),
            (json!({"type": "daily", "time": "02:30"}), |at| (at.hour(), at.minute()) == (2, 30), true),
            (json!({"type": "daily", "time": "01:15"}), |at| (at.hour(), at.minute()) == (1, 15), true),
            (
                json!({"type": "weekly", "weekdays": ["sun", "wed"], "time": "02:05"}),
                |at| matches!(at.weekday(), Weekday::Sunday | Weekday::Wednesday) && (at.hour(), at.minute()) == (2, 5),
                true,
            ),
            (
                json!({"type": "monthly", "day_of_month": 31, "time": "23:59"}),
                |at| at.day() == 31 && (at.hour(), at.minute()) == (23, 59),
                true,
            ),
            (
                json!({"type": "monthly", "nth_weekday": {"nth": 5, "weekday": "fri"}, "time": "00:00"}),
                |at| is_nth(at.date(), 5, Weekday::Friday) && (at.hour(), at.minute()) == (0, 0),
                true,
            ),
            (
                json!({"type": "monthly", "nth_weekday": {"nth": "last", "weekday": "sun"}, "time": "02:30"}),
                |at| is_nth(at.date(), -1, Weekday::Sunday) && (at.hour(), at.minute()) == (2, 30),
                true,
            ),
            (
                json!({"type": "cron", "pattern": "0 9-17 * 3,10 1-5"}),
                |at| {
                    at.minute() == 0
                        && (9..=17).contains(&at.hour())
                        && matches!(at.month(), 3 | 10)
                        && !matches!(at.weekday(), Weekday::Saturday | Weekday::Sunday)
                },
                true,
            ),
        ];
        // Clocks change at 2:00, at 2:00 on another day, by half an hour, at midnight, and never.
        for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Asia/Kolkata"] {
            let tz = TimeZone::get(zone).unwrap();
            let [from, until] = [(2027, 1), (2028, 1)].map(|(year, month)| {
                let at = date(year, month, 1).to_zoned(tz.clone()).unwrap();
                Timestamp::from_micros(at.timestamp().as_microsecond() - 1)
            });
            let minutes = Minute::all(&tz);
            for (interval, matches, is_fixed) in &intervals {
                let schedule = of(interval, zone).unwrap();
                let ticks: Vec<Timestamp> = schedule.ticks(from, until).collect();
                let expected: Vec<Timestamp> =
                    minutes.iter().filter(|minute| minute.has_tick(*matches, *is_fixed)).map(|minute| minute.at).collect();
                let mut back: Vec<Timestamp> =
                    std::iter::successors(schedule.previous(until.plus(Duration::from_micros(1))), |tick| {
                        schedule.previous(*tick)
                    })
                    .take_while(|tick| *tick > from)
                    .collect();
                back.reverse();
                assert!(back == ticks, "{interval} in {zone}: {} ticks, and {} back in time", ticks.len(), back.len());
                let differs = (0..ticks.len().max(expected.len())).find(|at| ticks.get(*at) != expected.get(*at));
                let at = differs.map(|at| (ticks.get(at).map(ToString::to_string), expected.get(at).map(ToString::to_string)));
                assert!(at.is_none(), "{interval} in {zone}: {at:?}");
                assert!(!ticks.is_empty(), "{interval} in {zone}");
            }
        }
    }

    #[test]
    fn what_a_late_pass_publishes_follows_from_the_policy() {
        let schedule = |missed: &str, enabled: bool| {
            let form = json!({"interval": {"type": "hourly", "minute": 0}, "missed": missed, "enabled": enabled});
            Schedule::of(&form.to_string()).unwrap()
        };
        let at = |hour: i64, minute: i64| Timestamp::from_micros((hour * 60 + minute) * 60_000_000);
        let due = |missed: &str, since, now| schedule(missed, true).due(since, now);
        let all: Vec<Timestamp> = (2..=6).map(|hour| at(hour, 0)).collect();
        for (missed, expected) in [("skip", &all[4..]), ("last", &all[3..]), ("all", &all[..])] {
            assert_eq!(due(missed, at(1, 0), at(6, 5)), expected, "{missed}: five minutes late is in time");
        }
        for (missed, expected) in [("skip", &all[5..]), ("last", &all[4..]), ("all", &all[..])] {
            assert_eq!(due(missed, at(1, 0), at(6, 6)), expected, "{missed}: six minutes late is missed");
        }
        assert_eq!(due("last", at(6, 0), at(6, 30)), [], "the last one is settled");
        assert_eq!(due("skip", at(5, 30), at(6, 0)), [at(6, 0)], "a tick is due at its moment");
        assert_eq!(due("all", at(0, 0), at(5000, 0)).len(), 101);
        assert_eq!(due("all", at(0, 0), at(5000, 0))[0], at(4900, 0), "the newest ones");
        assert_eq!(due("all", at(9, 0), at(6, 0)), [], "a clock that goes back publishes nothing");
        assert_eq!(schedule("all", false).due(at(1, 0), at(6, 0)), []);
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_the_reason() {
        let faults = [
            (json!({"type": "minutely", "every_n_minutes": 0}), "every_n_minutes divides an hour"),
            (json!({"type": "hourly", "minute": 60}), "minute is 0 to 59"),
            (json!({"type": "daily", "time": "9:30"}), "expected hours and minutes such as \"09:30\""),
            (json!({"type": "daily", "time": "24:00"}), "cannot be read; expected hours"),
            (json!({"type": "weekly", "weekdays": [], "time": "09:30"}), "weekdays has at least one"),
            (json!({"type": "monthly", "time": "09:30"}), "either day_of_month"),
            (json!({"type": "monthly", "day_of_month": 0, "time": "09:30"}), "either day_of_month"),
            (json!({"type": "monthly", "nth_weekday": {"nth": 6, "weekday": "mon"}, "time": "09:30"}), "nth is 1 to 5"),
            (json!({"type": "cron", "pattern": "0 0 30 2 *"}), "no day has the time"),
            (json!({"type": "cron", "pattern": "* * * * * *"}), "a pattern has five fields"),
            (json!({"type": "cron", "pattern": "99 * * * *"}), "cannot be read"),
            (json!({"type": "cron", "pattern": "5,*/90 * * * *"}), "the step /90 of the minute is too long"),
            (json!({"type": "cron", "pattern": "0 */24 * * *"}), "the step /24 of the hour is too long"),
            (json!({"type": "yearly"}), "the schedule cannot be read"),
        ];
        for (interval, reason) in faults {
            let error = of(&interval, "UTC").expect_err(&interval.to_string());
            assert!(error.contains(reason), "{interval}: {error}");
        }
        let error = of(&json!({"type": "minutely"}), "Europe/Atlantis").unwrap_err();
        assert!(error.contains("is unknown"), "{error}");
    }
}
