//! The request to each upstream: unchanged if the upstream uses the caller's dialect, else translated, each translation
//! made once. Not for headers: see `client_headers`.

use std::sync::Arc;

use super::blocking::translation_bytes;
use super::rejection::Rejection;
use crate::budget::{Budget, BudgetFull, Lease};
use crate::config::{Lossy, Provider, UpstreamConfig};
use crate::history::{LeftOutReason, LeftOutUpstream};
use crate::pace::aside;
use crate::protocol::Dialect;
use crate::protocol::client_error::Invalid;
use crate::protocol::dialect::TranslationOptions;
use crate::protocol::neutral::{Conversation, Losses};
use crate::protocol::request::ApiRequest;
use crate::protocol::request_translation::RequestTranslation;

/// The translations of one request.
pub struct Outbound<'a> {
    request: &'a Arc<ApiRequest>,
    lossy: Lossy,
    budget: &'a Budget,
    /// Memory for the parsed conversation, and for one translation at a time.
    tree: Lease,
    /// Made for the first upstream that speaks the caller's dialect.
    untouched: Option<Arc<RequestTranslation>>,
    /// Parsed for the first upstream that speaks another dialect.
    conversation: Option<Result<Conversation, Invalid>>,
    /// The translations so far.
    translated: Vec<(Dialect, TranslationOptions, Arc<RequestTranslation>)>,
    /// Upstreams that are not asked because of their dialect.
    left_out: Vec<LeftOutUpstream>,
    /// Why upstreams cannot serve it: the reason nearest to the request's own fault.
    unserved: Option<CannotServe>,
}

/// Why an upstream cannot serve a request, by increasing fault of the request.
enum CannotServe {
    /// None of its dialects has such a call.
    Unspoken(Vec<String>),
    /// Members that its dialect cannot express, and which dialect that is.
    Lossy(Losses, String),
    /// The request is invalid and cannot be translated.
    Invalid(Invalid),
}

impl<'a> Outbound<'a> {
    /// Translations lease their memory from `budget`.
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

    /// The request to this upstream. None: the upstream cannot serve it.
    ///
    /// # Errors
    /// 503 or 413 if there is no memory for it.
    pub fn for_upstream(&mut self, upstream: &UpstreamConfig) -> Result<Option<Arc<RequestTranslation>>, Rejection> {
        let provider = &upstream.provider;
        let Some(spoken) = upstream.spoken_for(self.request.surface) else {
            self.unspoken(provider);
            self.leave_out([upstream.name()], LeftOutReason::Dialect);
            return Ok(None);
        };
        if spoken.dialect == self.request.surface.dialect() {
            let request = self.request;
            let untouched = || Arc::new(RequestTranslation::untouched(request.clone()));
            return Ok(Some(self.untouched.get_or_insert_with(untouched).clone()));
        }
        let request_translation = self.translated(spoken.dialect, options(upstream, spoken.dialect))?;
        let Some(request_translation) = request_translation else {
            self.leave_out([upstream.name()], LeftOutReason::Capability);
            return Ok(None);
        };
        let losses = request_translation.losses();
        let may_go = match self.lossy {
            Lossy::Prefer => losses.keeps_content(),
            Lossy::Refuse => losses.keeps_settings(),
            Lossy::Drop => true,
        };
        if may_go {
            return Ok(Some(request_translation));
        }
        self.leave_out([upstream.name()], LeftOutReason::Capability);
        if !matches!(self.unserved, Some(CannotServe::Invalid(_) | CannotServe::Lossy(..))) {
            let who = format!("{} speaks {}", provider.name, spoken.dialect.as_str());
            self.unserved = Some(CannotServe::Lossy(losses.clone(), who));
        }
        Ok(None)
    }

    /// Whether the upstream may be used only if no upstream that gets the whole request is available.
    pub fn is_second_choice(&self, request_translation: &RequestTranslation) -> bool {
        self.lossy == Lossy::Prefer && !request_translation.losses().keeps_settings()
    }

    /// Records that these upstreams are not asked, and why.
    pub fn leave_out(&mut self, names: impl IntoIterator<Item = String>, reason: LeftOutReason) {
        self.left_out.extend(names.into_iter().map(|upstream| LeftOutUpstream { upstream, reason }));
    }

