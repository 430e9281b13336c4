//! Which group is surely the best and which is the worst, column by column of the default table. Pure.
//!
//! Not for groups with few samples: they are neither.

use crate::cli::text::{GREEN, RED};
use photofinish_history::estimate::survival::Estimate;
use photofinish_history::report::figures::GroupFigures;

/// A group with fewer samples is neither best nor worst.
const SAMPLES_LEAST: f64 = 10.0;

/// How a group compares with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Best,
    Worst,
    Between,
}

impl Standing {
    pub fn colour(self) -> Option<&'static str> {
        match self {
            Standing::Best => Some(GREEN),
            Standing::Worst => Some(RED),
            Standing::Between => None,
        }
    }
}

/// Between which bounds a figure lies; less is better.
type FigureBounds = (f64, f64);

/// `shows_whole`: the times are of whole plain answers. For the columns that can be compared: their places behind the names, and how each group stands there.
pub fn standings(groups: &[&GroupFigures], shows_whole: bool) -> Vec<(usize, Vec<Standing>)> {
    let attempts = |figures: &GroupFigures| Some(figures.attempts as f64).filter(|attempts| *attempts >= SAMPLES_LEAST);
    let exact = |value: f64| (value, value);
    let column = |bounds: &dyn Fn(&GroupFigures) -> Option<FigureBounds>| {
        compared(&groups.iter().map(|figures| bounds(figures)).collect::<Vec<_>>())
    };
    let ttft = |place: usize| {
        column(&|figures: &GroupFigures| {
            attempts(figures)?;
            let times = figures.times(shows_whole);
            match times.at[place]? {
                Estimate::Reached(us) => Some(exact(us as f64)).filter(|_| times.effective >= SAMPLES_LEAST),
                Estimate::NotReached { over_us } => Some((over_us as f64, f64::INFINITY)),
            }
        })
    };
    let won = |figures: &GroupFigures| Some(exact(-(figures.wins as f64) / attempts(figures)?));
    let tok_s =
        |figures: &GroupFigures| Some(exact(-figures.tok_s[0]?)).filter(|_| figures.tok_s_effective >= SAMPLES_LEAST);
    let failed = |figures: &GroupFigures| Some(exact(figures.failures as f64 / attempts(figures)?));
    let mut columns = vec![(2, ttft(0)), (3, ttft(1)), (4, column(&tok_s)), (5, column(&failed))];
    // Else the column shows the gain.
    if groups.iter().all(|figures| figures.gain.is_none()) {
        columns.push((1, column(&won)));
    }
    columns
}

/// The best is surely better than every other, and the worst surely worse. Neither where two are equal.
fn compared(bounds: &[Option<FigureBounds>]) -> Vec<Standing> {
    let known: Vec<(usize, FigureBounds)> =
        bounds.iter().enumerate().filter_map(|(place, bounds)| Some((place, (*bounds)?))).collect();
    let mut standings = vec![Standing::Between; bounds.len()];
    for (place, (low, high)) in known.iter().filter(|_| known.len() > 1) {
        let others = || known.iter().filter(|(other, _)| other != place).map(|(_, other)| other);
        if others().all(|(other_low, _)| high < other_low) {
            standings[*place] = Standing::Best;
        } else if others().all(|(_, other_high)| low > other_high) {
            standings[*place] = Standing::Worst;
        }
    }
    standings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_sure_is_best_or_worst() {
        use Standing::{Best, Between, Worst};
        let exact = |value: f64| Some((value, value));
        let over = |value: f64| Some((value, f64::INFINITY));
        for (bounds, expected) in [
            (vec![exact(1.0), exact(2.0), exact(3.0)], vec![Best, Between, Worst]),
            (vec![exact(1.0), exact(1.0)], vec![Between, Between]),
            (vec![exact(1.0), None], vec![Between, Between]),
            (vec![exact(1.0), over(5.0)], vec![Best, Worst]),
            (vec![exact(5.0), over(1.0)], vec![Between, Between]),
            (vec![over(5.0), over(3.0), exact(1.0)], vec![Between, Between, Best]),
        ] {
            assert_eq!(compared(&bounds), expected, "{bounds:?}");
        }
    }
}
