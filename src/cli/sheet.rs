//! A table of figures with names in front. Where it is too wide for the terminal, names are shortened in their middle; where
//! that is not enough, the figures go into several tables, each with the names.
//!
//! Not for text in columns: see `text::aligned`.

use std::io;

use super::text::{columns, painted, shortened};

/// Columns of a shortened name, at least: with less room the figures go into several tables.
const NAME_LEAST: usize = 14;
const BETWEEN: usize = 2;

/// The table.
pub struct Sheet {
    /// Of all columns.
    pub heads: Vec<String>,
    /// The first columns are names; the others are figures, which are aligned to the right.
    pub names: usize,
    pub rows: Vec<Vec<SheetCell>>,
}

/// Text without control characters, and its colour.
#[derive(Clone, Debug)]
pub struct SheetCell {
    pub text: String,
    pub colour: Option<&'static str>,
}

impl From<String> for SheetCell {
    fn from(text: String) -> SheetCell {
        SheetCell { text, colour: None }
    }
}

impl Sheet {
    /// Whether a cell has this mark.
    pub fn has(&self, mark: char) -> bool {
        self.rows.iter().flatten().any(|cell| cell.text.contains(mark))
    }

    /// In lines of at most `width` columns, if there is one.
    pub fn write(mut self, width: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
        let figures: Vec<usize> = (self.names..self.heads.len()).collect();
        let Some(width) = width else { return self.write_part(&figures, out) };
        let taken: usize = figures.iter().map(|column| BETWEEN + self.width(*column)).sum();
        let room = width.saturating_sub(1 + taken);
        let least = (0..self.names).map(|column| self.width(column).min(NAME_LEAST) + BETWEEN).sum::<usize>();
        let is_one_table = room + BETWEEN >= least;
        // A third of the width for one name, half for two.
        let room_in_each = width.saturating_sub(1) * self.names / (self.names + 2);
        self.shorten_names(if is_one_table { room } else { room_in_each });
        let mut rest = &figures[..];
        while !rest.is_empty() {
            let part = self.part(rest, width);
            self.write_part(&rest[..part], out)?;
            rest = &rest[part..];
            if !rest.is_empty() {
                writeln!(out)?;
            }
        }
        Ok(())
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| columns(&cell.text)).chain([columns(&self.heads[column])]).max().unwrap_or(0)
    }

    /// To `room` columns in all, the widest first.
    fn shorten_names(&mut self, room: usize) {
        for _ in 0..self.names {
            let widths: Vec<usize> = (0..self.names).map(|column| self.width(column)).collect();
            let excess = (widths.iter().sum::<usize>() + BETWEEN * (self.names - 1)).saturating_sub(room);
            let Some(column) = (0..self.names).max_by_key(|column| widths[*column]).filter(|_| excess > 0) else {
                return;
            };
            let names: Vec<String> = self.rows.iter().map(|row| row[column].text.clone()).collect();
            let short = shortened(&names, widths[column].saturating_sub(excess).max(columns(&self.heads[column])));
            self.rows.iter_mut().zip(short).for_each(|(row, name)| row[column].text = name);
        }
    }

    /// How many of these figures fit behind the names; at least one.
    fn part(&self, figures: &[usize], width: usize) -> usize {
        let names: usize = (0..self.names).map(|column| self.width(column) + BETWEEN).sum();
        let mut used = (1 + names).saturating_sub(BETWEEN);
        let fits = figures.iter().take_while(|column| {
            used += BETWEEN + self.width(**column);
            used <= width
        });
        fits.count().max(1)
    }

    fn write_part(&self, figures: &[usize], out: &mut impl io::Write) -> io::Result<()> {
        let shown: Vec<usize> = (0..self.names).chain(figures.iter().copied()).collect();
        let widths: Vec<usize> = shown.iter().map(|column| self.width(*column)).collect();
        let heads: Vec<SheetCell> = self.heads.iter().cloned().map(SheetCell::from).collect();
        for row in [&heads].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (column, width) in shown.iter().zip(&widths) {
                let cell = &row[*column];
                let text = painted(&cell.text, cell.colour);
                let blanks = " ".repeat(width - columns(&cell.text));
                let gap = if line.is_empty() { " " } else { "  " };
                line +=
                    &if *column < self.names { format!("{gap}{text}{blanks}") } else { format!("{gap}{blanks}{text}") };
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
