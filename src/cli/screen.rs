//! The terminal: its size, and whether it shows colours.

use std::io::{self, IsTerminal as _};

/// The size and colours of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenSettings {
    /// Columns.
    pub width: u16,
    /// Rows of the picture, without its legend.
    pub height: u16,
    pub colour: bool,
    /// It is a pipe or a file, not a terminal.
    pub piped: bool,
}

/// Output in a pipe or a file is always the same.
pub(super) const PIPED: ScreenSettings = ScreenSettings { width: 80, height: 20, colour: false, piped: true };
/// Rows of a short terminal that are left for the legend and the prompt.
const BELOW: u16 = 4;

impl ScreenSettings {
    /// Standard output now.
    pub fn of_stdout() -> ScreenSettings {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return PIPED;
        }
        let (width, rows) = terminal_size::terminal_size_of(stdout).map_or((80, 24), |(width, rows)| (width.0, rows.0));
        let colour = std::env::var_os("NO_COLOR").is_none();
        ScreenSettings { width, height: rows.saturating_sub(BELOW).min(PIPED.height), colour, piped: false }
    }

    /// Columns of standard error.
    pub fn width_of_stderr() -> usize {
        let size = terminal_size::terminal_size_of(io::stderr());
        usize::from(size.map_or(PIPED.width, |(width, _)| width.0))
    }

    /// Set if standard output and standard error are both a terminal.
    pub fn of_terminal() -> Option<ScreenSettings> {
        (io::stdout().is_terminal() && io::stderr().is_terminal()).then(ScreenSettings::of_stdout)
    }

    /// Columns of standard output, if it is a terminal.
    pub fn width_of_stdout() -> Option<usize> {
        io::stdout().is_terminal().then(|| usize::from(ScreenSettings::of_stdout().width))
    }

    /// Columns of a line.
    pub(super) fn columns(self) -> usize {
        self.width.into()
    }

    /// Columns of the terminal, if it is one.
    pub(super) fn terminal(self) -> Option<usize> {
        (!self.piped).then_some(usize::from(self.width))
    }
}
