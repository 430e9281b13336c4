//! scratch
mod baselines;
mod draws;
mod figures;
mod recipe;
mod weather;
mod world;
use baselines::*;
use photofinish::rehearse::{Rules, Steering, run};
fn main() {
    let seed: u64 = std::env::args().nth(1).map_or(1, |s| s.parse().unwrap());
    let name = std::env::args().nth(2).unwrap_or("described".into());
    let recipe = recipe::recipes().into_iter().find(|r| r.name == name).unwrap();
    let began = std::time::Instant::now();
    let world = world::World::new(recipe, seed);
    let n = world.tariffs.len();
    println!("{} requests {:?}", world.requests.len(), began.elapsed());
    let play = |s: Box<dyn Steering + '_>| {
        let mut play = world::Play::new(&world);
        let mut kept = figures::Run::new(world.requests.len());
        run(world.requests.iter().copied(), &mut play, &mut Boxed(s), &Rules::default(), &mut |o| kept.hear(o));
        kept
    };
    let oracle = play(Box::new(Oracle { world: &world, completion: false }));
    let show = |name: &str, r: figures::Run| {
        let f = r.figures(&oracle);
        println!(
            "{name:14} {:6.0} {:6.0} {:6.0} {:6.0} | {:6.0} {:6.0} | {:5.1}% slow {:.2} good {:?} fail {:.5} att {:.2} {:?}",
            f.mean,
            f.p50,
            f.p99,
            f.p999,
            f.whole_mean,
            f.whole_p99,
            100.0 * f.extra,
            f.slowdown,
            f.goodput,
            f.failed,
            f.attempts,
            began.elapsed()
        );
        f
    };
    for i in 0..n {
        show(&format!("static {i}"), play(Box::new(Fixed::first(i, n))));
    }
    show("ewma", play(Box::new(Ewma::new(n, false))));
    show("p2c", play(Box::new(TwoChoices::new(n, seed))));
    show("ewma+p95", play(Box::new(Ewma::new(n, true))));
    show("race-all", play(Box::new(Fixed::race((0..n).collect(), n))));
    show("c-oracle", play(Box::new(Oracle { world: &world, completion: true })));
    show("oracle", play(Box::new(Oracle { world: &world, completion: false })));
}
