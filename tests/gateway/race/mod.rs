//! Races over real sockets: who wins, who is cancelled, and the rows.

mod billed_losers;
mod cancellation;
mod catalogue_facts;
mod codex;
mod commit;
mod every_surface;
mod held_attempt;
mod held_race;
mod learning;
mod looks;
mod patience;
mod plain_answer;
mod policies;
mod record;
mod seeded_worlds;
mod shutdown;
mod timeouts;
mod whole_answer;
mod winner;
