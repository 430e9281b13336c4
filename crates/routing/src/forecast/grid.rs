//! The time grid of survival curves: 56 points from 40 ms to 60 s, 14 % apart. Not for observations, which have a grid of their own
//! in `residuals`.

use std::sync::LazyLock;

/// Points of the grid.
pub const TIMES: usize = 56;
/// Between two points, as a logarithm: ln(60 s / 40 ms) / 55.
pub const STEP: f64 = 0.132_967_643_401_641_84;
/// ln of the first point in µs.
pub const FIRST: f64 = 10.596_634_733_096_073;

/// A divisor of the number of points.
const LANES: usize = 8;

/// A value for each point of the grid.
pub type GridRow = [f32; TIMES];

/// Values that depend on the grid alone.
pub struct Grid {
    /// The points, µs.
    pub times: GridRow,
    /// Weight of each point in an integral over time, µs.
    pub widths: GridRow,
    /// For each point: where the others lie once it is the beginning.
    after: [[GridPosition; TIMES]; TIMES],
}

/// A place between two points.
#[derive(Clone, Copy, Default)]
struct GridPosition {
    /// The point before it, counted from 1; 0 is the time from 0 to the first.
    before: u8,
    /// How far to the next, 0..1.
    share: f32,
}

/// The one grid.
pub fn grid() -> &'static Grid {
    static GRID: LazyLock<Grid> = LazyLock::new(Grid::new);
    &GRID
}

/// Where `time_us` lies, counted in points from the first; below 0 before it.
pub fn position(time_us: f64) -> f64 {
    (time_us.max(1.0).ln() - FIRST) / STEP
}

/// The sum of the products, in lanes that a processor adds side by side.
pub fn dot(one: &GridRow, other: &GridRow) -> f32 {
    let mut sums = [0.0_f32; LANES];
    for (one, other) in one.chunks_exact(LANES).zip(other.chunks_exact(LANES)) {
        for (sum, (one, other)) in sums.iter_mut().zip(one.iter().zip(other)) {
            *sum += one * other;
        }
    }
    sums.iter().sum()
}

/// What is met at each time by an attempt of this survival that begins at a point of the grid: 1 − S(t − begun). Until then
/// `met` stays as it is.
pub fn met(row: &GridRow, from: usize, met: &mut GridRow) {
    let mut padded = [row[TIMES - 1]; 64];
    padded[0] = 1.0;
    padded[1..=TIMES].copy_from_slice(row);
    let Some(places) = grid().after.get(from) else { return };
    for (value, place) in met.iter_mut().zip(places).skip(from + 1) {
        let before = usize::from(place.before) & 63;
        let (here, next) = (padded[before], padded[(before + 1) & 63]);
        *value = 1.0 - here - place.share * (next - here);
    }
}

/// The survival of one that begins later: S(t − `delay_us`).
pub fn delayed(row: &GridRow, delay_us: f32) -> GridRow {
    if delay_us <= 0.0 {
        return *row;
    }
    walk(row, -delay_us, 1.0)
}

/// What is left of survival after `waited_us`: S(t + waited) / S(waited).
pub fn given(row: &GridRow, waited_us: f32) -> GridRow {
    if waited_us <= 0.0 {
        return *row;
    }
    let now = at(row, f64::from(waited_us)).max(f32::MIN_POSITIVE);
    walk(row, waited_us, 1.0 / now)
}

/// The value of a survival row at any time.
pub fn at(row: &GridRow, time_us: f64) -> f32 {
    let position = (position(time_us) + 1.0).clamp(0.0, TIMES as f64);
    let padded = padded(row);
    let before = (position as usize).min(TIMES - 1);
    padded[before] + (position - before as f64) as f32 * (padded[before + 1] - padded[before])
}

