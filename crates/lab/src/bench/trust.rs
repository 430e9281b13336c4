//! Was it the client? A stage that the client itself slowed is not trusted, and its figures count for nothing.

use serde::{Deserialize, Serialize};

/// The 99th percentile of the send lag: at least this is allowed, in µs.
const LAG_LEAST_US: f64 = 1_000.0;
/// And this share of the median TTFT.
const LAG_SHARE: f64 = 0.01;
/// The 99th percentile of late wake-ups: at least this is allowed, in µs.
const WAKE_LEAST_US: f64 = 2_000.0;
/// And this share of the median TTFT.
const WAKE_SHARE: f64 = 0.02;
/// Of the machine's cores that the client may use.
const CPU_MAX: f64 = 0.8;
/// Of the time that a hypervisor gave to others.
const STEAL_MAX: f64 = 0.1;
/// The error of the calibration, as a share of the figure.
const CALIBRATION_SHARE: f64 = 0.02;

/// How the client fared during a stage.
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

/// Why the stage is not trusted; empty if it is.
pub fn doubts(evidence: &Evidence) -> Vec<String> {
    let mut doubts = Vec::new();
    let ttft = evidence.ttft_us.unwrap_or(0.0);
    let ms = |us: f64| format!("{:.1} ms", us / 1e3);
    if let Some(lag) = evidence.lag_us.filter(|lag| *lag > LAG_LEAST_US.max(LAG_SHARE * ttft)) {
        doubts.push(format!("requests left late: send lag p99 {}", ms(lag)));
    }
    if evidence.client.wake_us > WAKE_LEAST_US.max(WAKE_SHARE * ttft) {
        doubts.push(format!("the client woke late: p99 {}", ms(evidence.client.wake_us)));
    }
    if evidence.client.cpu_share > CPU_MAX {
        doubts.push(format!("the client used {:.0} % of the processor", evidence.client.cpu_share * 100.0));
    }
    if evidence.client.steal > STEAL_MAX {
        doubts.push(format!("other machines took {:.0} % of the processor", evidence.client.steal * 100.0));
    }
    let calibrated = evidence.calibration_us.zip(evidence.ttft_us);
    if let Some((error, ttft)) =
        calibrated.filter(|(error, ttft)| *error > (CALIBRATION_SHARE * ttft).max(LAG_LEAST_US))
    {
        doubts.push(format!("the client's own error is {} of a TTFT of {}", ms(error), ms(ttft)));
    }
    doubts
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
