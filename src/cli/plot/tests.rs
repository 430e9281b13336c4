//! Pictures as an operator sees them, and what holds for every picture.

use proptest::prelude::*;

use super::*;
use crate::cli::text::columns;

const HOUR: i64 = 3_600_000_000;
/// 2025-11-20 00:00 UTC, a Thursday.
const MIDNIGHT: i64 = 1_763_596_800_000_000;

#[test]
fn a_day_in_80_columns() {
    let drawn = text(&day(), 80, 17, false);
    assert_eq!(drawn, DAY_80, "\n{drawn}");
}

#[test]
fn classes_in_80_columns() {
    let drawn = text(&classes(), 80, 12, false);
    assert_eq!(drawn, CLASSES_80, "\n{drawn}");
}

#[test]
fn a_small_plot_in_colour() {
    let drawn = text(&classes(), 40, 9, true).replace('\x1b', "ESC");
    assert_eq!(drawn, SMALL, "\n{drawn}");
}

#[test]
fn colours_only_colour() {
    for plot in [day(), classes()] {
        assert_eq!(plain(&text(&plot, 80, 17, true)), text(&plot, 80, 17, false));
    }
}

#[test]
fn a_value_stands_in_the_row_of_its_label() {
    let points = [0.0, 50.0, 100.0, 150.0, 200.0, 250.0];
    let line = alone("x", points.iter().enumerate().map(|(hour, value)| (hour as i64 * 2, *value)));
    let drawn = text(&hours(12, PlotUnit::Millis, vec![line]), 80, 15, false);
    for (label, hour) in [("250 ms", 10), ("200 ms", 8), ("150 ms", 6), ("100 ms", 4), (" 50 ms", 2), ("     0", 0)] {
        let row = drawn.lines().find(|row| row.starts_with(label)).unwrap();
        let column = row.chars().position(|c| c == 'a').unwrap();
        let expected = 8.0 + f64::from(hour) / 12.0 * 71.0;
        assert!((column as f64 - expected).abs() <= 1.0, "{label}: {column}, not {expected}\n{drawn}");
        assert_eq!(row.matches('a').count(), 1, "{drawn}");
    }
}

#[test]
fn a_missing_step_is_a_gap() {
    let with = |hours_: &[i64]| {
        let line = PlotLine { points: hours_.iter().rev().map(|hour| (at(*hour), 9.0)).collect(), ..named("x") };
        let drawn = text(&hours(12, PlotUnit::PerSecond, vec![line]), 80, 12, false);
        drawn.chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count()
    };
    // Seventy columns are twelve hours.
    assert!((32..=36).contains(&with(&[2, 3, 4, 5, 6, 7, 8])), "{}", with(&[2, 3, 4, 5, 6, 7, 8]));
    assert!((20..=25).contains(&with(&[2, 3, 4, 6, 7, 8])), "{}", with(&[2, 3, 4, 6, 7, 8]));
    assert_eq!(with(&[2, 4, 6, 8]), 0);
}

#[test]
fn nothing_leads_to_a_value_that_is_only_known_to_be_above() {
    let line = PlotLine { points: vec![(at(1), 5.0), (at(3), 5.0)], open: vec![(at(2), 10.0)], name: "x".to_owned() };
    let drawn = text(&hours(12, PlotUnit::PerSecond, vec![line]), 80, 12, false);
    assert!(!drawn.contains(|c| ('\u{2801}'..='\u{28ff}').contains(&c)), "{drawn}");
    let rows: Vec<&str> = drawn.lines().collect();
    let row = rows.iter().position(|row| row.starts_with("10/s")).unwrap();
    assert_eq!(rows[row - 1].find('^').map(|at| rows[row - 1][..at].chars().count()), letter_at(rows[row], 'a'));
    assert!(drawn.ends_with("a x   ^ somewhere above\n"), "{drawn}");
}

