//! The race of one command, from the request to the last row: what happens is heard, shown and kept.

use std::io;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::Response;
use tokio::sync::mpsc::Receiver;

use super::answer::{AnswerReader, Refusal};
use super::board::{FeedEvent, RaceBoard, feed};
use super::output::RaceOutput;
use super::request_template::RequestTemplate;
use super::summary::RowsOfRace;
use crate::cli::outcome::{CommandOutcome, WrongUse};
use crate::cli::signals::Signals;
use photofinish_base::clock::{Instant, micros_between};
use photofinish_config::Config;
use photofinish_config::units::format_duration;
use photofinish_gateway::proxy::{self, AskedBy};
use photofinish_serve::app::LocalGateway;
use photofinish_wire::Surface;

/// From one picture to the next.
const FRAME: Duration = Duration::from_millis(50);
/// How long `race` awaits losers that run on, to be audited or because they are billed in full anyway.
const RUN_ON_FOR: Duration = Duration::from_secs(10);
/// Bytes of an answer. A longer one is cut: nothing else would end a server that never stops.
const ANSWER_MAX: usize = 8 << 20;
/// How long an answer may take there, whatever the configuration allows.
const ANSWER_FOR: Duration = Duration::from_secs(600);
/// Bytes of an error's body; the gateway keeps no more of one.
const ERROR_MAX: usize = 1 << 20;

/// Everything that the command holds while it runs.
pub struct RaceSession<'a, O, E> {
    alone: LocalGateway,
    events: Receiver<FeedEvent>,
    signals: Signals,
    asked: RequestTemplate,
    show: RaceOutput<'a, O, E>,
    rows: RowsOfRace,
}

/// How one race ended.
enum SessionOutcome {
    Answered,
    /// In words.
    Failed(String),
    WrongUse(String),
    Interrupted,
}

/// One race while it runs.
struct RaceInProgress {
    board: RaceBoard,
    began: Instant,
}

impl<'a, O: io::Write, E: io::Write> RaceSession<'a, O, E> {
    /// # Errors
    /// When the gateway cannot be built, in words for an operator.
    pub async fn start(
        config: Config,
        stored: bool,
        asked: RequestTemplate,
        show: RaceOutput<'a, O, E>,
    ) -> anyhow::Result<Self> {
        let signals = Signals::new()?;
        let (race_observer, events) = feed();
        let alone = LocalGateway::start(config, stored, race_observer).await?;
        Ok(RaceSession { alone, events, signals, asked, show, rows: RowsOfRace::default() })
    }

    /// Runs it, ends the gateway, and prints the summary.
    pub async fn run(mut self) -> anyhow::Result<CommandOutcome> {
        // Whatever goes wrong with the output, the rows are written.
        let mut ended = self.race().await;
        let mut interrupted = matches!(ended, Ok(SessionOutcome::Interrupted));
        // After a wrong request there are no losers.
        if matches!(ended, Ok(SessionOutcome::Answered | SessionOutcome::Failed(_))) {
            match self.await_losers().await {
                Ok(cut_short) => interrupted = cut_short,
                Err(error) => ended = Err(error),
            }
        }
        let RaceSession { alone, mut events, mut show, mut rows, .. } = self;
        let lost = alone.stop().await;
        while let Ok(event) = events.try_recv() {
            let FeedEvent::Settled(records) = event else { continue };
            rows.take(&records);
        }
        let outcome = ended?;
        if let SessionOutcome::WrongUse(problem) = outcome {
            return Err(WrongUse(problem).into());
        }
        if let Some(done) = &rows.done {
            show.summary(done)?;
        }
        anyhow::ensure!(lost == 0, "{lost} rows could not be written");
        match outcome {
            _ if interrupted => Ok(CommandOutcome::Interrupted),
            SessionOutcome::Failed(why) => Err(anyhow::anyhow!(why)),
            _ => Ok(CommandOutcome::Done),
        }
    }

    async fn race(&mut self) -> io::Result<SessionOutcome> {
        let board = RaceBoard::new(self.asked.upstreams.iter().cloned());
        let mut course = RaceInProgress { board, began: Instant::now() };
        let response = self.response(&mut course).await?;
        self.hear_all(&mut course)?;
        self.show.draw(&course.board, course.now_us())?;
        self.show.settle()?;
        let Some(response) = response else { return Ok(SessionOutcome::Interrupted) };
        let outcome = if response.status().is_success() {
            self.answer(&mut course, response).await?
        } else {
            self.refusal(response).await?
        };
        self.hear_all(&mut course)?;
        Ok(outcome)
    }

