//! Watches the client itself while it sends: how late its threads wake, how late its tasks are polled, how busy it is.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinHandle;

use super::trust::ClientLoad;
use photofinish_base::clock::{Instant, micros_between};
use photofinish_base::shutdown::Shutdown;

/// From one beat to the next.
const BEAT: Duration = Duration::from_millis(1);
/// Each so many beats a task is spawned, to see when it is polled.
const TASK_EVERY: usize = 5;
/// Polls that a look at a running heartbeat takes into account: the latest.
const LATEST: usize = 2_000;
/// Beats that are kept; a longer stage keeps the first.
const BEATS_MAX: usize = 1_000_000;

/// Beats until it is stopped.
pub(super) struct Heartbeat {
    stop: Arc<AtomicBool>,
    beats: JoinHandle<Vec<u32>>,
    polls: Arc<Mutex<Vec<u32>>>,
    begun: Instant,
    cpu_us: i64,
    machine: MachineTimes,
}

impl Heartbeat {
    pub fn start(tasks: &Shutdown) -> Heartbeat {
        let (stop, polls) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (stopped, polled, spawner) = (Arc::clone(&stop), Arc::clone(&polls), tasks.clone());
        let beats = tasks.run_blocking(move || {
            let mut late = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let begun = std::time::Instant::now();
                sleep(BEAT);
                let over = begun.elapsed().saturating_sub(BEAT);
                if late.len() < BEATS_MAX {
                    late.push(u32::try_from(over.as_micros()).unwrap_or(u32::MAX));
                }
                if late.len() % TASK_EVERY == 0 && late.len() < BEATS_MAX {
                    let (polled, spawned) = (Arc::clone(&polled), Instant::now());
                    spawner.spawn(async move {
                        // It came as an arrival does, before others; from here on it waits its turn as an answer does.
                        tokio::task::yield_now().await;
                        let late = u32::try_from(micros_between(spawned, Instant::now())).unwrap_or(u32::MAX);
                        polled.lock().unwrap_or_else(PoisonError::into_inner).push(late);
                    });
                }
            }
            late
        });
        Heartbeat { stop, beats, polls, begun: Instant::now(), cpu_us: cpu_us(), machine: MachineTimes::read() }
    }

    /// How the client fared so far, by the latest polls of its tasks alone.
    pub fn so_far(&self) -> ClientLoad {
        let polls = self.polls.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = polls[polls.len().saturating_sub(LATEST)..].to_vec();
        drop(polls);
        self.load(latest)
    }

    pub async fn stop(mut self) -> ClientLoad {
        self.stop.store(true, Ordering::Relaxed);
        let mut late = (&mut self.beats).await.unwrap_or_default();
        late.append(&mut self.polls.lock().unwrap_or_else(PoisonError::into_inner));
        self.load(late)
    }

    fn load(&self, mut late: Vec<u32>) -> ClientLoad {
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-6);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let (busy, steal) = self.machine.shares_since();
        let cpu = (cpu_us() - self.cpu_us) as f64 / 1e6 / seconds;
        late.sort_unstable();
        let at = ((late.len() as f64 * 0.99).ceil() as usize).clamp(1, late.len().max(1)) - 1;
        let wake_us = late.get(at).copied().map_or(0.0, f64::from);
        ClientLoad { wake_us, cpu_share: cpu / cores, machine_busy: busy, steal }
    }
}

#[expect(clippy::disallowed_methods, reason = "on a thread of its own")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Processor time of this process so far.
fn cpu_us() -> i64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// The first line of `/proc/stat`, in ticks. All 0 where there is none.
#[derive(Clone, Copy, Default)]
struct MachineTimes {
    total: u64,
    idle: u64,
    steal: u64,
}

impl MachineTimes {
    fn read() -> MachineTimes {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        MachineTimes::of(text.lines().next().unwrap_or_default())
    }

    fn of(line: &str) -> MachineTimes {
        // user nice system idle iowait irq softirq steal; guest times are part of user.
        let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        MachineTimes { total: ticks.iter().sum(), idle: at(3) + at(4), steal: at(7) }
    }

    /// Busy and stolen shares since then.
    fn shares_since(self) -> (f64, f64) {
        let now = MachineTimes::read();
        let total = now.total.saturating_sub(self.total) as f64;
        if total == 0.0 {
            return (0.0, 0.0);
        }
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / total;
        (1.0 - share(now.idle, self.idle), share(now.steal, self.steal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_the_machine_are_read() {
        let times = MachineTimes::of("cpu  10 1 5 70 4 1 2 7 3 3");
        assert_eq!((times.total, times.idle, times.steal), (100, 74, 7));
        assert_eq!(MachineTimes::of("").total, 0);
    }

    #[tokio::test]
    async fn a_heartbeat_ends_when_it_is_stopped() {
        let tasks = Shutdown::new();
        let beat = Heartbeat::start(&tasks);
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(beat.so_far().wake_us > 0.0);
        let load = beat.stop().await;
        assert!(load.wake_us > 0.0 && load.cpu_share >= 0.0);
        assert!(tasks.finished(Duration::from_secs(5)).await);
    }
}
