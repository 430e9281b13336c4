//! The gateway's events of a race, through a bounded queue, and what is known of the race under way: a line for each upstream,
//! filled in by events. How it looks is `picture`'s.

use std::sync::Arc;

use tokio::sync::mpsc;

use photofinish_facts::record::{AttemptOutcome, AttemptRecord, Record, StartReason};
use photofinish_facts::recording::AttemptStep;
use photofinish_history::recorder::RaceObserver;

/// One race. All its times are microseconds since the request was read.
#[derive(Debug, Default)]
pub struct RaceBoard {
    /// None until its first attempt is started.
    race_id: Option<String>,
    /// In the order of the model's upstreams; further starts of one behind them.
    pub lines: Vec<BoardLine>,
    /// Somebody won.
    pub committed: bool,
    /// Nothing is started any more.
    pub over: bool,
}

/// An upstream that may be started, or one start of it.
#[derive(Debug)]
pub struct BoardLine {
    /// `provider/model`
    pub upstream: String,
    /// None while it waits.
    pub run: Option<BoardAttempt>,
}

/// A started attempt.
#[derive(Debug)]
pub struct BoardAttempt {
    ordinal: i64,
    pub dispatch_us: i64,
    pub connected_us: Option<i64>,
    pub headers_us: Option<i64>,
    pub first_token_us: Option<i64>,
    pub won: bool,
    pub end: Option<BoardEnd>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardEnd {
    pub at_us: i64,
    pub how: DrawnState,
}

/// As far as a picture shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrawnState {
    /// It served its client to the end.
    Done,
    /// In words.
    Lost(&'static str),
    /// In words.
    Failed(String),
    /// The client left, or the gateway ended.
    Cancelled,
}

/// A line for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardMessage {
    /// Microseconds since the request was read.
    pub at_us: i64,
    pub upstream: String,
    pub what: String,
}

impl RaceBoard {
    /// A race that may start these.
    pub fn new(upstreams: impl IntoIterator<Item = String>) -> RaceBoard {
        let lines = upstreams.into_iter().map(|upstream| BoardLine { upstream, run: None }).collect();
        RaceBoard { lines, ..RaceBoard::default() }
    }

    /// Takes an event in; gives what a log would say of it. `now_us`: for what has no time of its own. What other races,
    /// whose losers still run, have to say is not heard.
    pub fn take(&mut self, event: &FeedEvent, now_us: i64) -> Option<BoardMessage> {
        match event {
            FeedEvent::Step(stepped) => self.step(stepped),
            FeedEvent::Committed { race_id, ordinal } if self.is(race_id) => {
                self.committed = true;
                let (upstream, run) = self.run(*ordinal)?;
                run.won = true;
                Some(BoardMessage { at_us: run.first_token_us.unwrap_or(now_us), upstream, what: "won".to_owned() })
            }
            FeedEvent::Recorded(Record::Attempt(row)) if self.is(&row.race_id) => {
                let end = end(row, now_us);
                let (upstream, run) = self.run(row.ordinal)?;
                let said = BoardMessage { at_us: end.at_us, upstream, what: end.how.words() };
                run.end = Some(end);
                Some(said)
            }
            FeedEvent::Recorded(Record::Race(row)) if self.is(&row.race_id) => {
                self.over = true;
                None
            }
            _ => None,
        }
    }

    fn is(&self, race_id: &str) -> bool {
        self.race_id.as_deref() == Some(race_id)
    }

    fn run(&mut self, ordinal: i64) -> Option<(String, &mut BoardAttempt)> {
        self.lines.iter_mut().find_map(|line| {
            let run = line.run.as_mut().filter(|run| run.ordinal == ordinal)?;
            Some((line.upstream.clone(), run))
        })
    }

    fn step(&mut self, stepped: &AttemptStepped) -> Option<BoardMessage> {
        if stepped.step == AttemptStep::Dispatched {
            self.race_id.get_or_insert_with(|| stepped.race_id.clone());
        }
        if !self.is(&stepped.race_id) {
            return None;
        }
        let what = match stepped.step {
            AttemptStep::Dispatched => self.start(stepped),
            step => {
                let (_, run) = self.run(stepped.ordinal)?;
                let (at, what) = match step {
                    AttemptStep::Connected => (&mut run.connected_us, "connected".to_owned()),
                    AttemptStep::Headers => {
                        let status = stepped.http_status.map(|status| format!(" {status}")).unwrap_or_default();
                        (&mut run.headers_us, format!("headers{status}"))
                    }
                    _ => (&mut run.first_token_us, "first token".to_owned()),
                };
                *at = Some(stepped.at_us);
                what
            }
        };
        Some(BoardMessage { at_us: stepped.at_us, upstream: stepped.upstream.clone(), what })
    }

