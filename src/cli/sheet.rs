//! A table of figures with names in front. Where it is too wide for the terminal, names are shortened in their middle; where
//! that is not enough, the figures go into several tables, each with the names. In a pipe names stay whole, above their figures where
//! they leave no room.
//!
//! Not for text in columns: see `text::aligned`.

use std::io;

use super::text::{columns, hanging, painted, room, shortened};

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
    /// Whether a cell begins with this mark.
    pub fn has(&self, mark: char) -> bool {
        self.rows.iter().flatten().any(|cell| cell.text.starts_with(mark))
    }

    /// In lines of at most as many columns as the terminal has, or of a pipe.
    pub fn write(mut self, terminal: Option<usize>, out: &mut impl io::Write) -> io::Result<()> {
        let width = room(terminal);
        let figures: Vec<usize> = (self.names..self.heads.len()).collect();
        let taken: usize = figures.iter().map(|column| BETWEEN + self.width(*column)).sum();
        let room = width.saturating_sub(1 + taken);
        // A third of the width for one name, half for two.
        let room_in_each = width.saturating_sub(1) * self.names / (self.names + 2);
        if terminal.is_some() {
            let least = (0..self.names).map(|column| self.width(column).min(NAME_LEAST) + BETWEEN).sum::<usize>();
            self.shorten_names(if room + BETWEEN >= least { room } else { room_in_each });
        }
        let cap = self.cap(if room >= NAME_LEAST { room } else { room_in_each });
        let mut rest = &figures[..];
        while !rest.is_empty() {
            let part = self.part(rest, cap, width);
            self.write_part(&rest[..part], cap, width, out)?;
            rest = &rest[part..];
            if !rest.is_empty() {
                writeln!(out)?;
            }
        }
        Ok(())
    }

    /// Columns for the first names; longer ones go above their lines. With 0 all names do, as most would. `room`: for all names.
    fn cap(&self, room: usize) -> usize {
        let others: usize = (1..self.names).map(|column| self.width(column) + BETWEEN).sum();
        let cap = room.saturating_sub(others);
        let long = self.rows.iter().filter(|row| columns(&row[0].text) > cap).count();
        if columns(&self.heads[0]) > cap || 2 * long > self.rows.len() { 0 } else { cap }
    }

    /// Columns of all names in front of the figures.
    fn names_within(&self, cap: usize) -> Vec<usize> {
        let firsts = self.rows.iter().map(|row| columns(&row[0].text)).chain([columns(&self.heads[0])]);
        let first = firsts.filter(|width| *width <= cap).max().unwrap_or(0);
        if cap == 0 {
            Vec::new()
        } else {
            [first].into_iter().chain((1..self.names).map(|name| self.width(name))).collect()
        }
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
    fn part(&self, figures: &[usize], cap: usize, width: usize) -> usize {
        let names: usize = self.names_within(cap).iter().map(|name| name + BETWEEN).sum();
        let mut used = if names == 0 { 1 } else { names - 1 };
        let fits = figures.iter().take_while(|column| {
            used += BETWEEN + self.width(**column);
            used <= width
        });
        fits.count().max(1)
    }

    fn write_part(&self, figures: &[usize], cap: usize, width: usize, out: &mut impl io::Write) -> io::Result<()> {
        let heads: Vec<SheetCell> = self.heads.iter().cloned().map(SheetCell::from).collect();
        let names = self.names_within(cap);
        let margin = if names.is_empty() { "   " } else { " " };
        for row in [&heads].into_iter().chain(&self.rows) {
            let (above, in_line) = row[..self.names].split_at(match names.is_empty() {
                true => self.names,
                false => usize::from(columns(&row[0].text) > names[0]),
            });
            if !above.is_empty() {
                let texts: Vec<&str> = above.iter().map(|cell| cell.text.as_str()).collect();
                for line in hanging(&format!(" {}", texts.join("  ")), width, "   ") {
                    writeln!(out, "{}", painted(&line, row[0].colour))?;
                }
            }
            let skipped = &names[..names.len() - in_line.len()];
            let mut line: String = skipped.iter().map(|name| " ".repeat(name + BETWEEN)).collect();
            for (cell, width) in in_line.iter().zip(&names[skipped.len()..]) {
                line += &format!(
                    "{}{}",
                    painted(&cell.text, cell.colour),
                    " ".repeat(width - columns(&cell.text) + BETWEEN)
                );
            }
            for column in figures {
                let cell = &row[*column];
                let blanks = " ".repeat(self.width(*column) - columns(&cell.text));
                line += &format!("{blanks}{}{}", painted(&cell.text, cell.colour), " ".repeat(BETWEEN));
            }
            writeln!(out, "{margin}{}", line.trim_end())?;
        }
        Ok(())
    }
}
