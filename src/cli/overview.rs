//! The commands in the first help, by what people want. Not for the help of a command.

use std::fmt::Write as _;

use super::text::wrapped;

/// Every command but `help`, once.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Run", &["init", "import", "serve", "check", "env", "models", "providers", "simulate", "healthcheck"]),
    ("See", &["race", "stats", "history", "incidents", "routing", "replay", "usage"]),
    ("Measure", &["probe", "bench", "verify", "report"]),
    ("Manage", &["login", "key", "user", "team", "audit", "replicas", "migrate", "copy", "completions", "man"]),
];
/// Columns of the names.
const NAMES: usize = 15;
/// Columns of what they do.
const ABOUT: usize = 80 - NAMES;

/// The command line with its commands in groups.
pub(super) fn grouped(command: clap::Command) -> clap::Command {
    let mut list = String::new();
    for (title, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = write!(list, "\n\u{1b}[1m\u{1b}[4m{title}:\u{1b}[0m\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            for (place, line) in wrapped(&about, ABOUT).iter().enumerate() {
                let name = if place == 0 { *name } else { "" };
                let _ = writeln!(list, "  \u{1b}[1m{name:<width$}\u{1b}[0m{line}", width = NAMES - 2);
            }
        }
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{list}\n\u{1b}[1m\u{1b}[4mOptions:\u{1b}[0m\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_one_group_and_in_eighty_columns() {
        let command = Cli::command();
        let mut all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let mut grouped_names: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        all.sort_unstable();
        grouped_names.sort_unstable();
        assert_eq!(all, grouped_names);
        let help = grouped(Cli::command()).render_help().to_string();
        assert!(help.contains("\nRun:\n  init         Write a first"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }
}
