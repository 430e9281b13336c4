//! What is going on: a few lines that are drawn again on a terminal, a line every few seconds in a pipe.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::cli::screen::ScreenSettings;
use crate::cli::text::{GREY, fitted, painted, room, write_folded};
use photofinish_lab::bench::Progress;
use photofinish_lab::bench::measured::{MeasuredRequest, RequestEnd};
use photofinish_lab::bench::statistics;
use photofinish_lab::bench::trust::{Evidence, doubts};

/// From one picture to the next.
const DRAW_EVERY: Duration = Duration::from_millis(250);
/// From one line to the next where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Columns of a sparkline.
const SPARKS: usize = 40;
/// Latest requests that the sparklines show.
const LATEST: usize = 400;

/// Draws on standard error.
pub struct LiveView<'a, E> {
    err: &'a mut E,
    screen: fn() -> Option<ScreenSettings>,
    /// Lines of the picture on the terminal.
    drawn: usize,
    last: Option<Instant>,
}

/// What does not change during a stage.
#[derive(Clone, Debug)]
pub struct StageTitle {
    /// Such as `stage 2 of 9: groq/llama, 10 users`.
    pub text: String,
    pub length: Duration,
    pub requests: Option<usize>,
    /// Requests are scheduled, so they can be late.
    pub is_open_loop: bool,
    /// The client's own error, µs.
    pub calibration_us: Option<f64>,
    pub spent: f64,
    pub cap: Option<f64>,
}

impl<'a, E: Write> LiveView<'a, E> {
    pub fn new(err: &'a mut E, screen: fn() -> Option<ScreenSettings>) -> LiveView<'a, E> {
        LiveView { err, screen, drawn: 0, last: None }
    }

    /// Standard error may be closed: the run goes on.
    pub fn show(&mut self, title: &StageTitle, progress: &Progress<'_>) {
        let screen = (self.screen)();
        let every = if screen.is_some() { DRAW_EVERY } else { LINE_EVERY };
        let now = Instant::now();
        let due = self.last.is_none_or(|last| now.duration_since(last) >= every);
        if !due || (screen.is_none() && self.last.is_none() && progress.ended.is_empty()) {
            return;
        }
        self.last = Some(now);
        let lines = lines(title, progress);
        let _ = match screen {
            Some(screen) => self.draw(&lines, screen),
            None => write_folded(&lines[..3].join("; "), room(None), self.err),
        };
    }

    fn draw(&mut self, lines: &[String], screen: ScreenSettings) -> io::Result<()> {
        if self.drawn > 0 {
            write!(self.err, "\x1b[{}A\r", self.drawn)?;
        }
        for line in lines {
            let line = fitted(line, usize::from(screen.width).saturating_sub(1));
            writeln!(self.err, "{}\x1b[K", painted(&line, screen.colour.then_some(GREY)))?;
        }
        self.drawn = lines.len();
        self.err.flush()
    }

    /// Takes the picture away and says something that stays.
    pub fn say(&mut self, text: &str) {
        if self.drawn > 0 {
            let _ = write!(self.err, "\x1b[{}A\r\x1b[J", self.drawn);
        }
        (self.drawn, self.last) = (0, None);
        let _ = write_folded(text, room((self.screen)().map(ScreenSettings::columns)), self.err);
    }

    pub fn clear(&mut self) {
        if self.drawn > 0 {
            let _ = write!(self.err, "\x1b[{}A\r\x1b[J", self.drawn);
        }
        (self.drawn, self.last) = (0, None);
    }
}

/// Time left of the stage: until its length is over, or sooner if its requests end before, at their rate so far.
fn left(title: &StageTitle, elapsed: Duration, ended: usize) -> Duration {
    let by_length = title.length.saturating_sub(elapsed);
    let by_requests = |requests: usize| elapsed.mul_f64(requests.saturating_sub(ended) as f64 / ended as f64);
    title.requests.filter(|_| ended > 0).map_or(by_length, |requests| by_requests(requests).min(by_length))
}

fn lines(title: &StageTitle, progress: &Progress<'_>) -> Vec<String> {
    let ended = &*progress.ended;
    let count = |those: &[RequestEnd]| ended.iter().filter(|request| those.contains(&request.end)).count();
    let failed = count(&[RequestEnd::Failed, RequestEnd::TimedOut, RequestEnd::RateLimited]);
    let dropped = count(&[RequestEnd::Dropped]);
    let arrived = ended.len() + progress.in_flight;
    let left = left(title, progress.elapsed, ended.len()).as_secs();
    let of = title.requests.map_or(String::new(), |requests| format!(" of {requests}"));
    let spent = ended.iter().map(|request| request.cost.bounded_usd()).sum::<f64>() + title.spent;
    let money = match title.cap {
        Some(cap) => format!(", {spent:.4} of {cap:.2} USD"),
        None if spent > 0.0 => format!(", {spent:.4} USD"),
        None => String::new(),
    };
    let latest = &ended[ended.len().saturating_sub(LATEST)..];
    let values = |value: fn(&MeasuredRequest) -> Option<f64>| latest.iter().filter_map(value).collect::<Vec<f64>>();
    let ttft = values(|request| Some(request.client_ttft_us()? as f64 / 1e3));
    let speed = values(|request| Some(1e6 / request.tpot_us?));
    vec![
        format!("{}, {left} s left", title.text),
        format!(
            "{arrived} arrived{of}, {} in flight, {} ended, {failed} failed, {dropped} dropped{money}",
            progress.in_flight,
            ended.len()
        ),
        trust(title, progress, latest),
        format!("TTFT  {} {}", sparkline(&ttft), median(ttft, "ms")),
        format!("tok/s {} {}", sparkline(&speed), median(speed, "")),
    ]
}

/// What the doubts would be if the stage ended now, by its latest requests.
fn trust(title: &StageTitle, progress: &Progress<'_>, latest: &[MeasuredRequest]) -> String {
    let quantile = |of: &dyn Fn(&MeasuredRequest) -> Option<i64>, p: f64| {
        let mut values: Vec<f64> = latest.iter().filter_map(|request| Some(of(request)? as f64)).collect();
        values.sort_unstable_by(f64::total_cmp);
        statistics::quantile(&values, p)
    };
    let doubts = doubts(&Evidence {
        client: progress.client,
        lag_us: quantile(&|request| Some(request.lag_us()), 0.99).filter(|_| title.is_open_loop),
        ttft_us: quantile(&|request| request.ttft_us, 0.5),
        calibration_us: title.calibration_us,
    });
    if doubts.is_empty() { "trusted so far".to_owned() } else { format!("not trusted so far: {}", doubts.join("; ")) }
}

fn median(mut values: Vec<f64>, unit: &str) -> String {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).map_or("-".to_owned(), |value| format!("{value:.1} {unit}").trim_end().to_owned())
}

