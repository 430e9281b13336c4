//! What a subject uses of one rate: here, and at the other gateways that share its limit.
//!
//! One bucket has what all of them used, that of others as late as it was heard. A second one has what this gateway used of its own part
//! of the limit, so that what is not heard yet cannot add up to more than the limit. Not for how the parts are found: see `replicas`.

use super::bucket::{Bucket, RateLeft};
use photofinish_config::config::Rate;

/// The whole, in the unit of shares.
pub(super) const WHOLE: u32 = 1_000_000;

/// What a subject uses of one rate.
#[derive(Clone, Debug, Default)]
pub(super) struct RateUse {
    /// Used by all gateways.
    all: Bucket,
    /// Taken here since the start, less what was given back.
    counted: i64,
    part: Option<Part>,
    /// The limit, as it was last.
    rate: Option<Rate>,
}

/// This gateway's part of a rate.
#[derive(Clone, Debug)]
struct Part {
    /// Of [`WHOLE`].
    share: u32,
    /// What is too large for the part passes in turn.
    is_turn: bool,
    /// Until the turn may have come, in microseconds.
    turn_within_us: i64,
    /// The others are not heard.
    is_missed: bool,
    /// Used here, in units of a millionth.
    own: Bucket,
}

impl Part {
    fn of(&self, rate: Rate) -> Rate {
        let part = |amount: u64| amount.saturating_mul(u64::from(self.share));
        let (per_minute, burst) = (part(rate.per_minute), part(heard_late(rate).burst));
        // One at a time, where that drains soon.
        let least = if per_minute >= 30 * millionths(1) { millionths(1) } else { 0 };
        Rate { per_minute, burst: burst.max(least) }
    }
}

/// What others use is heard up to a second late, half a second on average: so much more than the burst may seem used.
fn heard_late(rate: Rate) -> Rate {
    Rate { burst: rate.burst + rate.per_minute / 120, ..rate }
}

fn millionths(amount: u64) -> u64 {
    amount.saturating_mul(u64::from(WHOLE))
}

impl RateUse {
    /// The time passes.
    pub fn drain(&mut self, rate: Rate, now_us: i64) {
        self.rate = Some(rate);
        self.all.drain(rate, now_us);
        if let Some(part) = &mut self.part {
            part.own.drain(part.of(rate), now_us);
        }
    }

    /// Microseconds until `amount` fits; 0: now. More than the burst fits a rate of which nothing is used.
    pub fn wait_us(&self, rate: Rate, amount: u64) -> i64 {
        let Some(part) = &self.part else { return self.all.wait_us(rate, amount) };
        let own = part.of(rate);
        // What it does not fit into may also be left by the others: as long as all that they may use of their parts still fits.
        let left_by_others = || (own.burst / u64::from(WHOLE)).checked_sub(amount);
        let of_part = match millionths(amount) <= own.burst {
            true => {
                let of_own = part.own.wait_us(own, millionths(amount));
                left_by_others()
                    .filter(|_| !part.is_missed)
                    .map_or(of_own, |used| of_own.min(self.all.drains_within(rate, used)))
            }
            false if part.is_turn => 0,
            false => part.turn_within_us,
        };
        self.all.wait_us(heard_late(rate), amount).max(of_part)
    }

    pub fn take(&mut self, amount: u64) {
        self.all.take(amount);
        self.counted = self.counted.saturating_add_unsigned(amount);
        if let Some(part) = &mut self.part {
            part.own.take(millionths(amount));
        }
    }

    pub fn give_back(&mut self, amount: u64) {
        self.all.give_back(amount);
        self.counted = self.counted.saturating_sub_unsigned(amount);
        if let Some(part) = &mut self.part {
            part.own.give_back(millionths(amount));
        }
    }

    /// See `counted`.
    pub fn counted(&self) -> i64 {
        self.counted
    }

    /// Before [`RateUse::hear`]: what was used before has drained, what is heard now has not.
    pub fn begin_hearing(&mut self, now_us: i64) {
        match self.rate {
            Some(rate) => self.all.drain(rate, now_us),
            None => self.all = Bucket::at(now_us),
        }
    }

    /// Another gateway took so much, or gave it back.
    pub fn hear(&mut self, amount: i64) {
        match u64::try_from(amount) {
            Ok(more) => self.all.take_late(self.rate.map_or(0, |rate| rate.per_minute), more),
            Err(_) => self.all.give_back(amount.unsigned_abs()),
        }
    }

    /// All was heard.
    pub fn end_hearing(&mut self) {
        self.all.forget_idle();
    }

    /// The others are not heard.
    pub fn miss(&mut self, now_us: i64) {
        if let Some(rate) = self.rate {
            self.drain(rate, now_us);
        }
        if let Some(part) = self.part.as_mut().filter(|part| !part.is_missed) {
            part.is_missed = true;
            part.own.fill(&self.all, part.share);
        }
    }

    /// This gateway's part from now on; what it used stays. None: the limit is its own.
    pub fn set_part(&mut self, part: Option<(u32, bool, i64)>) {
        self.part = part.map(|(share, is_turn, turn_within_us)| {
            let own = self.part.take().map(|before| before.own).unwrap_or_default();
            Part { share, is_turn, turn_within_us, is_missed: false, own }
        });
    }

    /// What fits now, in parts of a unit: see [`Bucket::room`].
    pub fn room(&self, rate: Rate) -> i128 {
        self.all.room(rate)
    }

    pub fn left(&self, rate: Rate) -> RateLeft {
        let all = RateLeft::of(rate, &self.all);
        match &self.part {
            Some(part) => RateLeft { left: all.left.min(part.own.left(part.of(rate)) / u64::from(WHOLE)), ..all },
            None => all,
        }
    }
}
