//! What of a request goes up to which upstream: as it came where the upstream speaks the caller's dialect, else translated,
//! each translation made once.

use std::sync::Arc;

use super::heavy::translation_bytes;
use super::rejection::Rejection;
use crate::budget::{Budget, Full, Lease};
use crate::config::{Lossy, Provider, Upstream};
use crate::pace::aside;
use crate::protocol::Dialect;
use crate::protocol::client_error::Invalid;
use crate::protocol::dialect::Options;
use crate::protocol::neutral::Conversation;
use crate::protocol::request::ApiRequest;
use crate::protocol::upward::Upward;

/// One request on its way up.
pub struct Outbound<'a> {
    request: &'a Arc<ApiRequest>,
    lossy: Lossy,
    budget: &'a Budget,
    /// For the conversation, and for what is written of it, one at a time.
    tree: Lease,
    /// Made when the first upstream of the caller's own dialect asks for it.
    untouched: Option<Arc<Upward>>,
    /// Read when the first upstream of another dialect asks for it.
    conversation: Option<Result<Conversation, Invalid>>,
    /// What was translated so far.
    translated: Vec<(Dialect, Options, Arc<Upward>)>,
    /// Upstreams that are left out because their dialect cannot say all of it.
    left_out: Vec<String>,
    /// Why upstreams cannot serve it, the worst last.
    unserved: Option<Unserved>,
}

/// Why an upstream cannot serve a request, from what is least the request's own fault to what is most.
enum Unserved {
    /// It speaks nothing that has such a call.
    Unspoken(Vec<String>),
    /// What its dialect cannot say.
    Lossy(Vec<String>),
    /// The request itself is wrong, so that it cannot be translated.
    Invalid(Invalid),
}

impl<'a> Outbound<'a> {
    /// What a translation takes is leased from `budget`.
    pub fn new(request: &'a Arc<ApiRequest>, lossy: Lossy, budget: &'a Budget) -> Outbound<'a> {
        Outbound {
            request,
            lossy,
            budget,
            tree: budget.lease(),
            untouched: None,
            conversation: None,
            translated: Vec::new(),
            left_out: Vec::new(),
            unserved: None,
        }
    }

    /// What goes up to this one; none where it cannot serve the request.
    ///
    /// # Errors
    /// 503 or 413 where there is no memory for it.
    pub fn for_upstream(&mut self, upstream: &Upstream) -> Result<Option<Arc<Upward>>, Rejection> {
        let provider = &upstream.provider;
        let Some(spoken) = provider.spoken_for(self.request.surface) else {
            self.unspoken(provider);
            return Ok(None);
        };
        if spoken.dialect == self.request.surface.dialect() {
            let request = self.request;
            let untouched = || Arc::new(Upward::untouched(request.clone()));
            return Ok(Some(self.untouched.get_or_insert_with(untouched).clone()));
        }
        let upward = self.translated(spoken.dialect, options(upstream, spoken.dialect))?;
        let Some(upward) = upward else { return Ok(None) };
        if self.lossy == Lossy::Drop || upward.losses().keeps_meaning() {
            return Ok(Some(upward));
        }
        self.left_out.push(upstream.name());
        if !matches!(self.unserved, Some(Unserved::Invalid(_) | Unserved::Lossy(_))) {
            self.unserved = Some(Unserved::Lossy(upward.losses().of_meaning().to_vec()));
        }
        Ok(None)
    }

    /// Upstreams that are left out because their dialect cannot say all of the request, as far as they were asked for.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Nobody is left to serve it; `off` tells why some upstreams are not there at all.
    pub fn rejection(self, model: &str, off: &[String]) -> Rejection {
        match self.unserved {
            Some(Unserved::Invalid(invalid)) => Rejection::invalid(&invalid),
            Some(Unserved::Lossy(names)) => Rejection::not_translatable(&names),
            Some(Unserved::Unspoken(who)) => Rejection::unspoken(model, self.request.surface, &who),
            None => Rejection::no_upstream(model, off),
        }
    }

    fn translated(&mut self, dialect: Dialect, options: Options) -> Result<Option<Arc<Upward>>, Rejection> {
        let alike = |with: &Options| {
            dialect.writes_alike(&with.model, &options.model)
                && *with == Options { model: with.model.clone(), ..options.clone() }
        };
        let made = self.translated.iter().find(|(of, with, _)| *of == dialect && alike(with));
        if let Some((_, _, upward)) = made {
            return Ok(Some(upward.clone()));
        }
        let surface = self.request.surface;
        if self.conversation.is_none() {
            let bytes = translation_bytes(self.request.body());
            self.tree.cover(bytes).map_err(|Full| Rejection::no_memory(bytes, self.budget.max()))?;
        }
        let conversation = self.conversation.get_or_insert_with(|| surface.conversation(self.request.body()));
        let made = match conversation {
            Ok(conversation) => Upward::translated(surface, conversation, dialect, &options),
            Err(invalid) => Err(invalid.clone()),
        };
        match made {
            Ok(upward) => {
                // What it takes is there by now.
                let mut lease = self.budget.lease();
                lease.settle(upward.len());
                let upward = Arc::new(upward.leased(lease));
                self.translated.push((dialect, options, upward.clone()));
                Ok(Some(upward))
            }
            Err(invalid) => {
                self.unserved = Some(Unserved::Invalid(invalid));
                Ok(None)
            }
        }
    }

    fn unspoken(&mut self, provider: &Provider) {
        let dialects: Vec<&str> = provider.dialects.iter().map(|spoken| spoken.dialect.as_str()).collect();
        let who = format!("{} speaks {}", provider.name, dialects.join(" and "));
        match &mut self.unserved {
            None => self.unserved = Some(Unserved::Unspoken(vec![who])),
            Some(Unserved::Unspoken(all)) if !all.contains(&who) => all.push(who),
            Some(_) => {}
        }
    }
}

/// What goes up to an upstream that has refused the reasoning in it. None if there was none, or there is no memory for it.
pub fn without_reasoning(request: &ApiRequest, upstream: &Upstream, budget: &Budget) -> Option<Upward> {
    let dialect = upstream.provider.spoken_for(request.surface)?.dialect;
    let mut lease = budget.lease();
    lease.cover(translation_bytes(request.body())).ok()?;
    let upward = aside(request.len(), || Upward::without_reasoning(request, dialect, &options(upstream, dialect)))?;
    lease.settle(upward.len());
    Some(upward.leased(lease))
}

/// The model stands in the options only where the dialect's body depends on it: others share one translation.
fn options(upstream: &Upstream, dialect: Dialect) -> Options {
    let by_model = matches!(dialect, Dialect::Anthropic | Dialect::Gemini | Dialect::Bedrock);
    Options {
        model: if by_model { upstream.model.clone() } else { String::new() },
        max_completion_tokens: upstream.provider.max_completion_tokens,
        takes_thoughts: upstream.provider.takes_thoughts,
    }
}