#[test]
fn marks_in_one_cell_are_told() {
    let drawn =
        text(&hours(12, PlotUnit::PerSecond, vec![alone("x", [(3, 5.0)]), alone("y", [(3, 5.0)])]), 80, 12, false);
    assert!(drawn.ends_with("a x   b y   * several lines\n"), "{drawn}");
    assert_eq!(drawn.matches('*').count(), 2, "{drawn}");
}

#[test]
fn equal_lines_show_both_letters() {
    let both = ["x", "y"].map(|name| alone(name, (0..12).map(|hour| (hour, 7.0))));
    let drawn = text(&hours(12, PlotUnit::PerSecond, both.into()), 80, 12, false);
    let row = drawn.lines().find(|row| row.contains('│') && row.contains('a')).unwrap();
    assert!(row.contains('a') && row.contains('b') && !row.contains('*'), "{row}");
}

#[test]
fn the_axis_begins_at_zero_unless_the_values_are_close_together() {
    let labels = |values: &[f64], unit| {
        let line = alone("x", values.iter().enumerate().map(|(hour, value)| (hour as i64, *value)));
        let drawn = text(&hours(12, unit, vec![line]), 80, 16, false);
        let mut labels: Vec<String> =
            drawn.lines().filter_map(|row| row.split_once(" │")).map(|(label, _)| label.trim().to_owned()).collect();
        labels.retain(|label| !label.is_empty());
        labels.reverse();
        (labels.join(", "), drawn.contains("does not begin at 0"))
    };
    let zero = |text: &str| (text.to_owned(), false);
    assert_eq!(labels(&[230.0, 12.0], PlotUnit::Millis), zero("0, 50 ms, 100 ms, 150 ms, 200 ms, 250 ms"));
    assert_eq!(labels(&[1430.0, 12.0], PlotUnit::Millis), zero("0, 0.5 s, 1.0 s, 1.5 s"));
    assert_eq!(labels(&[300.0], PlotUnit::TokensPerSecond).0.split(", ").last(), Some("300 tok/s"));
    assert_eq!(labels(&[25_000.0, 1.0], PlotUnit::PerSecond), zero("0, 5k/s, 10k/s, 15k/s, 20k/s, 25k/s"));
    assert_eq!(labels(&[-200.0, 200.0], PlotUnit::Millis), zero("-200 ms, -100 ms, 0, 100 ms, 200 ms"));
    assert_eq!(labels(&[-0.5, 0.0], PlotUnit::Dollars).0.split(", ").next(), Some("-$0.5"));
    let narrow = "99.2 %, 99.4 %, 99.6 %, 99.8 %, 100.0 %";
    assert_eq!(labels(&[99.9, 99.2], PlotUnit::Percent), (narrow.to_owned(), true));
}