    /// Upstreams that are not asked because of their dialect.
    pub fn left_out(&self) -> &[LeftOutUpstream] {
        &self.left_out
    }

    pub fn into_left_out(self) -> Vec<LeftOutUpstream> {
        self.left_out
    }

    /// The answer if no upstream can serve it; `off`: why some upstreams are off.
    pub fn rejection(self, model: &str, off: &[String]) -> Rejection {
        match self.unserved {
            Some(CannotServe::Invalid(invalid)) => Rejection::invalid(&invalid),
            Some(CannotServe::Lossy(losses, who)) => Rejection::not_translatable(&losses, &who, self.request.surface),
            Some(CannotServe::Unspoken(who)) => Rejection::unspoken(model, self.request.surface, &who),
            None => Rejection::no_upstream(model, off),
        }
    }

    fn translated(
        &mut self,
        dialect: Dialect,
        options: TranslationOptions,
    ) -> Result<Option<Arc<RequestTranslation>>, Rejection> {
        let surface = self.request.surface;
        let alike = |with: &TranslationOptions| {
            // Some requests for embeddings contain the model.
            *with == options
                || !surface.embeds()
                    && dialect.writes_alike(&with.model, &options.model)
                    && *with == TranslationOptions { model: with.model.clone(), ..options.clone() }
        };
        let made = self.translated.iter().find(|(of, with, _)| *of == dialect && alike(with));
        if let Some((_, _, request_translation)) = made {
            return Ok(Some(request_translation.clone()));
        }
        if self.conversation.is_none() {
            let bytes = translation_bytes(self.request.body());
            self.tree.cover(bytes).map_err(|BudgetFull| Rejection::no_memory(bytes, self.budget.max()))?;
        }
        let body = self.request.body();
        let made = if surface.embeds() {
            RequestTranslation::embedding(surface, body, dialect, &options)
        } else {
            match self.conversation.get_or_insert_with(|| surface.conversation(body)) {
                Ok(conversation) => RequestTranslation::translated(surface, conversation, dialect, &options),
                Err(invalid) => Err(invalid.clone()),
            }
        };
        match made {
            Ok(request_translation) => {
                // Its required memory is known by now.
                let mut lease = self.budget.lease();
                lease.settle(request_translation.len());
                let request_translation = Arc::new(request_translation.leased(lease));
                self.translated.push((dialect, options, request_translation.clone()));
                Ok(Some(request_translation))
            }
            Err(invalid) => {
                self.unserved = Some(CannotServe::Invalid(invalid));
                Ok(None)
            }
        }
    }

    fn unspoken(&mut self, provider: &Provider) {
        let dialects: Vec<&str> = provider.dialects.iter().map(|spoken| spoken.dialect.as_str()).collect();
        let who = format!("{} speaks {}", provider.name, dialects.join(" and "));
        match &mut self.unserved {
            None => self.unserved = Some(CannotServe::Unspoken(vec![who])),
            Some(CannotServe::Unspoken(all)) if !all.contains(&who) => all.push(who),
            Some(_) => {}
        }
    }
}

/// The request without reasoning of earlier turns, for an upstream that rejected it. None if it has none, or without memory.
pub fn without_reasoning(
    request: &ApiRequest,
    upstream: &UpstreamConfig,
    budget: &Budget,
) -> Option<RequestTranslation> {
    let dialect = upstream.spoken_for(request.surface)?.dialect;
    let mut lease = budget.lease();
    lease.cover(translation_bytes(request.body())).ok()?;
    let request_translation =
        aside(request.len(), || RequestTranslation::without_reasoning(request, dialect, &options(upstream, dialect)))?;
    lease.settle(request_translation.len());
    Some(request_translation.leased(lease))
}

/// The options include the model only if the dialect's body depends on it, so that other upstreams share a translation.
fn options(upstream: &UpstreamConfig, dialect: Dialect) -> TranslationOptions {
    let by_model = matches!(dialect, Dialect::Anthropic | Dialect::Gemini | Dialect::Bedrock);
    TranslationOptions {
        model: if by_model { upstream.model.clone() } else { String::new() },
        max_completion_tokens: upstream.provider.max_completion_tokens,
        takes_thoughts: upstream.provider.takes_thoughts,
    }
}