    fn start(&mut self, stepped: &AttemptStepped) -> String {
        let run = BoardAttempt {
            ordinal: stepped.ordinal,
            dispatch_us: stepped.dispatch_us,
            connected_us: None,
            headers_us: None,
            first_token_us: None,
            won: false,
            end: None,
        };
        let waiting = self.lines.iter_mut().find(|line| line.run.is_none() && line.upstream == stepped.upstream);
        match waiting {
            Some(line) => line.run = Some(run),
            None => self.lines.push(BoardLine { upstream: stepped.upstream.clone(), run: Some(run) }),
        }
        match stepped.reason {
            StartReason::First => "started".to_owned(),
            reason => format!("started: {}", reason.as_str()),
        }
    }
}

impl DrawnState {
    /// For a log, and next to a bar.
    pub fn words(&self) -> String {
        match self {
            DrawnState::Done => "done".to_owned(),
            DrawnState::Lost(how) => format!("lost: {how}"),
            DrawnState::Failed(why) => format!("failed: {why}"),
            DrawnState::Cancelled => "cancelled".to_owned(),
        }
    }
}

/// How the attempt of this row ended.
pub fn how(row: &AttemptRecord) -> DrawnState {
    match row.outcome {
        AttemptOutcome::Won => DrawnState::Done,
        AttemptOutcome::Lost if row.audited && row.first_token_us.is_some() => {
            DrawnState::Lost("ran on to its first token")
        }
        AttemptOutcome::Lost => DrawnState::Lost("cancelled"),
        AttemptOutcome::Drained => DrawnState::Lost("read to its end"),
        AttemptOutcome::ClientGone | AttemptOutcome::Shutdown => DrawnState::Cancelled,
        outcome => {
            let why = row.failure.unwrap_or(outcome.as_str());
            let midway = if outcome == AttemptOutcome::FailedMid { " after its first token" } else { "" };
            // A status of 200 explains nothing.
            match row.http_status.filter(|status| *status >= 400) {
                Some(status) => DrawnState::Failed(format!("{why} ({status}){midway}")),
                None => DrawnState::Failed(format!("{why}{midway}")),
            }
        }
    }
}

fn end(row: &AttemptRecord, now_us: i64) -> BoardEnd {
    let at_us = row.cancel_us.or(row.eof_us).map_or(now_us, |at_us| row.dispatch_us + at_us);
    BoardEnd { at_us, how: how(row) }
}

/// Events that may wait while the terminal takes none; a race of 16 attempts has less than a hundred.
const EVENTS_MAX: usize = 4_096;

/// One thing that happened.
#[derive(Debug)]
pub enum FeedEvent {
    Step(AttemptStepped),
    /// The answer is bound to the attempt of this ordinal.
    Committed {
        race_id: String,
        ordinal: i64,
    },
    /// An attempt, or the race, is over.
    Recorded(Record),
    /// All of a race is over; its rows.
    Settled(Vec<Record>),
}

/// How far an attempt got.
#[derive(Clone, Debug)]
pub struct AttemptStepped {
    pub race_id: String,
    pub ordinal: i64,
    /// `provider/model`
    pub upstream: String,
    pub reason: StartReason,
    /// Microseconds since the request was read, as the next.
    pub dispatch_us: i64,
    pub at_us: i64,
    pub step: AttemptStep,
    /// Of the headers.
    pub http_status: Option<i64>,
}

struct Sender(mpsc::Sender<FeedEvent>);

/// The two ends.
pub fn feed() -> (Arc<dyn RaceObserver>, mpsc::Receiver<FeedEvent>) {
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    (Arc::new(Sender(sender)), receiver)
}

/// `provider/model`
pub fn upstream_of(attempt: &AttemptRecord) -> String {
    format!("{}/{}", attempt.provider, attempt.model_sent)
}

impl Sender {
    /// A race never waits for its picture: what does not fit is not drawn.
    fn send(&self, event: FeedEvent) {
        let _ = self.0.try_send(event);
    }
}

impl RaceObserver for Sender {
    fn step(&self, attempt: &AttemptRecord, step: AttemptStep, at_us: i64) {
        self.send(FeedEvent::Step(AttemptStepped {
            race_id: attempt.race_id.clone(),
            ordinal: attempt.ordinal,
            upstream: upstream_of(attempt),
            reason: attempt.start_reason,
            dispatch_us: attempt.dispatch_us,
            at_us: attempt.dispatch_us + at_us,
            step,
            http_status: attempt.http_status,
        }));
    }

    fn committed(&self, race_id: &str, ordinal: i64) {
        self.send(FeedEvent::Committed { race_id: race_id.to_owned(), ordinal });
    }

    fn recorded(&self, record: &Record) {
        self.send(FeedEvent::Recorded(record.clone()));
    }

    fn settled(&self, rows: &[Record]) {
        self.send(FeedEvent::Settled(rows.to_vec()));
    }
}

#[cfg(test)]
pub(super) mod tests;
