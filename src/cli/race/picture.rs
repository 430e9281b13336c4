//! A race at one moment: a line for each attempt, with a bar on one common axis of time. Pure: a board, a time and a screen
//! in, lines out.

use super::board::{BoardAttempt, BoardLine, DrawnState, RaceBoard};
use crate::cli::screen::ScreenSettings;
use crate::cli::text::{clean, columns, fitted, millis, padded, painted, shortened};

/// The axis of a running race grows in these steps, times a power of ten, so that it seldom jumps; microseconds.
const STEPS: [i64; 3] = [10_000, 20_000, 50_000];
/// The axis of a decided race: its bars fill at least two thirds of the width.
const STEPS_AT_THE_END: [i64; 9] = [10_000, 12_000, 15_000, 20_000, 25_000, 30_000, 40_000, 50_000, 70_000];
/// The shortest axis of a running race.
const AXIS_LEAST_US: i64 = 100_000;
/// Columns of the least bar; with fewer there is none.
const BAR_LEAST: usize = 12;
/// Columns of the longest bar.
const BAR_MAX: usize = 100;
const BETWEEN: &str = "  ";

const CONNECTING: char = '·';
const SENT: char = '─';
const HEADERS: char = '━';
const STREAMING: char = '█';
const FIRST_TOKEN: char = '◆';
const CUT: char = '×';
const FAILED: char = '!';
const LEGEND: [(char, &str); 7] = [
    (CONNECTING, "connecting"),
    (SENT, "sent"),
    (HEADERS, "headers"),
    (FIRST_TOKEN, "first token"),
    (STREAMING, "streaming"),
    (CUT, "cut"),
    (FAILED, "failed"),
];

const GREEN: &str = "\x1b[38;5;35m";
const RED: &str = "\x1b[38;5;160m";
const GREY: &str = "\x1b[38;5;244m";

/// The lines at `now_us` after the request was read, none wider than the screen and not more than it has rows.
pub fn draw(board: &RaceBoard, screen: ScreenSettings, now_us: i64) -> Vec<String> {
    // A line that fills the last column would wrap on some terminals.
    let width = usize::from(screen.width).saturating_sub(1);
    let axis_us = axis(board, now_us);
    // With the axis and the legend.
    let rows = usize::from(screen.height).saturating_sub(2).max(1);
    let shown = shown(board, rows);
    let statuses: Vec<String> = shown.iter().map(|line| status(line, board)).collect();
    let layout = Layout::new(&shown, &statuses, width);
    let bar = |line: &&BoardLine| line.run.as_ref().map(|run| bar(run, axis_us, now_us, layout.bar));
    let bars: Vec<String> = shown.iter().map(|line| bar(line).unwrap_or_default()).collect();
    let names: Vec<String> = shown.iter().map(|line| clean(&line.upstream)).collect();
    let names = shortened(&names, layout.name);
    let line = |(((line, name), bar), status): (((&&BoardLine, &String), &String), &String)| {
        layout.line(name, bar, status, colour(line, board).filter(|_| screen.colour))
    };
    let mut lines: Vec<String> = shown.iter().zip(&names).zip(&bars).zip(&statuses).map(line).collect();
    let left_out = board.lines.len() - shown.len();
    if left_out > 0 {
        lines.push(fitted(&format!("… and {left_out} more"), width));
    }
    if layout.bar > 0 {
        lines.push(layout.axis(axis_us));
        let legend = legend(&bars, board.committed);
        if columns(&legend) <= width {
            lines.push(legend);
        }
    }
    lines
}

/// Of a running race all marks, and of a decided one those that are drawn.
fn legend(bars: &[String], committed: bool) -> String {
    let shown = LEGEND.iter().filter(|(mark, _)| !committed || bars.iter().any(|bar| bar.contains(*mark)));
    shown.map(|(mark, what)| format!("{mark} {what}")).collect::<Vec<_>>().join("  ")
}

/// Up to the end of what is drawn, rounded up.
fn axis(board: &RaceBoard, now_us: i64) -> i64 {
    let ends = board.lines.iter().filter_map(|line| line.run.as_ref()?.end.as_ref()).map(|end| end.at_us);
    // Of a race that is over nothing happens now.
    let last = ends.fold(if board.over { 0 } else { now_us }, i64::max);
    let (steps, least) = if board.committed { (&STEPS_AT_THE_END[..], 0) } else { (&STEPS[..], AXIS_LEAST_US) };
    let mut axes = (0..11).flat_map(|power| steps.iter().map(move |step| step * 10_i64.pow(power)));
    axes.find(|axis| *axis >= last.max(least)).unwrap_or(last)
}

/// At most `rows` lines; started attempts are kept first.
fn shown(board: &RaceBoard, rows: usize) -> Vec<&BoardLine> {
    if board.lines.len() <= rows {
        return board.lines.iter().collect();
    }
    let rows = rows.saturating_sub(1).max(1);
    let started = board.lines.iter().filter(|line| line.run.is_some());
    let waiting = board.lines.iter().filter(|line| line.run.is_none());
    let mut kept: Vec<&BoardLine> = started.chain(waiting).collect();
    // The winner is always shown.
    kept.sort_by_key(|line| !line.run.as_ref().is_some_and(|run| run.won));
    kept.truncate(rows);
    kept
}

