//! Operations that only one room may perform, operations that are forbidden everywhere, and maximum lengths. Each rule
//! checks one file's tokens. Not for directories: `architecture.rs` decides which rule applies where.

use crate::lexer::{Kind, Token, begins, end_of_brackets};

/// An operation that only some modules may perform.
pub struct Rule {
    /// The end of the sentence "FILE:LINE: …".
    pub message: &'static str,
    /// The modules at the top of the crate that may perform it.
    pub rooms: &'static [&'static str],
    /// Whether these tokens begin with the operation.
    pub found: fn(&[Token]) -> bool,
}

/// Invariant 11 of the architecture, for product code.
pub const ONE_ROOM: &[Rule] = &[
    Rule { message: "SQL belongs into store", rooms: &["store"], found: is_sql },
    Rule {
        message: "only store knows the database drivers",
        rooms: &["store"],
        found: |at| at[0].is("sqlx") || at[0].is("rusqlite"),
    },
    Rule { message: "tasks are spawned through Shutdown", rooms: &["shutdown", "files"], found: is_spawn },
    Rule { message: "only upstream opens connections", rooms: &["upstream"], found: is_connect },
    Rule {
        message: "only upstream and machine make sockets",
        rooms: &["upstream", "machine"],
        found: |at| at[0].is("TcpSocket"),
    },
    Rule {
        message: "only wire knows a provider's JSON (simulate speaks it, verify and cli read it)",
        rooms: &["wire", "simulate", "verify", "cli"],
        found: is_provider_json,
    },
];

/// For all code, tests included.
pub const NOBODY: &[Rule] = &[
    Rule { message: "no unsafe code", rooms: &[], found: |at| at[0].is("unsafe") },
    Rule {
        message: "write #[expect(…, reason = \"…\")] instead of #[allow(…)]",
        rooms: &[],
        found: |at| begins(at, "# [ allow (") || begins(at, "# ! [ allow ("),
    },
    Rule { message: "every channel has a bound", rooms: &[], found: is_unbounded },
    Rule { message: "ask for port 0: a fixed port may be taken", rooms: &[], found: is_fixed_port },
];

/// For integration tests.
pub const IN_TESTS: &[Rule] = &[
    Rule { message: "no port number in a test: listen on port 0 and ask for the address", rooms: &[], found: is_local },
    Rule { message: "no sleep in a test: wait for the event, or stop the clock", rooms: &["support"], found: is_sleep },
];

/// For product code, but for the files that may wait for a disk.
pub const NO_FILES: &[Rule] = &[Rule {
    message: "a call to the file system may hang, and with it every request: call it through `files`",
    rooms: &[],
    found: is_file_call,
}];

/// The violations of these rules, as "LINE: message"; `room` is the module at the top of the crate.
pub fn broken(rules: &[Rule], room: &str, tokens: &[Token]) -> Vec<String> {
    let mut problems = Vec::new();
    for rule in rules.iter().filter(|rule| !rule.rooms.contains(&room)) {
        let places = (0..tokens.len()).filter(|at| (rule.found)(&tokens[*at..]));
        problems.extend(places.map(|at| format!("{}: {}", tokens[at].line, rule.message)));
    }
    problems
}

/// Functions that are longer than `limit` lines, from `fn` to the closing brace, as "LINE: message".
pub fn long_functions(tokens: &[Token], limit: usize) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.is("fn")) {
        let Some((name, end)) = tokens.get(at + 1).and_then(Token::word).zip(end_of_function(tokens, at)) else {
            continue;
        };
        let lines = tokens[end - 1].line - token.line + 1;
        if lines > limit {
            problems.push(format!("{}: fn {name} has {lines} lines; at most {limit}", token.line));
        }
    }
    problems
}

/// Functions that read a provider's bytes and do not yield themselves.
const READS: [&str; 3] = ["poll_chunk", "poll_frame", "next_event"];
/// Functions that yield to other tasks, or run apart from them.
const TURNS: [&str; 2] = ["poll_proceed", "aside"];

/// Loops that read a provider's bytes, in functions that never yield, as "LINE: message". A loop that calls a function
/// which yields needs no further yield.
pub fn loops_without_a_turn(tokens: &[Token]) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.is("fn")) {
        let Some((name, end)) = tokens.get(at + 1).and_then(Token::word).zip(end_of_function(tokens, at)) else {
            continue;
        };
        let body = &tokens[at + 2..end];
        let has = |tokens: &[Token], words: &[&str]| tokens.iter().any(|token| words.iter().any(|word| token.is(word)));
        let first_loop = body.iter().position(|token| ["loop", "while", "for"].iter().any(|word| token.is(word)));
        let reads = first_loop.is_some_and(|first| has(&body[first..], &READS));
        if reads && !has(body, &TURNS) {
            problems.push(format!(
                "{}: fn {name} reads a provider's bytes in a loop: ask Pace::poll_proceed before each step, or work aside",
                token.line
            ));
        }
    }
    problems
}

