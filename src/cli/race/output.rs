//! Shows a race: a picture that is redrawn on a terminal, else a line for each event; and writes its answer.

use std::io;

use super::answer::PrintedPiece;
use super::board::{BoardMessage, RaceBoard};
use super::picture;
use super::request_template::RaceOptions;
use super::summary::{FinishedRace, object, write_one};
use crate::cli::screen::ScreenSettings;
use crate::cli::text::{clean, columns, hanging, millis, padded, room, write_folded, write_lines, write_paragraph};
use photofinish_base::printable::printable_lines;

/// Columns for the upstream of an event; a longer name pushes its event away.
const NAME_MOST: usize = 40;
/// Dimmed, as reasoning is.
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// The two outputs of the command, and what goes where.
pub struct RaceOutput<'a, O, E> {
    out: &'a mut O,
    err: &'a mut E,
    screen: fn() -> Option<ScreenSettings>,
    json: bool,
    /// Lines of the picture above the cursor.
    drawn: usize,
    /// The last character that went out of the answer; none before it.
    last: Option<char>,
    reasoning: bool,
    /// The line above the cursor is empty.
    gap: bool,
}

impl<'a, O: io::Write, E: io::Write> RaceOutput<'a, O, E> {
    pub fn new(options: &RaceOptions, screen: fn() -> Option<ScreenSettings>, out: &'a mut O, err: &'a mut E) -> Self {
        RaceOutput { out, err, screen, json: options.json, drawn: 0, last: None, reasoning: false, gap: false }
    }

    /// Whether the answer goes into the object for programs.
    pub fn keeps_answer(&self) -> bool {
        self.json
    }

    /// One event, where the race is not drawn.
    pub fn event(&mut self, said: &BoardMessage, board: &RaceBoard) -> io::Result<()> {
        if self.json || self.screen().is_some() {
            return Ok(());
        }
        let width = board.lines.iter().map(|line| columns(&clean(&line.upstream))).max().unwrap_or(0).min(NAME_MOST);
        let (after, upstream) = (millis(said.at_us), clean(&said.upstream));
        let line = format!("{after:>9}  {}  {}", padded(&upstream, width), clean(&said.what));
        write_lines(&hanging(&line, room(None), &" ".repeat(11)), self.err)
    }

    /// The picture over the one before, if there is a screen.
    pub fn draw(&mut self, board: &RaceBoard, now_us: i64) -> io::Result<()> {
        let Some(screen) = self.screen() else { return Ok(()) };
        let lines = picture::draw(board, screen, now_us);
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A", self.drawn));
        }
        for line in &lines {
            text.push_str(&format!("\r{line}\x1b[K\n"));
        }
        // What was longer before.
        text.push_str("\x1b[J");
        self.drawn = lines.len();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Leaves the picture; further output goes below it.
    pub fn settle(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.drawn) > 0 {
            writeln!(self.out)?;
            self.gap = true;
        }
        Ok(())
    }

    /// A piece of the answer.
    pub fn piece(&mut self, piece: &PrintedPiece) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        self.gap = false;
        if self.screen().is_some_and(|screen| screen.colour) && !piece.reasoning.is_empty() {
            write!(self.out, "{DIM}{}{PLAIN}", printable_lines(&piece.reasoning))?;
            self.reasoning = true;
        }
        if !piece.text.is_empty() {
            if std::mem::take(&mut self.reasoning) {
                writeln!(self.out, "\n")?;
            }
            // Piped too: what shows a pipe may be a terminal.
            let text = printable_lines(&piece.text);
            self.last = text.chars().last().or(self.last);
            self.out.write_all(text.as_bytes())?;
        }
        self.out.flush()
    }

    /// The answer has ended.
    pub fn end_of_answer(&mut self) -> io::Result<()> {
        if self.reasoning || self.last.take().is_some_and(|last| last != '\n') {
            writeln!(self.out)?;
        }
        self.reasoning = false;
        self.out.flush()
    }

    /// A remark that belongs to no result.
    pub fn remark(&mut self, text: &str) -> io::Result<()> {
        self.gap = false;
        let width = room(self.screen().map(ScreenSettings::columns));
        if self.json { Ok(()) } else { write_folded(&clean(text), width, self.err) }
    }

    /// What ran, in figures, or as the object.
    pub fn summary(&mut self, done: &FinishedRace) -> io::Result<()> {
        match self.screen().map(|screen| usize::from(screen.width)) {
            _ if self.json => writeln!(self.out, "{}", object(done)),
            Some(width) => {
                if !self.gap {
                    writeln!(self.out)?;
                }
                write_one(done, Some(width), self.out)
            }
            None => write_one(done, None, self.err),
        }?;
        self.out.flush()
    }

    /// Why no upstream answered, one line for each.
    pub fn reasons(&mut self, attempts: &[String]) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        self.gap = false;
        let width = self.screen().map(|screen| usize::from(screen.width));
        attempts.iter().try_for_each(|attempt| write_paragraph(attempt, width, self.err))
    }

    fn screen(&self) -> Option<ScreenSettings> {
        if self.json { None } else { (self.screen)() }
    }
}

#[cfg(test)]
mod tests;