fn status(line: &BoardLine, board: &RaceBoard) -> String {
    let Some(run) = &line.run else {
        return if board.committed || board.over { "not started" } else { "waiting to start" }.to_owned();
    };
    let ttft = run.first_token_us.map(|at_us| millis(at_us - run.dispatch_us));
    match (&run.end, &ttft) {
        (Some(end), Some(ttft)) if run.won => match &end.how {
            DrawnState::Done => format!("won, {ttft}"),
            how => format!("won, {ttft}; {}", how.words()),
        },
        (Some(end), None) if matches!(end.how, DrawnState::Lost(_) | DrawnState::Cancelled) => {
            format!("{}, > {}", end.how.words(), millis(end.at_us - run.dispatch_us))
        }
        (Some(end), _) => end.how.words(),
        (None, Some(ttft)) if run.won => format!("won, {ttft}"),
        (None, _) if board.committed => "lost: runs on".to_owned(),
        (None, Some(ttft)) => format!("first token, {ttft}"),
        (None, None) if run.headers_us.is_some() => "headers".to_owned(),
        (None, None) if run.connected_us.is_some() => "sent".to_owned(),
        (None, None) => "connecting".to_owned(),
    }
}

fn colour(line: &BoardLine, board: &RaceBoard) -> Option<&'static str> {
    match &line.run {
        None => Some(GREY),
        Some(run) if matches!(run.end.as_ref().map(|end| &end.how), Some(DrawnState::Failed(_))) => Some(RED),
        Some(run) if run.won => Some(GREEN),
        Some(_) if board.committed => Some(GREY),
        Some(_) => None,
    }
}

/// One character per cell: the phases of the attempt, and over them the marks of single moments.
fn bar(run: &BoardAttempt, axis_us: i64, now_us: i64, width: usize) -> String {
    if width == 0 {
        return String::new();
    }
    let cell = |at_us: i64| {
        let place = i128::from(at_us.max(0)) * width as i128 / i128::from(axis_us.max(1));
        usize::try_from(place).map_or(width - 1, |place| place.min(width - 1))
    };
    let end_us = run.end.as_ref().map_or(now_us, |end| end.at_us).max(run.dispatch_us);
    let mut cells = vec![' '; width];
    let phases = [
        (Some(run.dispatch_us), CONNECTING),
        (run.connected_us, SENT),
        (run.headers_us, HEADERS),
        (run.first_token_us, STREAMING),
    ];
    for (since, mark) in phases {
        if let Some(since_us) = since {
            cells[cell(since_us)..=cell(end_us).max(cell(since_us))].fill(mark);
        }
    }
    if let Some(at_us) = run.first_token_us {
        cells[cell(at_us)] = FIRST_TOKEN;
    }
    match run.end.as_ref().map(|end| &end.how) {
        Some(DrawnState::Failed(_)) => cells[cell(end_us)] = FAILED,
        Some(DrawnState::Lost(_) | DrawnState::Cancelled) => cells[cell(end_us)] = CUT,
        Some(DrawnState::Done) | None => {}
    }
    cells.into_iter().collect()
}

/// Columns of the three parts of a line.
struct Layout {
    name: usize,
    /// 0: there is none.
    bar: usize,
    status: usize,
}

impl Layout {
    fn new(lines: &[&BoardLine], statuses: &[String], width: usize) -> Layout {
        let longest = lines.iter().map(|line| columns(&clean(&line.upstream))).max().unwrap_or(0);
        let status = statuses.iter().map(|status| columns(status)).max().unwrap_or(0).min(width);
        // A status grows while the race runs, and the bar must not shrink.
        let room = width.saturating_sub(status.max("lost: cancelled, > 9999 ms".len()) + 2 * BETWEEN.len());
        let name = longest.min((width / 3).max(8));
        match room.checked_sub(name).filter(|bar| *bar >= BAR_LEAST) {
            Some(bar) => Layout { name, bar: bar.min(BAR_MAX), status: width - name - bar.min(BAR_MAX) - 4 },
            None => {
                let name = longest.min(width.saturating_sub(status + BETWEEN.len()).max(width / 3));
                Layout { name, bar: 0, status: width.saturating_sub(name + BETWEEN.len()) }
            }
        }
    }

    fn line(&self, name: &str, bar: &str, status: &str, colour: Option<&str>) -> String {
        let name = padded(name, self.name);
        let status = fitted(&clean(status), self.status);
        let bar = if self.bar > 0 { padded(bar, self.bar) + BETWEEN } else { String::new() };
        let text = format!("{name}{BETWEEN}{bar}{status}");
        painted(text.trim_end(), colour)
    }

    fn axis(&self, axis_us: i64) -> String {
        let label = if axis_us < 1_000_000 { millis(axis_us) } else { format!("{} s", axis_us as f64 / 1e6) };
        let rule = "─".repeat(self.bar.saturating_sub(columns(&label) + 3));
        format!("{}{BETWEEN}0 {rule} {label}", " ".repeat(self.name))
    }
}

#[cfg(test)]
mod tests;
