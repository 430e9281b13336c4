//! The request to each upstream: unchanged if the upstream uses the caller's dialect, else translated, each translation
//! made once. Not for headers: see `run::client_headers`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::state::blocking::translation_bytes;
use photofinish_base::memory::{Lease, Memory, MemoryFull};
use photofinish_base::pace::aside;
use photofinish_config::{Lossy, Provider, ProviderDialect, UpstreamConfig};
use photofinish_facts::record::{LeftOutReason, LeftOutUpstream};
use photofinish_translation::adapt;
use photofinish_translation::adapt::Lesson;
use photofinish_translation::request::opening;
use photofinish_translation::{ApiRequest, RequestTranslation};
use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::Conversation;
use photofinish_wire::quirks::RequestChanges;
use photofinish_wire::{Dialect, Losses, PassedCall, Surface, TranslationOptions};

/// The translations of one request.
pub struct Outbound<'a> {
    request: &'a Arc<ApiRequest>,
    lossy: Lossy,
    memory: &'a Memory,
    /// The gateway keeps answers of the Responses API.
    stores: bool,
    /// Memory for the parsed conversation, and for one translation at a time.
    tree: Lease,
    /// Made for the first upstream that speaks the caller's dialect.
    untouched: Option<Arc<RequestTranslation>>,
    /// Parsed for the first upstream that speaks another dialect.
    conversation: Option<Result<Conversation, Invalid>>,
    /// The requests in the caller's dialect for upstreams that demand something. None: they get it untouched.
    demanded: Vec<(Demands, Option<Arc<RequestTranslation>>)>,
    /// The translations so far.
    translated: Vec<(Dialect, Demands, Arc<RequestTranslation>)>,
    /// Upstreams that are not asked because of their dialect.
    left_out: Vec<LeftOutUpstream>,
    /// Why upstreams cannot serve it: the reason nearest to the request's own fault.
    unserved: Option<CannotServe>,
}