/// One past the brace that ends the body of the function at `at`. None for a function without a body.
fn end_of_function(tokens: &[Token], mut at: usize) -> Option<usize> {
    loop {
        match tokens.get(at)?.kind {
            Kind::Mark(';') => return None,
            Kind::Mark('{') => return Some(end_of_brackets(tokens, at)),
            Kind::Mark('(' | '[') => at = end_of_brackets(tokens, at),
            _ => at += 1,
        }
    }
}

fn is_sql(at: &[Token]) -> bool {
    const STATEMENTS: [&str; 12] = [
        "SELECT ",
        "INSERT INTO ",
        "INSERT OR ",
        "DELETE FROM ",
        "UPDATE attempt",
        "UPDATE race",
        "CREATE TABLE ",
        "CREATE INDEX ",
        "CREATE VIEW ",
        "DROP TABLE ",
        "ALTER TABLE ",
        "PRAGMA ",
    ];
    at[0].text().is_some_and(|text| STATEMENTS.iter().any(|statement| text.contains(statement)))
}

fn is_spawn(at: &[Token]) -> bool {
    const CALLS: [&str; 4] = ["tokio : : spawn", "task : : spawn", "thread : : spawn", "thread : : Builder"];
    const WORDS: [&str; 4] = ["spawn_blocking", "spawn_local", "JoinSet", "TaskTracker"];
    CALLS.iter().any(|call| begins(at, call)) || WORDS.iter().any(|word| at[0].is(word))
}

/// Also an import of what makes such calls.
fn is_file_call(at: &[Token]) -> bool {
    const METHODS: [&str; 10] = [
        "exists",
        "try_exists",
        "metadata",
        "symlink_metadata",
        "is_file",
        "is_dir",
        "is_symlink",
        "canonicalize",
        "read_dir",
        "read_link",
    ];
    let names_one = METHODS.iter().any(|method| begins(at, &format!(". {method} (")));
    names_one || begins(at, "std : : fs") || begins(at, "tokio : : fs")
}

fn is_connect(at: &[Token]) -> bool {
    begins(at, "TcpStream : : connect") || begins(at, "hyper : : client")
}

/// Names of members that occur only in providers' JSON, never in the gateway's own.
fn is_provider_json(at: &[Token]) -> bool {
    const MEMBERS: [&str; 6] =
        ["choices", "delta", "tool_calls", "reasoning_content", "prompt_tokens", "completion_tokens"];
    let names = |text: &str| MEMBERS.iter().any(|name| text == *name || text.contains(&format!("\"{name}\"")));
    at[0].text().is_some_and(names)
}

fn is_unbounded(at: &[Token]) -> bool {
    at[0].is("unbounded_channel") || at[0].is("unbounded")
}

/// `bind("127.0.0.1:80")`, `connect(("localhost", 80))` and the like, except with port 0.
fn is_fixed_port(at: &[Token]) -> bool {
    if !(begins(at, "bind (") || begins(at, "connect (")) {
        return false;
    }
    if let Some(text) = at.get(2).and_then(Token::text) {
        return text.rsplit_once(':').is_some_and(|(_, port)| is_port(port));
    }
    let inner = end_of_brackets(at, 1).saturating_sub(3);
    let last = at.get(inner).map(|token| &token.kind);
    begins(&at[2..], "(") && matches!(last, Some(Kind::Number(port)) if is_port(port))
}

/// A local address with a port, in any text.
fn is_local(at: &[Token]) -> bool {
    const HOSTS: [&str; 4] = ["127.0.0.1:", "localhost:", "[::1]:", "0.0.0.0:"];
    let port_follows =
        |rest: &str| is_port(rest.split(|character: char| !character.is_ascii_digit()).next().unwrap_or(""));
    at[0].text().is_some_and(|text| HOSTS.iter().any(|host| text.split(host).skip(1).any(port_follows)))
}

