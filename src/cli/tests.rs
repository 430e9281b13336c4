//! How the command line is read.

use super::*;

fn read(line: &str) -> Result<Cli, clap::Error> {
    typed(line.split_whitespace().map(OsString::from))
}

#[test]
fn the_configuration_is_named_anywhere_in_the_line() {
    for line in [
        "photofinish --config a.toml models update --accept",
        "photofinish models --config a.toml update --accept",
        "photofinish models update --accept --config a.toml",
        "photofinish history --config a.toml export",
    ] {
        assert_eq!(read(line).unwrap().config.as_deref(), Some(Path::new("a.toml")), "{line}");
    }
    let options = |line| match read(line).unwrap().command {
        Some(Command::Models(options)) => options,
        command => panic!("{command:?}"),
    };
    assert!(options("photofinish models --config a.toml update").action.is_some());
    let listing = options("photofinish models --config a.toml --raceable m");
    assert!(listing.raceable && listing.name.as_deref() == Some("m") && listing.action.is_none());
}

#[test]
fn options_of_a_command_are_none_of_its_subcommand() {
    for (line, given) in [
        ("photofinish models m update", "'update' cannot be used with '[NAME]'"),
        ("photofinish models --raceable update", "'update' cannot be used with '--raceable'"),
        ("photofinish models --provider groq update", "'update' cannot be used with '--provider <NAME>'"),
        ("photofinish models --json --config a.toml update", "'update' cannot be used with '--json'"),
        ("photofinish history --metric cost export", "'export' cannot be used with '--metric"),
    ] {
        let error = read(line).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains(given), "{line}: {error}");
    }
}

#[test]
fn every_help_fits_into_80_columns() {
    fn check(words: &str, command: &clap::Command, wide: &mut Vec<String>) {
        for flag in ["--help", "-h"] {
            let help = read(&format!("{words} {flag}")).unwrap_err().to_string();
            assert!(help.contains("Usage: "), "{words} {flag}: {help}");
            let lines = help.lines().filter(|line| text::columns(line) > 80);
            wide.extend(lines.map(|line| format!("{words} {flag}: {line}")));
        }
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            check(&format!("{words} {}", inner.get_name()), inner, wide);
        }
    }
    let (mut cli, mut wide) = (overview::grouped(Cli::command()), Vec::new());
    cli.build();
    check("photofinish", &cli, &mut wide);
    assert_eq!(wide, Vec::<String>::new());
}
