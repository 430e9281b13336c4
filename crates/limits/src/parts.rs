//! What a subject of limits knows of other gateways, and what is left to this one. Not for how it is heard: see `replicas`.

use std::collections::{HashMap, VecDeque};

use super::heard::HeardUse;
use super::rate::WHOLE;

/// Parts of this gateway that are remembered while another one has not heard of them: those of half a minute.
const FOUND_MAX: usize = 60;

/// What a subject knows of other gateways.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// What each living gateway has counted, and when it reported that.
    pub counted: HashMap<i64, (i64, [i64; 2])>,
    /// Of all that live, by id, this one among them: running streams, and the part of the limit.
    pub parts: Vec<(u32, u32)>,
    pub own: usize,
    /// Parts of this gateway, and when each was found. The others may not have heard yet of those after the first.
    found: VecDeque<(i64, u32)>,
    /// Whose turn it is. None: between two turns.
    pub turn: Option<usize>,
}

impl Others {
    /// This gateway's part: a smaller one at once, a larger one when all others have heard of it. Until then they may still use
    /// theirs, which were larger.
    pub fn agree(&mut self, heard: &HeardUse) -> u32 {
        let share = self.parts[self.own].1;
        if self.found.back().is_some_and(|(at_us, _)| *at_us > heard.store_us) {
            // The clock of the store went back.
            self.found.clear();
        }
        if self.found.back().is_none_or(|(_, before)| *before != share) {
            self.found.push_back((heard.store_us, share));
        }
        while self.found.get(1).is_some_and(|(at_us, _)| *at_us < heard.agreed_us) {
            self.found.pop_front();
        }
        while self.found.len() > FOUND_MAX {
            let oldest = self.found.pop_front().map_or(share, |(_, share)| share);
            let next = &mut self.found[0].1;
            *next = oldest.min(*next);
        }
        self.share()
    }

    fn share(&self) -> u32 {
        self.found.iter().map(|(_, share)| *share).min().unwrap_or(WHOLE)
    }

    /// How many streams may run here.
    pub fn streams(&self, limit: u32) -> u32 {
        if self.parts.len() < 2 {
            return limit;
        }
        let part = |share: u32| (u64::from(limit) * u64::from(share) / u64::from(WHOLE)) as u32;
        let mut allowed: Vec<u32> = self.parts.iter().map(|(_, share)| part(*share)).collect();
        let not_agreed = allowed[self.own].saturating_sub(part(self.share()));
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
        allowed[self.own].saturating_sub(over + not_agreed)
    }
}