fn is_sleep(at: &[Token]) -> bool {
    begins(at, "sleep (")
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::tokens;

    fn count(rules: &[Rule], room: &str, source: &str) -> usize {
        broken(rules, room, &tokens(source)).len()
    }

    #[test]
    fn each_rule_of_one_room_can_fail() {
        for (source, room) in [
            ("q(\"SELECT 1\")", "store"),
            ("q(r#\"\n  INSERT INTO race VALUES (1)\"#)", "store"),
            ("use sqlx::Row;", "store"),
            ("rusqlite::Connection::open(x)", "store"),
            ("tokio::spawn(x)", "shutdown"),
            ("tokio::task::spawn_blocking(x)", "shutdown"),
            ("std::thread::spawn(x)", "shutdown"),
            ("JoinSet::new()", "shutdown"),
            ("TcpStream::connect(x)", "upstream"),
            ("value[\"choices\"]", "wire"),
            ("r#\"{\"delta\":{}}\"#", "wire"),
        ] {
            assert_eq!(count(ONE_ROOM, "relay", source), 1, "{source}");
            assert_eq!(count(ONE_ROOM, room, source), 0, "{source} in {room}");
        }
        let fine = "// SELECT 1\nshutdown.spawn(x); let choices = \"select a choice\"; Delta";
        assert_eq!(count(ONE_ROOM, "relay", fine), 0);
    }

    #[test]
    fn each_call_to_the_file_system_is_found() {
        for source in [
            "use std::fs::File;",
            "use std::fs::{self, Metadata};",
            "std::fs::read(path)",
            "tokio::fs::File::open(path).await",
            "if path.exists() { f() }",
            "path.metadata()?.len()",
            "directory.is_dir()",
        ] {
            assert_eq!(count(NO_FILES, "any", source), 1, "{source}");
        }
        for fine in ["std::os::unix::fs::PermissionsExt", "content.metadata.len()", "files::read(path)"] {
            assert_eq!(count(NO_FILES, "any", fine), 0, "{fine}");
        }
    }

    #[test]
    fn each_rule_for_everybody_can_fail() {
        for source in [
            "unsafe { x }",
            "#[allow(dead_code)] fn f() {}",
            "#![allow(dead_code)]",
            "mpsc::unbounded_channel()",
            concat!("TcpListener::bind(\"127.0.0.1", ":8080\")"),
            "TcpListener::bind((\"localhost\", 8080))",
            "TcpStream::connect(([127, 0, 0, 1], 8080))",
        ] {
            assert_eq!(count(NOBODY, "any", source), 1, "{source}");
        }
        for fine in [
            "#![forbid(unsafe_code)] \"unsafe\"",
            "// #[allow(x)]",
            "bind(\"127.0.0.1:0\")",
            "bind((\"::1\", 0))",
            "bind(address)",
        ] {
            assert_eq!(count(NOBODY, "any", fine), 0, "{fine}");
        }
    }

    #[test]
    fn each_rule_for_tests_can_fail() {
        let port = concat!("get(\"http://127.0.0.1", ":8080/v1\")");
        assert_eq!(count(IN_TESTS, "gateway", port), 1);
        assert_eq!(count(IN_TESTS, "gateway", "tokio::time::sleep(x).await"), 1);
        assert_eq!(count(IN_TESTS, "support", "tokio::time::sleep(x).await"), 0);
        assert_eq!(
            count(IN_TESTS, "gateway", "bind(\"127.0.0.1:0\"); \"http://10.0.0.7:8000\"; \"localhost:{port}\""),
            0
        );
    }

    #[test]
    fn a_long_function_is_named() {
        let source =
            "trait T { fn none(&self); }\nfn f<'a>(g: fn(u8) -> u8,\n  b: [u8; 2])\n{\n  '{'; \"}\";\n}\nfn h() {}";
        assert!(long_functions(&tokens(source), 5).is_empty());
        assert_eq!(long_functions(&tokens(source), 4), ["2: fn f has 5 lines; at most 4"]);
    }

    #[test]
    fn a_loop_over_a_provider_s_bytes_gives_the_others_a_turn() {
        for bad in [
            "fn f() { loop { body.poll_chunk(context); } }",
            "fn f<'a>(x: fn(u8)) -> u8 { a; while let Some(e) = poll_fn(|c| { body.poll_chunk(c) }).await { b } }",
            "fn f() { while let Ok(Some(event)) = scanner.next_event() { g(event) } }",
        ] {
            assert_eq!(loops_without_a_turn(&tokens(bad)).len(), 1, "{bad}");
        }
        for fine in [
            "fn f() { loop { ready!(self.pace.poll_proceed(context)); body.poll_chunk(context); } }",
            "fn f() { aside(n, || { while let Ok(Some(event)) = scanner.next_event() { g(event) } }) }",
            "fn f() { body.poll_chunk(context); loop { g() } }",
            "fn f() { loop { g() } } fn h() { body.poll_chunk(context) }",
            "trait T { fn next_event(&mut self); } fn f() { loop { stream.poll_item(context) } }",
        ] {
            assert!(loops_without_a_turn(&tokens(fine)).is_empty(), "{fine}");
        }
        assert!(loops_without_a_turn(&tokens("\nfn f() { loop { x.next_event() } }"))[0].starts_with("2: fn f "));
    }

    #[test]
    fn a_broken_rule_is_reported_with_its_line() {
        assert_eq!(broken(NOBODY, "any", &tokens("\n\nunsafe {}")), ["3: no unsafe code"]);
    }
}