#[test]
fn times_are_written_as_their_span_asks() {
    let labels = |span_us: i64, width: u16| {
        let x = XAxis::Time { from_us: MIDNIGHT, until_us: MIDNIGHT + span_us, step_us: 0 };
        let ticks = PlacedAxis::new(&x).ticks(width);
        ticks.into_iter().map(|(_, label)| label).take(3).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(labels(HOUR / 60, 70), "00:00:00, 00:00:10, 00:00:20");
    assert_eq!(labels(HOUR, 70), "00:00, 00:10, 00:20");
    assert_eq!(labels(24 * HOUR, 70), "00:00, 03:00, 06:00");
    assert_eq!(labels(72 * HOUR, 70), "Thu 00:00, Thu 12:00, Fri 00:00");
    assert_eq!(labels(30 * 24 * HOUR, 70), "11-24, 12-01, 12-08");
    assert_eq!(labels(24 * HOUR, 150), "00:00, 02:00, 04:00");
    assert_eq!(labels(1000 * 24 * HOUR, 70).split(", ").next().map(str::len), Some(10));
}

#[test]
fn names_fit_and_are_harmless() {
    let names = ["a\u{1b}[2J\nb", "東京/モデル-東京/モデル-東京/モデル-東京/モデル", "e\u{202e}x", ""];
    let drawn = text(&hours(12, PlotUnit::PerSecond, names.map(named).into()), 40, 12, false);
    assert!(!drawn.contains(['\u{1b}', '\u{202e}']) && drawn.contains("a a\\u{1b}[2J\\nb (no data)"), "{drawn}");
    let (_, legend) = drawn.split_once("UTC").unwrap();
    assert!(legend.contains("b 東京/モデル") && legend.contains("…") && legend.contains("c e\\u{202e}x"), "{legend}");
    assert!(drawn.lines().all(|line| columns(line) <= 40), "{drawn}");
}

#[test]
fn no_line_and_no_class_are_no_panic() {
    let drawn = text(&hours(12, PlotUnit::Millis, vec![]), 80, 12, false);
    assert!(drawn.contains("00:00") && drawn.ends_with("UTC\n"), "{drawn}");
    let none = Plot { x: XAxis::Classes { name: "", labels: vec![] }, ..hours(1, PlotUnit::Millis, vec![named("x")]) };
    assert!(text(&none, 80, 12, false).ends_with("a x (no data)\n"));
}

proptest! {
    #[test]
    fn any_plot_fits(
        lines in prop::collection::vec((".{0,30}", points(), points()), 0..12),
        unit in prop::sample::select(vec![
            PlotUnit::Millis, PlotUnit::TokensPerSecond, PlotUnit::PerSecond, PlotUnit::Percent, PlotUnit::Dollars,
        ]),
        x in prop_oneof![
            (any::<i64>(), any::<i64>(), any::<i64>()).prop_map(|(from_us, until_us, step_us)| (from_us, until_us, step_us)),
            (0i64..100, 0i64..100, 0i64..20),
        ],
        classes in prop::option::of(prop::collection::vec(".{0,12}", 0..30)),
        title in ".{0,60}",
        width in 0u16..200,
        height in 0u16..60,
    ) {
        let lines: Vec<PlotLine> =
            lines.into_iter().map(|(name, points, open)| PlotLine { name, points, open }).collect();
        let x = match classes {
            Some(labels) => XAxis::Classes { name: &title, labels },
            None => XAxis::Time { from_us: x.0, until_us: x.1, step_us: x.2 },
        };
        let plot = Plot { title: &title, unit, x, lines };
        let drawn = text(&plot, width, height, false);
        prop_assert!(!drawn.contains('\x1b'));
        for line in drawn.lines() {
            prop_assert!(columns(line) <= usize::from(width), "{line:?}");
            prop_assert_eq!(line.trim_end(), line);
        }
        prop_assert_eq!(plain(&text(&plot, width, height, true)), drawn);
    }

    #[test]
    fn labels_rise_and_hold_the_values(values in prop::collection::vec(-1e6f64..1e6, 1..20), rows in 3u16..60) {
        let scale = Scale::new(values.iter().copied(), PlotUnit::TokensPerSecond, rows);
        let labels = &scale.labels;
        prop_assert!(scale.rows <= rows && labels.len() >= 2);
        prop_assert_eq!(usize::from(scale.rows - 1) % (labels.len() - 1), 0, "each has its row");
        let number = |label: &str| {
            let digits = label.trim_end_matches(" tok/s");
            let thousands = digits.strip_suffix('k').map(|digits| digits.parse::<f64>().unwrap() * 1e3);
            thousands.unwrap_or_else(|| digits.parse().unwrap())
        };
        prop_assert!(labels.windows(2).all(|pair| number(&pair[0]) < number(&pair[1])), "{labels:?}");
        let (lowest, highest) = (number(&labels[0]), number(&labels[labels.len() - 1]));
        // A value may lie beyond an end by what no eye sees: a millionth of the way between two ticks.
        let slack = 1e-3 + 1e-6 * (highest - lowest) / (labels.len() - 1) as f64;
        for value in values {
            prop_assert!(lowest - slack <= value && value <= highest + slack, "{labels:?}");
        }
    }
}

fn points() -> impl Strategy<Value = Vec<(f64, f64)>> {
    let small = (0.0..100f64, 0.0..1000f64);
    prop::collection::vec(prop_oneof![small, (any::<f64>(), any::<f64>()), (0.0..100f64, any::<f64>())], 0..40)
}

fn text(plot: &Plot<'_>, width: u16, height: u16, colour: bool) -> String {
    let mut out = Vec::new();
    write(plot, width, height, colour, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Without escape codes.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').unwrap().1)
}

/// Column of a letter behind the axis.
fn letter_at(row: &str, letter: char) -> Option<usize> {
    let axis = row.chars().position(|c| c == '│')?;
    row.chars().skip(axis).position(|c| c == letter).map(|at| at + axis)
}

fn at(hour: i64) -> f64 {
    (MIDNIGHT + hour * HOUR) as f64
}

fn named(name: &str) -> PlotLine {
    PlotLine { name: name.to_owned(), ..PlotLine::default() }
}

fn alone(name: &str, values: impl IntoIterator<Item = (i64, f64)>) -> PlotLine {
    PlotLine { points: values.into_iter().map(|(hour, value)| (at(hour), value)).collect(), ..named(name) }
}

fn hours(count: i64, unit: PlotUnit, lines: Vec<PlotLine>) -> Plot<'static> {
    let x = XAxis::Time { from_us: MIDNIGHT, until_us: MIDNIGHT + count * HOUR, step_us: HOUR };
    Plot { title: "A title", unit, x, lines }
}

/// Three upstreams: one whole, one with a gap and a point alone, one with two open points.
fn day() -> Plot<'static> {
    let value =
        |base: f64, hour: i64| base + base * 0.3 * (hour as f64 / 3.0).sin() + if hour == 14 { 200.0 } else { 0.0 };
    let line = |name: &str, base: f64, left_out: &[i64]| {
        alone(name, (0..24).filter(|hour| !left_out.contains(hour)).map(|hour| (hour, value(base, hour))))
    };
    let open = vec![(at(9), 700.0), (at(10), 700.0)];
    let lines = vec![
        line("groq/llama-3.3-70b-versatile", 180.0, &[]),
        line("cerebras/llama-3.3-70b", 320.0, &[5, 6, 7, 9, 10]),
        PlotLine { open, ..line("openrouter/meta-llama/llama-3.3-70b-instruct", 620.0, &[9, 10]) },
    ];
    Plot { title: "TTFT p95 by upstream", ..hours(24, PlotUnit::Millis, lines) }
}

