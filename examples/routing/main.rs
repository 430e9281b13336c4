//! Days of simulated traffic through the gateway's race and policies, every policy with the same draws. How to read the
//! table: `docs/benchmarks.md`.

mod aims;
mod baselines;
mod beginnings;
mod draws;
mod figures;
mod policies;
mod reaction;
mod recipe;
mod restart;
mod table;
mod weather;
mod world;

use std::io::{IsTerminal, Write};

use anyhow::Context;
use clap::Parser;

use crate::policies::Policy;
use crate::recipe::{Recipe, recipes};
use crate::world::World;

/// Simulate days of traffic against made-up upstreams under every policy, and compare the policies.
///
/// One seed is one world: its requests, its weather, and one draw for each request and upstream, the same for every
/// policy. The same seed prints the same figures on any machine. Worlds that were not used for tuning have seeds from
/// 100 on.
#[derive(Debug, Parser)]
#[command(name = "routing", after_help = after_help())]
struct Options {
    /// The name of the world, or "all".
    #[arg(long, default_value = "described")]
    world: String,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Days of traffic instead of the world's own.
    #[arg(long)]
    days: Option<f64>,
    /// Only policies whose name contains this, and the reference policies; may be given several times.
    #[arg(long)]
    policy: Vec<String>,
    /// Leave out the reference policies, and the figures that compare with them: for comparing two versions of the code.
    #[arg(long, requires = "policy")]
    bare: bool,
    /// Only the tables, without the further experiments (other objectives, a favourite that gets worse, a restart),
    /// which use the described world.
    #[arg(long)]
    table: bool,
    /// Print each table as one JSON object.
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let known = recipes();
    let chosen: Vec<Recipe> =
        known.iter().filter(|recipe| options.world == "all" || options.world == recipe.name).cloned().collect();
    let names = || known.iter().map(|recipe| recipe.name).collect::<Vec<_>>().join(", ");
    anyhow::ensure!(!chosen.is_empty(), "no world {:?}; there are {}, and all", options.world, names());
    let mut out = std::io::stdout().lock();
    let mut checked = Ok(());
    for mut recipe in chosen {
        recipe.days = options.days.unwrap_or(recipe.days);
        let world = World::new(recipe, options.seed);
        anyhow::ensure!(!world.requests.is_empty(), "{}: so few days have no requests", world.recipe.name);
        let rows = match options.bare {
            true => table::bare_rows(&world, options.seed, &options.policy, &progress(world.recipe.name))?,
            false => table::rows(&world, options.seed, &options.policy, &progress(world.recipe.name))?,
        };
        if options.json {
            writeln!(out, "{}", table::json(&world, options.seed, &rows))?;
        } else {
            table::print(&mut out, &world, options.seed, &rows)?;
        }
        if !options.table && world.recipe.name == "described" {
            experiments(&mut out, &world, &options)?;
        }
        out.flush()?;
        checked = checked.and(table::check(&rows).with_context(|| world.recipe.name));
    }
    checked
}

/// The experiments that the table does not cover.
fn experiments(out: &mut impl Write, world: &World, options: &Options) -> anyhow::Result<()> {
    let aims = aims::lines(world, options.seed, &progress("aims"))?;
    let [two, ten] = [Policy::adaptive(2)?, Policy::adaptive(10)?];
    let rivals = [Policy::adaptive(0)?, two, ten.clone(), Policy::Ewma];
    let reactions = reaction::reactions(&world.recipe, options.seed, &rivals)?;
    let settings = if let Policy::Product { settings, .. } = &ten { Some(settings) } else { None };
    let began = beginnings::beginnings(world, options.seed)?;
    let served = settings.map(|settings| restart::restarts(world, settings, options.seed)).unwrap_or_default();
    if options.json {
        writeln!(
            out,
            "{}\n{}\n{}\n{}",
            aims::json(&aims),
            reaction::json(&reactions),
            restart::json(&served),
            beginnings::json(&began)
        )?;
    } else {
        aims::print(out, &aims)?;
        reaction::print(out, &reactions)?;
        restart::print(out, &ten, &served)?;
        beginnings::print(out, &began)?;
    }
    Ok(())
}

/// Shows the progress on a terminal.
fn progress(world: &'static str) -> impl Fn(&str) + Sync {
    let on_terminal = std::io::stderr().is_terminal();
    move |name| {
        if on_terminal {
            // A failed write of this line does no harm.
            let _ = write!(std::io::stderr(), "\r{world}: {name}\x1b[K");
        }
    }
}

fn after_help() -> String {
    let worlds: Vec<String> =
        recipes().iter().map(|recipe| format!("  {:<12} {}", recipe.name, recipe.about)).collect();
    format!(
        "Worlds:\n{}\n\nColumns: client TTFT; extra cost over the base cost; share of what racing all upstreams gains over the best single \
         one, which is chosen in hindsight; TTFT over that of an oracle for the same request; time to the whole answer; goodput \
         under three pairs of TTFT/TPOT limits; the hour that came nearest to the bound on the budget (the run fails above 1).",
        worlds.join("\n")
    )
}
