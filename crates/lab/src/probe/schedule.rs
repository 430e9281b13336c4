//! When which probe is due. Time is cut into slots of the length of `every`; in each slot one moment is drawn by a seed, so each
//! hour of the day is measured in time. Pure: all times are microseconds of the wall clock since 1970.
//!
//! A probe that is late, after a jump of the clock, a restart or load at its upstream, runs when it can, until the moment of the
//! next slot but one. Each slot counts once, whatever the clock does.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use photofinish_base::clock::micros;

/// Moments that a clock may be set back before the schedule begins anew: less than a slot has two at most.
const AHEAD: i64 = 2;

/// What is measured: one upstream, with one workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeJob {
    pub model: String,
    pub workload: String,
    /// `provider/model`
    pub upstream: String,
}

/// A probe whose moment has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueProbe {
    pub job: ProbeJob,
    pub slot: i64,
    /// When it was to run.
    pub moment_us: i64,
}

/// The jobs, and what became of their slots.
#[derive(Debug)]
pub struct ProbeSchedule {
    seed: u64,
    jobs: BTreeMap<ProbeJob, JobState>,
}

#[derive(Clone, Copy, Debug)]
struct JobState {
    every_us: i64,
    /// The last slot that is over.
    last: i64,
    /// Later slots could run since the schedule knows the job.
    since: i64,
    /// Not before this time.
    not_before_us: i64,
}

impl ProbeSchedule {
    /// The same seed draws the same moments, also after a restart.
    pub fn new(seed: u64) -> ProbeSchedule {
        ProbeSchedule { seed, jobs: BTreeMap::new() }
    }

    /// From now on these jobs, each once per its interval. Jobs that stay keep their slots; a new one begins with its next moment.
    pub fn configure(&mut self, jobs: impl IntoIterator<Item = (ProbeJob, Duration)>, now_us: i64) {
        let mut before = std::mem::take(&mut self.jobs);
        for (job, every) in jobs {
            let every_us = micros(every).max(1);
            let kept = before.remove(&job).filter(|state| state.every_us == every_us);
            let last = self.open(&job, every_us, now_us);
            let state = kept.unwrap_or(JobState { every_us, last, since: last - AHEAD, not_before_us: i64::MIN });
            self.jobs.insert(job, state);
        }
    }

    /// The last probe before a restart was that of this moment.
    pub fn recall(&mut self, job: &ProbeJob, moment_us: i64, now_us: i64) {
        let Some(every_us) = self.jobs.get(job).map(|state| state.every_us) else { return };
        let open = self.open(job, every_us, now_us);
        let slot = moment_us.div_euclid(every_us);
        if let Some(state) = self.jobs.get_mut(job).filter(|_| slot <= open + AHEAD) {
            state.last = slot;
        }
    }

    /// Ends the slots that were not probed and are over now, since clients used the upstream all the time or others took too
    /// long. For each job how many; none from before the schedule knew it.
    pub fn give_up(&mut self, now_us: i64) -> Vec<(ProbeJob, u64)> {
        let mut given_up = Vec::new();
        let jobs: Vec<ProbeJob> = self.jobs.keys().cloned().collect();
        for job in jobs {
            let Some(JobState { every_us, last, since, .. }) = self.jobs.get(&job).copied() else { continue };
            let over = self.open(&job, every_us, now_us) - AHEAD;
            if over > last {
                self.end(&job, over, false);
            }
            let slots = u64::try_from(over - last.max(since)).unwrap_or(0);
            if slots > 0 {
                given_up.push((job, slots));
            }
        }
        given_up
    }

    /// The probe that is due for longest. Upstreams of one model come in an order that is drawn for each slot.
    pub fn due(&mut self, now_us: i64) -> Option<DueProbe> {
        let mut due: Option<(i64, u64, DueProbe)> = None;
        let jobs: Vec<ProbeJob> = self.jobs.keys().cloned().collect();
        for job in jobs {
            let Some(JobState { every_us, last, not_before_us, .. }) = self.jobs.get(&job).copied() else { continue };
            let open = self.open(&job, every_us, now_us);
            if last > open + AHEAD {
                // The clock was set back by more than a slot: nothing is due until the next moment.
                self.end(&job, open, true);
                continue;
            }
            let slot = (last + 1).max(open - 1);
            if slot > open || now_us < not_before_us {
                continue;
            }
            let moment_us = self.moment_us(&job, every_us, slot);
            let order = self.draw(&(&job, slot));
            if due.as_ref().is_none_or(|(moment, other, _)| (moment_us, order) < (*moment, *other)) {
                due = Some((moment_us, order, DueProbe { job, slot, moment_us }));
            }
        }
        due.map(|(.., due)| due)
    }