/// What a request depends on, of its upstream.
struct Demands {
    options: TranslationOptions,
    changes: Arc<RequestChanges>,
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
    pub fn new(request: &'a Arc<ApiRequest>, lossy: Lossy, memory: &'a Memory, stores: bool) -> Outbound<'a> {
        Outbound {
            request,
            lossy,
            memory,
            stores,
            tree: memory.lease(),
            untouched: None,
            conversation: None,
            demanded: Vec::new(),
            translated: Vec::new(),
            left_out: Vec::new(),
            unserved: None,
        }
    }

    /// The request to this upstream, in the dialect that it demands. None: the upstream cannot serve it. `lessons`: what its refusals
    /// taught about a surface.
    ///
    /// # Errors
    /// 503 or 413 if there is no memory for it.
    pub fn for_upstream(
        &mut self,
        upstream: &UpstreamConfig,
        lessons: impl Fn(Surface) -> Vec<Lesson>,
    ) -> Result<Option<Arc<RequestTranslation>>, Rejection> {
        let provider = &upstream.provider;
        let asked = Surface::Passed(PassedCall::Compaction);
        // Who does not know what Codex sends has no compaction either.
        let has_compaction = || {
            let quirks = adapt::demands(&lessons(asked)).over(upstream.quirks(Dialect::Responses));
            quirks.compaction && quirks.codex_tools
        };
        let has_call = self.request.surface != asked || has_compaction();
        let lessons = |surface| {
            let mut taught = lessons(surface);
            if surface == Surface::Responses && self.request.state.compacts {
                taught.extend(lessons(asked));
            }
            taught
        };
        let Some(spoken) = upstream.spoken_for(self.request.surface).filter(|_| has_call) else {
            self.unspoken(provider);
            self.leave_out([upstream.name()], LeftOutReason::Dialect);
            return Ok(None);
        };
        let (spoken, lessons) = self.demanded_path(upstream, spoken, lessons);
        let demands = Demands::of(upstream, spoken.dialect, self.request.surface, &lessons);
        let in_words = self.request.state.compacts && !demands.options.quirks.compaction;
        let request_translation = if self.forgets(&lessons) {
            let Some(without) = self.without_reasoning(spoken.dialect, &demands) else { return Ok(None) };
            Arc::new(without)
        } else if spoken.dialect == self.request.surface.dialect() && !in_words {
            self.own_dialect(demands)?
        } else {
            let Some(translated) = self.translated(spoken.dialect, demands)? else {
                self.leave_out([upstream.name()], LeftOutReason::Capability);
                return Ok(None);
            };
            translated
        };
        let request_translation = match request_translation.without(&lessons) {
            Some(without) => {
                let mut lease = self.memory.lease();
                lease.settle(without.len());
                Arc::new(without.leased(lease))
            }
            None => request_translation,
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

    /// The dialect of the request to this upstream, and what its refusals taught about that: a request goes where the vendor takes it.
    fn demanded_path<'u>(
        &self,
        upstream: &'u UpstreamConfig,
        spoken: &'u ProviderDialect,
        lessons: impl Fn(Surface) -> Vec<Lesson>,
    ) -> (&'u ProviderDialect, Vec<Lesson>) {
        let surface = self.request.surface;
        let of = |dialect: Dialect| {
            let is_own = dialect == surface.dialect() || !surface.is_translated();
            lessons(if is_own { surface } else { dialect.conversing() })
        };
        let demands = |dialect| adapt::demands(&of(dialect)).over(upstream.quirks(dialect));
        let has_responses = || !demands(Dialect::Responses).goes_to_chat(self.request.body());
        let goes = || demands(Dialect::OpenAi).goes_to_responses(self.request.has_tools, self.request.body());
        let to = match spoken.dialect {
            Dialect::OpenAi if goes() && has_responses() => Dialect::Responses,
            Dialect::Responses if !has_responses() => Dialect::OpenAi,
            own => own,
        };
        let may_go = |other: &&ProviderDialect| other.dialect == to && surface.translates_to(to);
        let other = upstream.provider.dialects.iter().find(may_go).filter(|_| to != spoken.dialect).unwrap_or(spoken);
        (other, of(other.dialect))
    }

    /// Whether an upstream refused the reasoning of this conversation.
    fn forgets(&self, lessons: &[Lesson]) -> bool {
        let refused = |lesson: &Lesson| matches!(lesson, Lesson::Reasoning(of) if *of == conversation_of(self.request));
        lessons.iter().any(refused)
    }

    /// The request without reasoning of earlier turns. None if it has none, or without memory.
    fn without_reasoning(&self, dialect: Dialect, demands: &Demands) -> Option<RequestTranslation> {
        let mut lease = self.memory.lease();
        lease.cover(translation_bytes(self.request.body())).ok()?;
        let made = aside(self.request.len(), || {
            let made = RequestTranslation::without_reasoning(self.request, dialect, &demands.options)?;
            if made.is_translated() {
                return Some(made.changed(&demands.changes));
            }
            Some(made.own_dialect(&demands.options, &demands.changes).unwrap_or(made))
        })?;
        lease.settle(made.len());
        Some(made.leased(lease))
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

    /// The request in the caller's own dialect: untouched, but for what the upstream demands.
    fn own_dialect(&mut self, demands: Demands) -> Result<Arc<RequestTranslation>, Rejection> {
        let request = self.request;
        let untouched = || Arc::new(RequestTranslation::untouched(request.clone()));
        let untouched = self.untouched.get_or_insert_with(untouched).clone();
        if !adapt::concerns(request, &demands.options.quirks) && demands.changes.keeps_bodies() {
            return Ok(untouched);
        }
        if let Some((_, made)) = self.demanded.iter().find(|(with, _)| with.are(&demands)) {
            return Ok(made.clone().unwrap_or(untouched));
        }
        let mut lease = self.memory.lease();
        // Most are copied; only a history of calls is parsed.
        let parses = adapt::parses(request, &demands.options.quirks);
        let bytes = if parses { translation_bytes(request.body()) } else { request.len() };
        lease.cover(bytes).map_err(|MemoryFull| Rejection::no_memory(bytes, self.memory.max()))?;
        let made = aside(request.len(), || untouched.own_dialect(&demands.options, &demands.changes));
        let made = made.map(|made| {
            lease.settle(made.len());
            Arc::new(made.leased(lease))
        });
        self.demanded.push((demands, made.clone()));
        Ok(made.unwrap_or(untouched))
    }

    fn translated(&mut self, dialect: Dialect, demands: Demands) -> Result<Option<Arc<RequestTranslation>>, Rejection> {
        let surface = self.request.surface;
        let options = &demands.options;
        let made = self.translated.iter().find(|(of, with, _)| *of == dialect && with.are(&demands));
        if let Some((_, _, request_translation)) = made {
            return Ok(Some(request_translation.clone()));
        }
        if self.conversation.is_none() {
            let bytes = translation_bytes(self.request.body());
            self.tree.cover(bytes).map_err(|MemoryFull| Rejection::no_memory(bytes, self.memory.max()))?;
        }
        let body = self.request.body();
        let made = if surface.embeds() {
            RequestTranslation::embedding(surface, body, dialect, options)
        } else {
            let (state, stores) = (&self.request.state, self.stores);
            let read = || {
                let mut conversation = self.request.conversation()?;
                if surface == Surface::Responses {
                    let echo = Arc::make_mut(&mut conversation.echo);
                    echo.extend(state.echo.clone());
                    echo.insert("store".to_owned(), (stores && !state.unstored).into());
                }
                Ok(conversation)
            };
            match self.conversation.get_or_insert_with(read) {
                Ok(conversation) => RequestTranslation::translated(surface, conversation, dialect, options),
                Err(invalid) => Err(invalid.clone()),
            }
        };
        match made {
            Ok(request_translation) => {
                let request_translation = request_translation.changed(&demands.changes);
                // Its required memory is known by now.
                let mut lease = self.memory.lease();
                lease.settle(request_translation.len());
                let request_translation = Arc::new(request_translation.leased(lease));
                self.translated.push((dialect, demands, request_translation.clone()));
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

impl Demands {
    /// The options include the model only for embeddings, whose body may depend on it, so that other upstreams share a translation.
    fn of(upstream: &UpstreamConfig, dialect: Dialect, surface: Surface, lessons: &[Lesson]) -> Demands {
        let by_model = surface.embeds() && dialect.has_model_in_path();
        let model = if by_model { upstream.model.clone() } else { String::new() };
        let options = TranslationOptions { model, quirks: adapt::demands(lessons).over(upstream.quirks(dialect)) };
        Demands { options, changes: upstream.changes.clone() }
    }

    fn are(&self, others: &Demands) -> bool {
        self.options == others.options && self.changes == others.changes
    }
}

/// Identifies a conversation: a hash of its opening.
pub fn conversation_of(request: &ApiRequest) -> u64 {
    let mut hasher = DefaultHasher::new();
    opening(request).hash(&mut hasher);
    hasher.finish()
}
