//! What a subject of limits knows of other gateways, and what is left to this one. Not for how it is heard: see `replicas`.

use std::collections::HashMap;

use super::rate::WHOLE;

/// What a subject knows of other gateways.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// What was counted of each that lives, and when it told so.
    pub counted: HashMap<i64, (i64, [i64; 2])>,
    /// Of all that live, by id, this one among them: running streams, and the part of the limit.
    pub parts: Vec<(u32, u32)>,
    pub own: usize,
    /// Whose turn it is. None: between two turns.
    pub turn: Option<usize>,
}

impl Others {
    /// How many streams may run here.
    pub fn streams(&self, limit: u32) -> u32 {
        if self.parts.len() < 2 {
            return limit;
        }
        let mut allowed: Vec<u32> = self
            .parts
            .iter()
            .map(|(_, share)| (u64::from(limit) * u64::from(*share) / u64::from(WHOLE)) as u32)
            .collect();
        // What is left goes round in turn.
        let left = limit.saturating_sub(allowed.iter().sum());
        for place in self.turn.into_iter().flat_map(|turn| turn..turn + left as usize) {
            let place = place % allowed.len();
            allowed[place] += 1;
        }
        let over = |(place, (running, _)): (usize, &(u32, u32))| match place == self.own {
            true => 0,
            false => running.saturating_sub(allowed[place]),
        };
        let over: u32 = self.parts.iter().enumerate().map(over).sum();
        allowed[self.own].saturating_sub(over)
    }
}