    /// How long nothing is due; None if there is no job.
    pub fn due_in(&self, now_us: i64) -> Option<Duration> {
        let next_us = |(job, state): (&ProbeJob, &JobState)| {
            let open = self.open(job, state.every_us, now_us);
            let moment_us = self.moment_us(job, state.every_us, (state.last + 1).max(open - 1));
            moment_us.max(state.not_before_us)
        };
        let next_us = self.jobs.iter().map(next_us).min()?;
        Some(Duration::from_micros(u64::try_from(next_us.saturating_sub(now_us)).unwrap_or(0)))
    }

    /// It ran, or will not.
    pub fn ended(&mut self, due: &DueProbe) {
        self.end(&due.job, due.slot, false);
    }

    /// It is due again at that time, if its slot is not over then.
    pub fn postpone(&mut self, due: &DueProbe, until_us: i64) {
        if let Some(state) = self.jobs.get_mut(&due.job) {
            state.not_before_us = until_us;
        }
    }

    /// The moments of the next `ahead`, the earliest first.
    pub fn plan(&self, now_us: i64, ahead: Duration) -> Vec<DueProbe> {
        let until_us = now_us.saturating_add(micros(ahead));
        let mut plan = Vec::new();
        for (job, state) in &self.jobs {
            let first = self.open(job, state.every_us, now_us) + 1;
            for slot in first.. {
                let moment_us = self.moment_us(job, state.every_us, slot);
                if moment_us >= until_us {
                    break;
                }
                plan.push(DueProbe { job: job.clone(), slot, moment_us });
            }
        }
        plan.sort_by_key(|due| (due.moment_us, self.draw(&(&due.job, due.slot))));
        plan
    }

    fn end(&mut self, job: &ProbeJob, slot: i64, is_set_back: bool) {
        if let Some(state) = self.jobs.get_mut(job) {
            state.last = if is_set_back { slot } else { state.last.max(slot) };
        }
    }

    /// The latest slot whose moment has come.
    fn open(&self, job: &ProbeJob, every_us: i64, now_us: i64) -> i64 {
        let slot = now_us.div_euclid(every_us);
        if self.moment_us(job, every_us, slot) <= now_us { slot } else { slot - 1 }
    }

    /// All upstreams of a model have the same moment, so that they are compared at the same time of day. It keeps a thousandth of
    /// the slot from both ends, so that a moment never equals the border of a slot.
    fn moment_us(&self, job: &ProbeJob, every_us: i64, slot: i64) -> i64 {
        let share = self.draw(&(&job.model, &job.workload, slot)) as f64 / u64::MAX as f64;
        let within = every_us as f64 * (0.001 + 0.998 * share);
        slot.saturating_mul(every_us).saturating_add(within as i64)
    }