fn classes() -> Plot<'static> {
    let labels = ["1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65+"].map(str::to_owned).to_vec();
    let lines = vec![
        PlotLine {
            points: (0..8).map(|class| (f64::from(class), 118.0 - 9.0 * f64::from(class))).collect(),
            ..named("x/one")
        },
        PlotLine { points: vec![(0.0, 60.0), (1.0, 58.0), (5.0, 31.0)], ..named("y/two") },
    ];
    let x = XAxis::Classes { name: "attempts in flight", labels };
    Plot { title: "tok/s p50 by concurrency", unit: PlotUnit::TokensPerSecond, x, lines }
}

const DAY_80: &str = "\
TTFT p95 by upstream
1.0 s │·       ·       ·       ·       ·       ·       ·       ·       ·       ·
      │
0.8 s │·      ⣀⡠⠤⠤⠒c⠒⠒⠒⠒⠤⠤⠤⣀⣀  ·  ^  ^ ·       ·       ·       ·       ⢀⣀⠤⠤⠔⠒  ·
      │  ⣀⠤⠒⠊⠉               ⠉⠑c  c  c                           ⢀⣀c⠔⠒⠉⠁
0.6 s │⠒⠉      ·       ·       ·       ·       ·⢀⠎⢆    ·     ⣀⡠⠔⠊⠁     ·       ·
      │                                 ⠉⠒⠒c⢄⣀ ⡰⠁  ⠱⡀ ⢀c⡠⠤⠒⠊⠉