    /// Up to the first token, or the refusal; none when a signal came.
    async fn response(&mut self, course: &mut RaceInProgress) -> io::Result<Option<Response<Body>>> {
        let by = AskedBy { user: self.asked.user.clone(), ends_within: Some(ANSWER_FOR), ..AskedBy::default() };
        let gateway = self.alone.gateway().clone();
        // Dropped with this function, it drops everything upstream.
        let mut answering = Box::pin(proxy::serve_as(gateway, Surface::Chat, by, self.asked.request()));
        let mut frames = tokio::time::interval(FRAME);
        loop {
            tokio::select! {
                biased;
                () = self.signals.next() => return Ok(None),
                response = &mut answering => return Ok(Some(response)),
                Some(event) = self.events.recv() => self.hear(course, &event)?,
                _ = frames.tick() => self.show.draw(&course.board, course.now_us())?,
            }
        }
    }

    async fn answer(&mut self, course: &mut RaceInProgress, response: Response<Body>) -> io::Result<SessionOutcome> {
        let race_id = response.headers().get("x-photofinish-race").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let (mut answer, mut kept, mut bytes) = (AnswerReader::new(response.into_body()), String::new(), 0);
        loop {
            let piece = tokio::select! {
                biased;
                () = self.signals.next() => {
                    self.show.end_of_answer()?;
                    return Ok(SessionOutcome::Interrupted);
                }
                Some(event) = self.events.recv() => {
                    self.hear(course, &event)?;
                    continue;
                }
                piece = answer.next() => piece?,
            };
            let Some(piece) = piece else { break };
            bytes += piece.text.len();
            if bytes > ANSWER_MAX {
                answer.broke = Some(format!("the answer has more than {} MiB: it was cut", ANSWER_MAX >> 20));
                break;
            }
            if self.show.keeps_answer() {
                kept += &piece.text;
            }
            self.show.piece(&piece)?;
        }
        self.show.end_of_answer()?;
        if let Some(race_id) = race_id.filter(|_| self.show.keeps_answer()) {
            self.rows.answered(&race_id, kept);
        }
        Ok(match answer.broke {
            Some(why) => SessionOutcome::Failed(why),
            None => SessionOutcome::Answered,
        })
    }

    async fn refusal(&mut self, response: Response<Body>) -> io::Result<SessionOutcome> {
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), ERROR_MAX).await.unwrap_or_default();
        let refusal = Refusal::read(status, &body);
        if refusal.is_wrong_use() {
            return Ok(SessionOutcome::WrongUse(self.asked.in_words_of_options(&refusal.message)));
        }
        self.show.reasons(&refusal.attempts)?;
        Ok(SessionOutcome::Failed(format!("no upstream answered: {}", refusal.message)))
    }

    /// Whether a signal cut it short.
    async fn await_losers(&mut self) -> io::Result<bool> {
        if self.alone.gateway().shutdown().running() == 0 {
            return Ok(false);
        }
        let at_most = format_duration(RUN_ON_FOR);
        self.show.remark(&format!("waiting for losers that run on, at most {at_most}; Ctrl-C cuts them"))?;
        tokio::select! {
            () = self.alone.losers_ended(RUN_ON_FOR) => Ok(false),
            () = self.signals.next() => Ok(true),
        }
    }

    /// What has happened by now.
    fn hear_all(&mut self, course: &mut RaceInProgress) -> io::Result<()> {
        while let Ok(event) = self.events.try_recv() {
            self.hear(course, &event)?;
        }
        Ok(())
    }

    fn hear(&mut self, course: &mut RaceInProgress, event: &FeedEvent) -> io::Result<()> {
        let now_us = course.now_us();
        if let Some(said) = course.board.take(event, now_us) {
            self.show.event(&said, &course.board)?;
        }
        if let FeedEvent::Settled(records) = event {
            self.rows.take(records);
        }
        Ok(())
    }
}

impl RaceInProgress {
    fn now_us(&self) -> i64 {
        micros_between(self.began, Instant::now())
    }
}
