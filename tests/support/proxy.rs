//! The fake proxy: it opens tunnels (`CONNECT`) or misbehaves.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::wire;

/// The reaction to a request for a tunnel.
#[derive(Clone)]
pub enum Tunnel {
    /// Opens one to this address, whatever the requested host.
    To(SocketAddr),
    /// Sends these bytes, and closes.
    Say(Vec<u8>),
    /// Sends these bytes repeatedly.
    Repeat(&'static str),
    /// Does nothing.
    Silence,
}

/// Treats every connection in the same way. Stops when it is dropped.
pub struct FakeProxy {
    addr: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl FakeProxy {
    pub async fn start(tunnel: Tunnel) -> FakeProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (mut tasks, seen) = (JoinSet::new(), Arc::clone(&heads));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, tunnel.clone(), Arc::clone(&seen)));
            }
        });
        FakeProxy { addr, heads, _tasks: tasks }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The heads of all requests so far: the request line, and `name: value` of each header.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, tunnel: Tunnel, heads: Arc<Mutex<Vec<String>>>) {
    let Ok((line, headers)) = wire::read_head(&mut stream, &mut BytesMut::new()).await else { return };
    let headers = headers.iter().map(|(name, value)| format!("\n{name}: {value}"));
    heads.lock().unwrap().push(line + &headers.collect::<String>());
    // From here on an error means that the client has left.
    match tunnel {
        Tunnel::To(address) => {
            let mut provider = TcpStream::connect(address).await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await;
            let _ = copy_bidirectional(&mut stream, &mut provider).await;
        }
        Tunnel::Say(bytes) => {
            let _ = stream.write_all(&bytes).await;
        }
        Tunnel::Repeat(bytes) => while stream.write_all(bytes.as_bytes()).await.is_ok() {},
        Tunnel::Silence => std::future::pending().await,
    }
}
