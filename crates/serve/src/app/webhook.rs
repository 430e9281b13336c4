//! Posts each incident to the address of `[incidents] webhook` as it begins and as it ends, and budgets that come near their ends.
//!
//! Nothing waits for it: what cannot be posted is in the log all the same. Not for what an incident is: see `incident_watch`.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use photofinish_config::HttpAddress;
use photofinish_facts::record::IncidentRecord;
use photofinish_gateway::proxy::Gateway;
use photofinish_history::report::incidents::{name, object, words};
use photofinish_history::report::question::time;
use photofinish_limits::{BudgetWarning, Calendar, NearEnd};
use photofinish_transport::upstream::{Endpoint, GetLimits, UpstreamClient};

/// Calls of webhooks that wait; further ones are not made.
const WAITING_MAX: usize = 64;
/// What one call may take. The answer is not read.
const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(5), bytes: 64 << 10 };
/// From a call that failed to the only other try.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Takes what is to be posted.
pub(super) struct Webhook(mpsc::Sender<Bytes>);

/// What [`run`] reads.
pub(super) fn new() -> (Webhook, mpsc::Receiver<Bytes>) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Webhook(sender), receiver)
}

impl Webhook {
    /// `event`: `begun` or `ended`.
    pub fn enqueue(&self, event: &str, incident: &IncidentRecord, now_us: i64) {
        // `text` is what Slack and those like it show.
        let text = format!("{}: {}", name(incident), words(incident, now_us));
        self.send(&json!({ "text": text, "event": event, "incident": object(incident, now_us) }));
    }

    /// A budget comes near its end.
    pub fn warn(&self, BudgetWarning { level, near }: &BudgetWarning) {
        let NearEnd { calendar, budget, spent, end_us } = near;
        let ends_at = (*calendar != Calendar::Total).then(|| time(*end_us));
        self.send(&json!({ "text": format!("{level}: {near}"), "event": "budget", "budget": {
            "level": level.kind(), "name": level.name(), "span": calendar.as_str(), "budget_nano_usd": budget,
            "spent_nano_usd": spent, "ends_at": ends_at,
        } }));
    }

    fn send(&self, body: &Value) {
        if self.0.try_send(body.to_string().into()).is_err() {
            tracing::warn!("a call of the webhook was dropped: {WAITING_MAX} calls wait already");
        }
    }
}

/// Makes the calls, one after the other.
pub(super) async fn run(mut waiting: mpsc::Receiver<Bytes>, gateway: &Gateway) {
    while let Some(body) = waiting.recv().await {
        let Some(address) = gateway.live().config.webhook.clone() else { continue };
        let mut result = post(gateway.client(), &address, body.clone()).await;
        if result.is_err() {
            tokio::time::sleep(AGAIN_AFTER).await;
            result = post(gateway.client(), &address, body).await;
        }
        if let Err(why) = result {
            // The path may be a secret.
            tracing::warn!("the call of the webhook at {} failed: {why}", address.origin());
        }
    }
}

/// # Errors
/// Why it is not known to have arrived. A redirect is not followed: it may lead to another service of this network.
async fn post(client: &UpstreamClient, address: &HttpAddress, body: Bytes) -> Result<(), String> {
    let endpoint = Endpoint::parse(address.origin()).map_err(|error| error.to_string())?;
    let endpoint = endpoint.with_transport(address.transport());
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (USER_AGENT, HeaderValue::from_static(concat!("photofinish/", env!("CARGO_PKG_VERSION")))),
    ]);
    let answer = client.post(endpoint, address.path_and_query().to_owned(), headers, body, LIMITS).await;
    let status = answer.map_err(|error| error.to_string())?.status;
    match status {
        status if status.is_success() => Ok(()),
        status if status.is_redirection() => {
            Err(format!("it redirects (status {}), which is not followed", status.as_u16()))
        }
        status => Err(format!("it answered with the status {}", status.as_u16())),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use photofinish_base::shutdown::Shutdown;
    use photofinish_facts::record::sample;

    /// What one call with this answer gets, and what the server read. No answer: it hangs.
    async fn called(answer: Option<&'static str>) -> (Result<(), String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/services/planted?token=planted", listener.local_addr().unwrap());
        let server = async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = Vec::new();
            if let Some(answer) = answer {
                while !read.ends_with(b"}}") {
                    assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
                }
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            (String::from_utf8(read).unwrap(), stream)
        };
        let (webhook, mut waiting) = new();
        webhook.enqueue("begun", &sample::incident(0), sample::STARTED_AT);
        let client = UpstreamClient::new(Shutdown::new()).unwrap();
        let (address, body) = (HttpAddress::parse(&address).unwrap(), waiting.recv().await.unwrap());
        // The connection stays open until the call has ended.
        let (result, (read, _stream)) = tokio::join!(post(&client, &address, body), server);
        (result, read)
    }

    #[tokio::test]
    async fn an_incident_is_told_and_only_success_counts() {
        let (result, read) = called(Some("HTTP/1.1 204 No Content\r\n\r\n")).await;
        let (head, body) = read.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /services/planted?token=planted HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(body["text"].as_str().unwrap().contains("first tokens took 2.2 times as long"), "{body}");
        assert_eq!((&body["event"], &body["incident"]["kind"]), (&json!("begun"), &json!("slower")));
        assert_eq!(result, Ok(()));
        for (answer, why) in [
            ("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", "is not followed"),
            ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "with the status 404"),
        ] {
            let result = called(Some(answer)).await.0.unwrap_err();
            assert!(result.contains(why) && !result.contains("planted"), "{result}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_hangs_is_left() {
        let result = called(None).await.0.unwrap_err();
        assert!(result.contains("within 5s"), "{result}");
    }

    #[test]
    fn so_many_wait() {
        let (webhook, mut waiting) = new();
        (0..WAITING_MAX + 9).for_each(|n| webhook.enqueue("ended", &sample::incident(n as i64), 0));
        assert_eq!(std::iter::from_fn(|| waiting.try_recv().ok()).count(), WAITING_MAX);
    }
}
