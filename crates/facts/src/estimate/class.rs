//! The classes of request size and of concurrency, used for groups and for roll-ups.
//!
//! Not for the grid of times: that is `grid`.

/// Upper limit in estimated tokens, exclusive, and the name.
const INPUTS: [(i64, &str); 5] =
    [(500, "0-500"), (2_000, "500-2k"), (8_000, "2k-8k"), (32_000, "8k-32k"), (i64::MAX, "32k+")];

/// Upper limit in attempts, inclusive, and the name.
const CONCURRENCIES: [(i64, &str); 8] =
    [(1, "1"), (2, "2"), (4, "3-4"), (8, "5-8"), (16, "9-16"), (32, "17-32"), (64, "33-64"), (i64::MAX, "65+")];

/// Size class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Input(u8);

/// Attempts at the upstream, the new one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Concurrency(u8);

impl Input {
    /// How many classes there are.
    pub const COUNT: usize = INPUTS.len();

    /// `tokens`: estimated from the bytes.
    pub fn of(tokens_estimate: i64) -> Input {
        let place = INPUTS.iter().position(|(below, _)| tokens_estimate < *below);
        Input(place.unwrap_or(INPUTS.len() - 1) as u8)
    }

    /// The class of an index; the last one for a larger index.
    pub fn at(place: u8) -> Input {
        Input(place.min(INPUTS.len() as u8 - 1))
    }

    pub fn place(self) -> u8 {
        self.0
    }

    pub fn name(self) -> &'static str {
        INPUTS[usize::from(self.0)].1
    }
}

impl Concurrency {
    /// `others`: attempts that already ran.
    pub fn of(others: i64) -> Concurrency {
        let running = others.saturating_add(1);
        let place = CONCURRENCIES.iter().position(|(most, _)| running <= *most);
        Concurrency(place.unwrap_or(CONCURRENCIES.len() - 1) as u8)
    }

    /// The class of an index; the last one for a larger index.
    pub fn at(place: u8) -> Concurrency {
        Concurrency(place.min(CONCURRENCIES.len() as u8 - 1))
    }

    pub fn place(self) -> u8 {
        self.0
    }

    pub fn name(self) -> &'static str {
        CONCURRENCIES[usize::from(self.0)].1
    }

    /// The names of all classes, in rising order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        CONCURRENCIES.iter().map(|(_, name)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_ends_where_its_name_says() {
        for (tokens, name) in [(0, "0-500"), (499, "0-500"), (500, "500-2k"), (31_999, "8k-32k"), (32_000, "32k+")] {
            assert_eq!((Input::of(tokens).name(), Input::at(Input::of(tokens).place())), (name, Input::of(tokens)));
        }
        for (others, name) in [(0, "1"), (1, "2"), (2, "3-4"), (3, "3-4"), (4, "5-8"), (63, "33-64"), (64, "65+")] {
            let class = Concurrency::of(others);
            assert_eq!((class.name(), Concurrency::at(class.place())), (name, class));
        }
        assert_eq!((Input::of(i64::MAX).name(), Concurrency::of(i64::MAX).name()), ("32k+", "65+"));
        assert_eq!((Input::at(99).name(), Concurrency::at(99).name()), ("32k+", "65+"));
    }
}
