//! Warm connections, in memory and on a stopped clock.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncWriteExt, DuplexStream};

use super::*;

/// Buffer of a connection, in bytes.
const PIPE: usize = 1_024;

/// A provider that accepts connections and never answers.
#[derive(Default)]
struct SilentProvider {
    dialled: AtomicUsize,
    /// Its ends of the connections.
    open: Mutex<Vec<DuplexStream>>,
}

impl SilentProvider {
    fn client(self: &Arc<SilentProvider>) -> UpstreamClient {
        let provider = self.clone();
        let dial = move |_: &str| {
            let (ours, theirs) = tokio::io::duplex(PIPE);
            provider.dialled.fetch_add(1, Ordering::Relaxed);
            provider.open.lock().unwrap().push(theirs);
            ours
        };
        UpstreamClient::in_memory(Shutdown::new(), Arc::new(dial)).unwrap()
    }

    /// Connections so far, `later` from now.
    async fn dialled(&self, later: Duration) -> usize {
        // A little more, so that the tasks that are due run before this one.
        tokio::time::sleep(later + Duration::from_millis(1)).await;
        self.dialled.load(Ordering::Relaxed)
    }
}

fn warm(url: &str) -> WarmEndpoint {
    WarmEndpoint { endpoint: Endpoint::parse(url).unwrap(), connect_timeout: Duration::from_secs(3) }
}

#[tokio::test(start_paused = true)]
async fn one_connection_per_origin_is_kept_warm() {
    let provider = Arc::new(SilentProvider::default());
    let client = provider.client();
    let at_once = Duration::ZERO;
    assert_eq!(provider.dialled(Duration::from_secs(100)).await, 0, "unless it is asked for");
    client.keep_warm(vec![warm("http://a.test/v1"), warm("http://a.test/anthropic")]);
    assert_eq!(provider.dialled(at_once).await, 1);
    assert_eq!(provider.dialled(Duration::from_secs(39)).await, 1);
    assert_eq!(provider.dialled(SWEEP + Duration::from_secs(2)).await, 2);
    let later = provider.dialled(Duration::from_secs(400)).await;
    assert!((10..=12).contains(&later), "one in 40 to 50 s: {later}");
    client.keep_warm(Vec::new());
    assert_eq!(provider.dialled(Duration::from_secs(100)).await, later);
}

#[tokio::test(start_paused = true)]
async fn a_warm_connection_that_its_peer_closes_is_replaced() {
    let provider = Arc::new(SilentProvider::default());
    let client = provider.client();
    client.keep_warm(vec![warm("http://a.test/v1")]);
    assert_eq!(provider.dialled(Duration::ZERO).await, 1);
    provider.open.lock().unwrap().clear();
    assert_eq!(provider.dialled(SWEEP).await, 2);
}

#[tokio::test(start_paused = true)]
async fn bytes_on_an_idle_connection_end_it_and_are_not_read_on() {
    let provider = Arc::new(SilentProvider::default());
    let client = provider.client();
    client.keep_warm(vec![warm("http://a.test/v1")]);
    assert_eq!(provider.dialled(Duration::ZERO).await, 1);
    let mut theirs = provider.open.lock().unwrap().remove(0);
    let (began, mut taken) = (Instant::now(), 0);
    while let Ok(sent) = theirs.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await {
        taken += sent;
    }
    assert!(taken <= 2 * PIPE && began.elapsed() <= SWEEP, "{taken} bytes, {:?}", began.elapsed());
    assert_eq!(provider.dialled(SWEEP).await, 2, "another one takes its place");
}

#[tokio::test(start_paused = true)]
async fn a_request_uses_the_warm_connection_and_another_is_made() {
    let provider = Arc::new(SilentProvider::default());
    let client = provider.client();
    client.keep_warm(vec![warm("http://a.test/v1")]);
    assert_eq!(provider.dialled(Duration::ZERO).await, 1);
    let outgoing = Outgoing {
        endpoint: Endpoint::parse("http://a.test/v1").unwrap(),
        method: Method::GET,
        path: "/models".into(),
        headers: HeaderMap::new(),
        body: BodyParts::default(),
        connect_timeout: Duration::from_secs(3),
        fresh: false,
    };
    let mut reused = None;
    let asked = client.send(&outgoing, |origin| reused = Some(origin.reused));
    assert!(tokio::time::timeout(Duration::from_millis(1), asked).await.is_err(), "it never answers");
    assert_eq!((reused, provider.dialled(Duration::ZERO).await), (Some(true), 1));
    assert_eq!(provider.dialled(SWEEP).await, 2);
}
