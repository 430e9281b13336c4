//! Opens the listeners of a gateway, or takes those of the service manager. Not for accepting: see `server`.

use std::io;
use std::net::SocketAddr;

use crate::server::Listener;
use photofinish_base::machine::{self, PassedListener};
use photofinish_config::{Config, Listen};

/// Where a gateway gets its listeners.
#[derive(Debug, Default)]
pub enum Listening {
    /// It opens them. An address in use ends the start.
    #[default]
    Alone,
    /// It opens them while an older gateway still listens; that gateway is stopped afterwards.
    TakeOver,
    /// The service manager opened them. `listen` in the configuration is not used.
    Passed(Vec<PassedListener>),
}

impl Listening {
    pub(super) async fn open(self, config: &Config) -> anyhow::Result<Vec<Listener>> {
        match self {
            Listening::Alone => bind(&config.server.listen, false).await,
            Listening::TakeOver => bind(&config.server.listen, true).await,
            Listening::Passed(sockets) => taken(sockets, config),
        }
    }
}

fn taken(sockets: Vec<PassedListener>, config: &Config) -> anyhow::Result<Vec<Listener>> {
    let listeners = sockets.into_iter().map(Listener::passed).collect::<io::Result<Vec<Listener>>>()?;
    let open = listeners.iter().map(Listener::at).find(|at| !at.is_local() && config.users.is_empty());
    if let Some(open) = open {
        anyhow::bail!(
            "the service manager listens on {open}, which others can reach, and there are no [users]: add a user, or \
             listen on a loopback address"
        );
    }
    Ok(listeners)
}

async fn bind(listen: &[Listen], shared: bool) -> anyhow::Result<Vec<Listener>> {
    let mut listeners = Vec::with_capacity(listen.len());
    for listen in listen {
        let bound = Listener::bind(listen, shared).await;
        listeners.push(
            bound
                .map_err(|error| anyhow::anyhow!("cannot listen on {listen}: {error}; {}", way_out(listen, &error)))?,
        );
    }
    Ok(listeners)
}

/// Which process may use the address, and how to choose another one.
fn way_out(listen: &Listen, error: &io::Error) -> String {
    const OTHER: &str = "choose another `listen` under [server]";
    let Some(address) = listen.address().filter(|_| error.kind() == io::ErrorKind::AddrInUse) else {
        return OTHER.to_owned();
    };
    let owner = machine::port_owner(address.port()).unwrap_or_else(|| "another program".to_owned());
    let free = SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(8080));
    // As the kernel names this program.
    let take_over = if owner.starts_with("photofinish ") { ", start beside it with `--take-over`" } else { "" };
    format!(
        "{owner} has it. End that{take_over}, or take another address: `photofinish serve --listen {free}`, or {OTHER}"
    )
}