    fn draw(&self, of: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.seed.hash(&mut hasher);
        of.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const HOUR_US: i64 = 3_600_000_000;
    const EVERY: Duration = Duration::from_secs(3 * 3_600);
    /// Some day in 2026, not at the border of a slot.
    const START_US: i64 = 1_790_000_000_000_000;

    fn jobs() -> Vec<(ProbeJob, Duration)> {
        let job = |workload: &str, upstream: &str| ProbeJob {
            model: "m".into(),
            workload: workload.into(),
            upstream: upstream.into(),
        };
        vec![(job("1k", "a/m"), EVERY), (job("1k", "b/m"), EVERY), (job("100k", "a/m"), 7 * 8 * EVERY)]
    }

    fn schedule() -> ProbeSchedule {
        let mut schedule = ProbeSchedule::new(7);
        schedule.configure(jobs(), START_US);
        schedule
    }

    /// Runs everything that is due at `now_us`; no slot twice.
    fn run(schedule: &mut ProbeSchedule, now_us: i64, ran: &mut Vec<DueProbe>, seen: &mut BTreeSet<(ProbeJob, i64)>) {
        while let Some(due) = schedule.due(now_us) {
            assert!(due.moment_us <= now_us, "{due:?} before its moment");
            assert!(seen.insert((due.job.clone(), due.slot)), "{due:?} twice");
            schedule.ended(&due);
            ran.push(due);
        }
    }

    /// The slots of a job without a gap.
    fn assert_whole(ran: &[DueProbe], job: &ProbeJob) -> usize {
        let slots: Vec<i64> = ran.iter().filter(|due| due.job == *job).map(|due| due.slot).collect();
        assert!(slots.windows(2).all(|pair| pair[1] == pair[0] + 1), "{job:?}: {slots:?}");
        slots.len()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Thirty days in steps of 10 minutes. The clock jumps by less than a slot, forth and back; the gateway reloads and restarts.
        #[test]
        fn each_slot_of_thirty_days_is_probed_once(
            events in prop::collection::btree_map(0_usize..4_320, (0_u8..3, 0..HOUR_US * 5 / 2), 0..20),
        ) {
            let mut schedule = schedule();
            let (mut ran, mut seen) = (Vec::<DueProbe>::new(), BTreeSet::new());
            let (mut now_us, mut ahead_us) = (START_US, 0);
            for step in 0..4_320 {
                match events.get(&step) {
                    // The clock is ahead by so much from now on.
                    Some((0, ahead)) => ahead_us = *ahead,
                    Some((1, _)) => schedule.configure(jobs(), now_us),
                    Some(_) => {
                        schedule = ProbeSchedule::new(7);
                        schedule.configure(jobs(), now_us);
                        ran.iter().for_each(|due| schedule.recall(&due.job, due.moment_us, now_us));
                    }
                    None => {}
                }
                now_us = START_US + HOUR_US / 6 * (step as i64 + 1) + ahead_us;
                run(&mut schedule, now_us, &mut ran, &mut seen);
            }
            let days = (now_us - START_US) as f64 / (24.0 * HOUR_US as f64);
            for (job, every) in jobs() {
                let count = assert_whole(&ran, &job) as f64;
                let expected = days * 86_400.0 / every.as_secs_f64();
                prop_assert!((count - expected).abs() <= 2.5, "{job:?}: {count} of {expected}");
            }
        }
    }

    #[test]
    fn moments_are_spread_over_their_slots_and_shared_by_the_upstreams_of_a_model() {
        let plan = schedule().plan(START_US, 240 * EVERY);
        let of = |upstream: &str| -> Vec<i64> {
            let of = plan.iter().filter(|due| due.job.workload == "1k" && due.job.upstream == upstream);
            of.map(|due| due.moment_us).collect()
        };
        assert_eq!(of("a/m"), of("b/m"));
        let every_us = micros(EVERY);
        let mut quarters = [0; 4];
        of("a/m").iter().for_each(|moment| quarters[(moment.rem_euclid(every_us) * 4 / every_us) as usize] += 1);
        assert!(quarters.iter().all(|count| *count >= 40), "{quarters:?} of 240");
        let firsts: BTreeSet<&str> = plan
            .chunks(2)
            .filter(|pair| pair[0].job.workload == "1k")
            .map(|pair| pair[0].job.upstream.as_str())
            .collect();
        assert_eq!(firsts.len(), 2, "the order is drawn");
    }

    #[test]
    fn what_is_postponed_waits_and_then_gives_way_to_the_next_slot_but_one() {
        let mut schedule = ProbeSchedule::new(7);
        schedule.configure(jobs().drain(..1), START_US);
        let plan = schedule.plan(START_US, 4 * EVERY);
        let first = schedule.due(plan[0].moment_us).unwrap();
        schedule.postpone(&first, plan[0].moment_us + 60);
        assert_eq!(schedule.due(plan[0].moment_us + 59), None);
        assert_eq!(schedule.due(plan[0].moment_us + 60).as_ref(), Some(&first));
        assert_eq!(schedule.due(plan[1].moment_us).as_ref(), Some(&first), "still wanted");
        assert_eq!(schedule.give_up(plan[1].moment_us), []);
        assert_eq!(schedule.due(plan[2].moment_us).unwrap().slot, first.slot + 1, "given up");
        assert_eq!(schedule.give_up(plan[2].moment_us), [(first.job.clone(), 1)], "and that is reported");
        assert_eq!(schedule.give_up(plan[2].moment_us), [], "once");
        assert_eq!(schedule.due(plan[2].moment_us).unwrap().slot, first.slot + 1);
    }

    #[test]
    fn slots_from_before_a_start_are_not_given_up() {
        let mut schedule = ProbeSchedule::new(7);
        schedule.configure(jobs().drain(..1), START_US);
        let (job, every_us) = (jobs()[0].0.clone(), micros(EVERY));
        schedule.recall(&job, START_US - 9 * every_us, START_US);
        assert_eq!(schedule.give_up(START_US), [], "the gateway was off");
        let (first, next_us) = (schedule.due(START_US).unwrap(), schedule.plan(START_US, 3 * EVERY)[0].moment_us);
        assert_eq!(schedule.give_up(next_us), [(job, 1)], "two could run, and one of them is over now");
        assert_eq!(schedule.due(next_us).unwrap().slot, first.slot + 1);
    }
}
