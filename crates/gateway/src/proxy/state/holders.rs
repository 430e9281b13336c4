//! The upstreams that hold what a request names of earlier ones. Not for what the gateway itself keeps: see `kept`.

use crate::attempt::JobCost;
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::state::kept::{Found, StateOwner};
use photofinish_config::UpstreamConfig;
use photofinish_config::keyring::HashedKey;
use photofinish_routing::health::LiveConfig;
use photofinish_wire::{Dialect, Surface};

/// Upstreams that are asked for an unknown id.
const ASKED_MAX: usize = 8;

/// The upstreams that hold what a request names. It goes to them alone, one after the other.
#[derive(Clone, Debug)]
pub struct Holders {
    /// Those that made it, the newest first. None: any of the Responses API.
    owners: Vec<StateOwner>,
    missing: Missing,
    /// It makes a job, or asks for what is stored.
    pub job: Option<JobCost>,
}

/// What a request asks for that may not be there.
#[derive(Clone, Debug)]
pub enum Missing {
    Previous(String),
    Conversation(String),
    Item(String),
    Response(String),
    /// Who makes a response in the background.
    Job,
}

impl Missing {
    pub fn rejection(&self) -> Rejection {
        match self {
            Missing::Previous(id) => Rejection::no_previous(id),
            Missing::Conversation(id) => Rejection::not_stored("Conversation", id),
            Missing::Response(id) => Rejection::not_stored("Response", id),
            Missing::Item(id) => Rejection::no_item(id),
            Missing::Job => Rejection::no_background(),
        }
    }
}

impl Holders {
    /// Any upstream of the Responses API.
    pub fn any(missing: Missing) -> Holders {
        Holders { owners: Vec::new(), missing, job: None }
    }

    /// Of what was found and is not here.
    ///
    /// # Errors
    /// It is another caller's.
    pub fn of<T>(found: Found<T>, missing: Missing) -> Result<Holders, Rejection> {
        let owners = match found {
            Found::At(owners) => owners,
            Found::Foreign => return Err(missing.rejection()),
            Found::Here(_) | Found::Unknown => Vec::new(),
        };
        Ok(Holders { owners, missing, job: None })
    }

    /// The same for a call that asks for it: it is paid for already, unless it is a job whose end was not seen.
    pub fn asked(mut self) -> Holders {
        let job = self.owners.first().and_then(|owner| owner.job.clone());
        self.job = Some(job.unwrap_or_else(JobCost::booked));
        self
    }

    /// Those that hold this too.
    ///
    /// # Errors
    /// No upstream has what two of them made.
    pub fn and(mut self, other: Holders) -> Result<Holders, Rejection> {
        if self.owners.is_empty() {
            return Ok(other);
        }
        let holds = |owner: &StateOwner| other.owners.iter().any(|holder| holder.upstream == owner.upstream);
        self.owners.retain(|owner| other.owners.is_empty() || holds(owner));
        if self.owners.is_empty() { Err(other.missing.rejection()) } else { Ok(self) }
    }

    /// Leaves only the upstreams that may have it.
    ///
    /// # Errors
    /// There is none.
    pub fn narrow(&self, upstreams: &mut Vec<UpstreamConfig>) -> Result<(), Rejection> {
        upstreams.retain(speaks);
        if !self.owners.is_empty() {
            let mut held: Vec<UpstreamConfig> = Vec::new();
            for owner in &self.owners {
                let of_provider = || upstreams.iter().find(|upstream| upstream.provider.name == owner.provider());
                let found = upstreams.iter().find(|upstream| upstream.name() == owner.upstream).or_else(of_provider);
                held.extend(found.filter(|found| held.iter().all(|other| other.name() != found.name())).cloned());
            }
            *upstreams = held;
        }
        if upstreams.is_empty() { Err(self.missing.rejection()) } else { Ok(()) }
    }

    /// The model that was asked for when it was made: what its caller may do is judged by it. None: it is not known.
    pub fn model(&self) -> Option<&str> {
        self.owners.first().map(|owner| owner.model.as_str()).filter(|model| !model.is_empty())
    }

    /// Unknown: no upstream is recorded as the maker of what the request names.
    pub fn are_unknown(&self) -> bool {
        self.owners.is_empty() && !matches!(self.missing, Missing::Job)
    }

    pub fn missing(&self) -> Rejection {
        self.missing.rejection()
    }

    /// The key that it was made with, if that is still there.
    pub fn its_key(&self, keys: Vec<HashedKey>) -> Vec<HashedKey> {
        let is_its = |key: &&HashedKey| self.owners.iter().any(|owner| owner.key.as_deref() == Some(key.id()));
        match keys.iter().find(is_its) {
            Some(key) => vec![key.clone()],
            None => keys,
        }
    }

    /// The upstreams to ask for it, if a request names no model.
    ///
    /// # Errors
    /// There is none.
    pub fn names(&self, live: &LiveConfig) -> Result<String, Rejection> {
        let is_there = |owner: &&StateOwner| live.config.providers.contains_key(owner.provider());
        let mut names: Vec<String> = self.owners.iter().filter(is_there).map(|owner| owner.upstream.clone()).collect();
        if self.owners.is_empty() {
            let all = live.config.models.values().flat_map(|model| &model.upstreams);
            for upstream in all.filter(|upstream| speaks(upstream) && upstream.provider.is_on()) {
                let prefix = format!("{}/", upstream.provider.name);
                if names.len() < ASKED_MAX && !names.iter().any(|name| name.starts_with(&prefix)) {
                    names.push(upstream.name());
                }
            }
        }
        if names.is_empty() { Err(self.missing.rejection()) } else { Ok(names.join(",")) }
    }
}

fn speaks(upstream: &UpstreamConfig) -> bool {
    upstream.spoken_for(Surface::Responses).is_some_and(|spoken| spoken.dialect == Dialect::Responses)
}
