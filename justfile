# The commands of a day. `just` lists them; each is a line that also works by hand.

_:
    @just --list --unsorted

# Serve with config.toml
serve *options:
    cargo run --release -- serve {{options}}

# All tests, or those of one crate: just test wire
test crate="":
    cargo test --locked {{ if crate == "" { "" } else { "--package photofinish-" + crate } }}

# The tests over sockets whose names hold a word: just gateway rescue
gateway filter="":
    cargo test --locked --test gateway {{filter}}

# Format, and look for mistakes
lint:
    cargo fmt
    cargo clippy --locked --all-targets -- -D warnings

# The documentation of the code
docs:
    cargo doc --locked --no-deps --open

# What a request costs, in instructions
instructions *options:
    cargo build --locked --release
    scripts/instructions {{options}}

# How much a stranger has to read
counts *commits:
    scripts/counts {{commits}}

# The schema of the configuration, after a key has changed
schema:
    PHOTOFINISH_BLESS=1 cargo test --quiet -p photofinish-config schema

# What must hold before a change lands
ci:
    .ci/run

# Everything else: clients, attacks, the dashboard, faults, seeds, fuzzing
verify *steps:
    scripts/verify {{steps}}