/// The means of the latest values, in equal parts, oldest first.
fn sparkline(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let size = values.len().div_ceil(SPARKS).max(1);
    let means: Vec<f64> = values.chunks(size).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect();
    let most = means.iter().copied().fold(0.0, f64::max);
    means.iter().map(|mean| BARS[if most > 0.0 { (mean / most * 7.0).round() as usize } else { 0 }.min(7)]).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard};

    use super::*;
    use photofinish_facts::estimate::cost::{Cost, CostSum};
    use photofinish_lab::bench::trust::ClientLoad;

    fn progress(ended: &Mutex<Vec<MeasuredRequest>>) -> Progress<'_> {
        let ended: MutexGuard<'_, _> = ended.lock().unwrap();
        Progress { elapsed: Duration::from_secs(10), in_flight: 3, client: ClientLoad::default(), ended }
    }

    #[test]
    fn a_stage_is_told_in_five_lines() {
        let request = |ttft_us, end| MeasuredRequest {
            ttft_us: Some(ttft_us),
            tpot_us: Some(20_000.0),
            cost: CostSum::of([Cost::between(0.0, Some(0.01))]),
            end,
            ..MeasuredRequest::default()
        };
        let dropped = MeasuredRequest { end: RequestEnd::Dropped, ..MeasuredRequest::default() };
        let ended = vec![
            request(100_000, RequestEnd::Answered),
            request(800_000, RequestEnd::Failed),
            request(800_000, RequestEnd::CutShort),
            dropped,
        ];
        let ended = Mutex::new(ended);
        let title = StageTitle {
            text: "stage 1 of 2: a/m, 10 users".to_owned(),
            length: Duration::from_secs(30),
            requests: Some(50),
            is_open_loop: false,
            calibration_us: Some(90_000.0),
            spent: 0.5,
            cap: Some(1.0),
        };
        let lines = lines(&title, &progress(&ended));
        assert_eq!(lines[0], "stage 1 of 2: a/m, 10 users, 20 s left");
        let said = "7 arrived of 50, 3 in flight, 4 ended, 1 failed, 1 dropped, 0.5300 of 1.00 USD";
        assert_eq!(lines[1], said, "a dropped request is no failure, and one that was cut short neither");
        assert_eq!(lines[2], "not trusted so far: the client's own error is 90.0 ms of a TTFT of 800.0 ms");
        assert_eq!(lines[3], "TTFT  ▂██ 800.0 ms");
        assert_eq!(lines[4], "tok/s ███ 50.0");
        assert_eq!(left(&title, Duration::from_secs(10), 40), Duration::from_millis(2_500), "40 of 50 in 10 s");
        let calm = StageTitle { calibration_us: None, ..title };
        assert_eq!(super::lines(&calm, &progress(&ended))[2], "trusted so far");
        ended.lock().unwrap()[0].sent_us = 20_000;
        assert_eq!(super::lines(&calm, &progress(&ended))[2], "trusted so far", "nothing was scheduled");
        let open = StageTitle { is_open_loop: true, ..calm };
        let said = "not trusted so far: requests left late: send lag p99 20.0 ms";
        assert_eq!(super::lines(&open, &progress(&ended))[2], said);
    }

    #[test]
    fn a_pipe_gets_no_control_characters() {
        let ended = Mutex::new(vec![MeasuredRequest::default()]);
        let title = StageTitle {
            text: "stage 1 of 1".to_owned(),
            length: Duration::from_secs(30),
            requests: None,
            is_open_loop: false,
            calibration_us: None,
            spent: 0.0,
            cap: None,
        };
        let mut err = Vec::new();
        let mut view = LiveView::new(&mut err, || None);
        view.show(&title, &progress(&ended));
        view.show(&title, &progress(&ended));
        view.say("done");
        let text = String::from_utf8(err).unwrap();
        let said =
            "stage 1 of 1, 20 s left; 4 arrived, 3 in flight, 1 ended, 1 failed, 0 dropped;\n  trusted so far\ndone\n";
        assert_eq!(text, said);
    }
}
