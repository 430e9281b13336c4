//! What a subject uses of one rate: here, and at the other gateways that share its limit.
//!
//! One bucket has what all of them used, that of others as late as it was heard. A second one has what this gateway used of its own part
//! of the limit, so that what is not heard yet cannot add up to more than the limit. Not for how the parts are found: see `replicas`.

use super::bucket::{Bucket, RateLeft};
use photofinish_config::Rate;

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
    /// What the limit lets in each minute, as it was last. 0: it is not known.
    per_minute: u64,
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
        let (per_minute, burst) = (self.of_whole(rate.per_minute), self.of_whole(heard_late(rate).burst));
        // One at a time, where that drains soon.
        let least = if per_minute >= 30 * millionths(1) { millionths(1) } else { 0 };
        Rate { per_minute, burst: burst.max(least) }
    }

    fn of_whole(&self, amount: u64) -> u64 {
        amount.saturating_mul(u64::from(self.share))
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
        self.per_minute = rate.per_minute;
        self.pass(now_us);
    }

    fn pass(&mut self, now_us: i64) {
        self.all.drain(self.per_minute, now_us);
        if let Some(part) = &mut self.part {
            part.own.drain(part.of_whole(self.per_minute), now_us);
        }
    }

    /// Microseconds until `amount` fits; 0: now. More than the burst fits a rate of which nothing is used.
    pub fn wait_us(&self, rate: Rate, amount: u64) -> i64 {
        let Some(part) = &self.part else { return self.all.wait_us(rate, amount) };
        let own = part.of(rate);
        let of_own = || part.own.wait_us(own, millionths(amount));
        // What it does not fit into may also be left by the others: as long as all that they may use of their parts still fits.
        let left_by_others = self.all.drains_within(rate, (own.burst / u64::from(WHOLE)).saturating_sub(amount));
        let of_part = match millionths(amount) <= own.burst || part.is_turn {
            true if part.is_missed => of_own(),
            true => of_own().min(left_by_others),
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

    /// See the field.
    pub fn per_minute(&self) -> u64 {
        self.per_minute
    }

    /// Before [`RateUse::hear`]: what was used before has drained, what is heard now has not. By the reports of others the limit lets in
    /// `told_per_minute` each minute.
    pub fn begin_hearing(&mut self, told_per_minute: u64, now_us: i64) {
        if self.per_minute == 0 {
            self.per_minute = told_per_minute;
        }
        match self.per_minute {
            0 => self.all = Bucket::at(now_us),
            per_minute => self.all.drain(per_minute, now_us),
        }
    }

    /// Another gateway took so much, or gave it back.
    pub fn hear(&mut self, amount: i64) {
        match u64::try_from(amount) {
            Ok(more) => self.all.take_late(self.per_minute, more),
            Err(_) => self.all.give_back(amount.unsigned_abs()),
        }
    }

    /// All was heard.
    pub fn end_hearing(&mut self) {
        self.all.forget_idle();
    }

    /// The others are not heard.
    pub fn miss(&mut self, now_us: i64) {
        self.pass(now_us);
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