0.4 s │· ⢀⣀⣀⠤b⠤⠒⠒⠒⠒⠂   ·       b       ·      ⠉·⢀⠔⢄ ⠈⠉⠁·       ·   b⣀⡠⠤⠤⠔⠒⠒⠒⠒  ·
      │⠒⠉⠁                              ⣀⣀     ⡠⠃⠎⢆⠣⡀    ⢀⣀⣀⡠⠤⠤⠔⠒⠊⠉
0.2 s │a⠤⠤⠤⠤⠒⠒⠒⠉⠉⠉⠉a⠉⠉⠉⠉⠉⠉⠉⠒⠒⠒⠒a⠒⠤⠤⠤⣀⣀⣀⣀⣀⣀⠉b⠉⠉⠉⡰⠁  ⠱⠈⠉⠉b⠉⠁  ⢀⣀⣀⡠⠤⠤⠔a⠒⠒⠒⠒⠊⠉⠉⠉⠉  ·
      │                                   ⠉a⠉⠉⠉     ⠈⠉⠉a⠉⠉⠉⠉⠁
    0 │·       ·       ·       ·       ·       ·       ·       ·       ·       ·
      └┬────────┬────────┬────────┬────────┬────────┬────────┬────────┬────────┬
     00:00    03:00    06:00    09:00    12:00    15:00    18:00    21:00  00:00
                       2025-11-20 00:00 to 2025-11-21 00:00, UTC
a groq/llama-3.3-70b-versatile   b cerebras/llama-3.3-70b
c openrouter/meta-llama/llama-3.3-70b-instruct   ^ somewhere above
";

const CLASSES_80: &str = "\
tok/s p50 by concurrency
150 tok/s │·       ·       ·       ·       ·       ·       ·       ·       ·
          │    a⣀⣀⣀⣀
100 tok/s │·       ·⠉⠉⠉⠉⠉⠉⠑⠒⠒⠒⠢⠤a⠤⠤⠤⠤⣀⣀⣀⣀⣀⣀⣀⣀⡀     ·       ·       ·       ·
          │                                  ⠈⠉⠉⠉a⠉⠉⠒⠒⠒⠒⠤⠤⠤⠤⠤⠤⢄⣀⣀⣀a⣀⣀
 50 tok/s │·   ⠈⠉⠉⠉⠉⠉⠉⠉⠉b  ·       ·       ·       ·       ·       · ⠉⠉⠉⠉⠒⠒⠂
          │                                               b
        0 │·       ·       ·       ·       ·       ·       ·       ·       ·
          └────┬────────┬───────┬────────┬───────┬────────┬───────┬────────┬────
               1        2      3-4      5-8    9-16     17-32   33-64     65+
                                    attempts in flight
a x/one   b y/two
";

const SMALL: &str = "\
tok/s p50 by concurrency
200 tok/s │ESC[38;5;244m·       ·       ·       ·ESC[0m
          │
100 tok/s │ESC[38;5;244m· ESC[38;5;33ma⠉⠒⠒⠒⠢⠤⠤⠤⠤⠤⠤⢄⣀a⣀      ESC[38;5;244m·ESC[0m
          │  ESC[38;5;208m⠒⠒⠒b            ESC[38;5;33m⠉ESC[38;5;208mbESC[38;5;33m⠉⠉⠉⠉⠉⠒⠒ESC[0m
        0 │ESC[38;5;244m·       ·       ·       ·ESC[0m
          └──┬─────────┬──────────┬─────
             1        5-8       33-64
                attempts in flight
ESC[38;5;33maESC[0m x/one   ESC[38;5;208mbESC[0m y/two
";