/// The row's values at the grid's times, each moved by `shift_us`, times `factor`. Between two points a straight line.
fn walk(row: &GridRow, shift_us: f32, factor: f32) -> GridRow {
    let times = &grid().times;
    let mut moved = [factor.min(1.0); TIMES];
    let mut next = 0;
    for (value, time) in moved.iter_mut().zip(times) {
        let time = time + shift_us;
        if time <= 0.0 {
            *value = 1.0;
            continue;
        }
        while times.get(next).is_some_and(|point| *point < time) {
            next += 1;
        }
        let (before, earlier) = if next == 0 { (1.0, 0.0) } else { (row[next - 1], times[next - 1]) };
        let between = match row.get(next) {
            Some(after) => before + (time - earlier) / (times[next] - earlier) * (after - before),
            None => before,
        };
        *value = (between * factor).clamp(0.0, 1.0);
    }
    moved
}

/// With the 1 before the first point, and the last value once more.
fn padded(row: &GridRow) -> [f32; 65] {
    let mut padded = [row[TIMES - 1]; 65];
    padded[0] = 1.0;
    padded[1..=TIMES].copy_from_slice(row);
    padded
}

impl Grid {
    fn new() -> Grid {
        let times: GridRow = std::array::from_fn(|point| (FIRST + point as f64 * STEP).exp() as f32);
        let widths = std::array::from_fn(|point| {
            let earlier = if point == 0 { -times[0] } else { times[point - 1] };
            let later = times.get(point + 1).unwrap_or(&times[point]);
            (later - earlier) / 2.0
        });
        let after = std::array::from_fn(|from| {
            std::array::from_fn(|point| GridPosition::of(f64::from(times[point]) - f64::from(times[from])))
        });
        Grid { times, widths, after }
    }
}

impl GridPosition {
    fn of(time_us: f64) -> GridPosition {
        let position = (position(time_us) + 1.0).clamp(0.0, TIMES as f64);
        // Before the first point the grid is a line over time, as everywhere else between two points.
        if position < 1.0 {
            return GridPosition { before: 0, share: (time_us / FIRST.exp()).clamp(0.0, 1.0) as f32 };
        }
        GridPosition { before: position as u8, share: position.fract() as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(mean_us: f32) -> GridRow {
        grid().times.map(|time| (-time / mean_us).exp())
    }

    #[test]
    fn the_grid_reaches_from_40_ms_to_60_s_and_integrates() {
        let grid = grid();
        assert!((grid.times[0] - 40_000.0).abs() < 1.0 && (grid.times[TIMES - 1] - 60e6).abs() < 100.0);
        let mean: f32 = exponential(800_000.0).iter().zip(grid.widths).map(|(alive, width)| alive * width).sum();
        assert!((mean / 800_000.0 - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn an_exponential_forgets_how_long_it_waited() {
        let row = exponential(500_000.0);
        let left = given(&row, 700_000.0);
        for (time, (fresh, left)) in grid().times.iter().zip(row.iter().zip(left)).filter(|(time, _)| **time < 3e6) {
            assert!((fresh - left).abs() < 0.02, "{time}: {fresh} {left}");
        }
    }

    #[test]
    fn a_row_is_moved_to_a_later_beginning() {
        let row = exponential(500_000.0);
        let from = 17;
        let begun = grid().times[from];
        let mut by_table = [0.0; TIMES];
        met(&row, from, &mut by_table);
        let (by_table, by_walk) = (by_table.map(|met| 1.0 - met), delayed(&row, begun));
        for (point, time) in grid().times.iter().enumerate().filter(|(_, time)| **time < 3e6) {
            let truth = if *time <= begun { 1.0 } else { (-(time - begun) / 500_000.0).exp() };
            assert!((by_table[point] - truth).abs() < 0.03, "{time}: {} {truth}", by_table[point]);
            assert!((by_walk[point] - truth).abs() < 0.03, "{time}: {} {truth}", by_walk[point]);
        }
        assert_eq!(delayed(&row, 0.0), row);
    }
}
