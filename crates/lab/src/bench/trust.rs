//! Was it the client? Watches the client while it sends: how late its threads wake, how late its tasks are polled, how busy it
//! is. A stage that the client itself slowed is not trusted: it counts only as far as its measured error cannot change the verdict.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use photofinish_base::clock::{Instant, micros_between};
use photofinish_base::shutdown::Shutdown;

/// The 99th percentile of the send lag: at least this is allowed, in µs.
const LAG_LEAST_US: f64 = 1_000.0;
/// And this share of the median TTFT.
const LAG_SHARE: f64 = 0.01;
/// The 99th percentile of late wake-ups: at least this is allowed, in µs.
const WAKE_LEAST_US: f64 = 2_000.0;
/// Of a time: what the client may add to it, if the time is to count as that of the server.
const ERROR_SHARE: f64 = 0.02;
/// Wake-ups of the client from a dispatch to a first token: to send, at the answer's head and at its first event.
const WAKES: f64 = 3.0;
/// The share of the machine's cores that a benchmark's client may use.
const CPU_MAX: f64 = 0.8;
/// The share of the time that a hypervisor may give to others.
const STEAL_MAX: f64 = 0.1;

/// The load of the client during a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientLoad {
    /// 99th percentile of how late its threads and tasks woke, µs.
    pub wake_us: f64,
    /// Share of the machine's cores that it used.
    pub cpu_share: f64,
    /// Share of the machine's cores in use by all programs.
    pub machine_busy: f64,
    pub steal: f64,
}

impl ClientLoad {
    /// It had not the processor that the load needs, so the server may have got less than was asked for. What other machines took
    /// is in the time by which it woke late.
    pub fn is_starved(&self) -> bool {
        self.cpu_share > CPU_MAX
    }

    /// The worse of both, for stages that ran in several blocks.
    pub fn worse(self, other: ClientLoad) -> ClientLoad {
        ClientLoad {
            wake_us: self.wake_us.max(other.wake_us),
            cpu_share: self.cpu_share.max(other.cpu_share),
            machine_busy: self.machine_busy.max(other.machine_busy),
            steal: self.steal.max(other.steal),
        }
    }
}

/// What the verdict is made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    pub client: ClientLoad,
    /// 99th percentile of the send lag, µs; none in a closed loop, where nothing is scheduled.
    pub lag_us: Option<f64>,
    /// Median TTFT, µs.
    pub ttft_us: Option<f64>,
    /// The client's own error in TTFT, µs, by the calibration.
    pub calibration_us: Option<f64>,
}

impl Evidence {
    /// How far the client may have moved a time of a request, µs. A request that leaves late by this much ends late by no more.
    pub fn error_us(&self) -> f64 {
        self.lag_us.unwrap_or(0.0) + self.calibration_us.unwrap_or(0.0).max(WAKES * self.client.wake_us)
    }
}

/// Why the stage is not trusted; empty if it is.
pub fn doubts(evidence: &Evidence) -> Vec<String> {
    let mut doubts = Vec::new();
    let ttft = evidence.ttft_us.unwrap_or(0.0);
    let ms = |us: f64| format!("{:.1} ms", us / 1e3);
    if let Some(lag) = evidence.lag_us.filter(|lag| *lag > LAG_LEAST_US.max(LAG_SHARE * ttft)) {
        doubts.push(format!("requests left late: send lag p99 {}", ms(lag)));
    }
    if evidence.client.wake_us > WAKE_LEAST_US.max(ERROR_SHARE * ttft) {
        doubts.push(format!("the client woke late: p99 {}", ms(evidence.client.wake_us)));
    }
    if evidence.client.cpu_share > CPU_MAX {
        doubts.push(format!("the client used {:.0} % of the processor", evidence.client.cpu_share * 100.0));
    }
    if evidence.client.steal > STEAL_MAX {
        doubts.push(format!("other machines took {:.0} % of the processor", evidence.client.steal * 100.0));
    }
    let calibrated = evidence.calibration_us.zip(evidence.ttft_us);
    if let Some((error, ttft)) = calibrated.filter(|(error, ttft)| *error > (ERROR_SHARE * ttft).max(LAG_LEAST_US)) {
        doubts.push(format!("the client's own error is {} of a TTFT of {}", ms(error), ms(ttft)));
    }
    doubts
}

/// From one beat to the next.
const BEAT: Duration = Duration::from_millis(1);
/// Beats between two tasks that are spawned to see when they are polled.
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

    /// The load of the client so far, by the latest polls of its tasks alone.
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
    fn a_quiet_client_is_trusted_and_a_starved_one_is_not() {
        let quiet = Evidence {
            client: ClientLoad { wake_us: 300.0, cpu_share: 0.3, machine_busy: 0.9, steal: 0.0 },
            lag_us: Some(150.0),
            ttft_us: Some(200_000.0),
            calibration_us: Some(400.0),
        };
        assert_eq!(doubts(&quiet), Vec::<String>::new());
        let client = |client: ClientLoad| Evidence { client, ..quiet };
        for (evidence, said) in [
            (Evidence { lag_us: Some(2_100.0), ..quiet }, "requests left late: send lag p99 2.1 ms"),
            (client(ClientLoad { wake_us: 4_100.0, ..quiet.client }), "woke late: p99 4.1 ms"),
            (client(ClientLoad { cpu_share: 0.9, ..quiet.client }), "90 % of the processor"),
            (client(ClientLoad { steal: 0.2, ..quiet.client }), "other machines took 20 %"),
            (Evidence { calibration_us: Some(5_000.0), ..quiet }, "own error is 5.0 ms of a TTFT of 200.0 ms"),
        ] {
            let doubts = doubts(&evidence);
            assert!(doubts.len() == 1 && doubts[0].contains(said), "{doubts:?}");
        }
        // A long TTFT allows more lag and later wake-ups, a short one does not.
        assert!(doubts(&Evidence { lag_us: Some(1_900.0), ..quiet }).is_empty());
        let late = client(ClientLoad { wake_us: 3_900.0, ..quiet.client });
        assert!(doubts(&late).is_empty());
        assert_eq!(doubts(&Evidence { ttft_us: Some(50_000.0), ..late }).len(), 1);
        assert_eq!(doubts(&Evidence { ttft_us: None, ..late }).len(), 1, "nothing was answered");
    }
}

#[cfg(test)]
mod heartbeat_tests {
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
        while beat.so_far().wake_us == 0.0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let load = beat.stop().await;
        assert!(load.wake_us > 0.0 && load.cpu_share >= 0.0);
        assert!(tasks.finished(Duration::from_secs(5)).await);
    }
}
