//! Paths of one provider: method, path, query, body and answer are passed on as they come, under the provider's key. One attempt, one
//! row, no race. Not for calls that name a model.

mod target;
mod upload;

pub use upload::UPLOAD_MAX;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, USER_AGENT, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::attempt::{ExchangeSpec, PassSpec, PassedStream};
use crate::proxy::body::{discard, is_awaited};
use crate::proxy::door::admission::{self, NotAdmitted};
use crate::proxy::door::caller::{Caller, Client};
use crate::proxy::door::overrides;
use crate::proxy::refusals::rejection::{FailedUpstream, Rejection};
use crate::proxy::run::answer;
use crate::proxy::run::gate::{AnswerKind, enter};
use crate::proxy::run::race_guard::RaceGuard;
use crate::proxy::run::running::response_of;
use crate::proxy::state::gateway::Gateway;
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, Phase, RawAnswer};
use photofinish_base::parts::BodyParts;
use photofinish_base::telemetry::LogContext;
use photofinish_config::keyring::{HashedKey, scrub_headers};
use photofinish_config::scrub::ScrubbedPieces;
use photofinish_config::{Auth, Keys, Provider, ProviderDialect, User};
use photofinish_facts::record::{RaceOutcome, RequestOrigin, StartReason};
use photofinish_limits::{Admission, AttemptCost, AttemptReservation, LimitClock, LimitLevels};
use photofinish_routing::health::LiveConfig;
use photofinish_transport::upstream::Outgoing;
use photofinish_wire::Surface;
use target::{AskedPath, Target};
use upload::UploadProgress;

/// Headers of the client that go up. No token, cookie or address of its is among them.
const UP: [&str; 14] = [
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-encoding",
    "content-type",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "openai-beta",
    "prefer",
    "range",
];
/// The same with the caller's own key.
const UP_WITH_OWN_KEY: [&str; 2] = ["openai-organization", "openai-project"];
/// Headers of an answer about its body, in addition to those of every answer.
const DOWN: [&str; 9] = [
    "accept-ranges",
    "allow",
    "content-disposition",
    "content-length",
    "content-range",
    "content-type",
    "etag",
    "last-modified",
    "location",
];

/// Serves a request to a path of a provider.
pub async fn pass(gateway: Arc<Gateway>, client: Client, request: Request<Body>) -> Response<Body> {
    let live = gateway.live();
    let provider = asked_provider(&live, &AskedPath::of(request.uri().path()));
    // Its own clients read the gateway's errors too.
    let shape = provider.map_or(Surface::Chat, |provider| provider.preferred().dialect.conversing());
    let (user, place) = match admission::admit(&gateway, &live, &client) {
        Ok(admitted) => admitted,
        Err(NotAdmitted::Shed(shed)) => return admission::turn_away(&gateway, shape, shed, request),
        Err(NotAdmitted::Refused(rejection)) => return rejection.answer_to(shape),
    };
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts, ());
    let Some(provider) = provider else {
        drop_body(&live, request.headers(), body).await;
        return unknown(&live, request.uri().path()).answer_to(shape);
    };
    let mut guard = RaceGuard::new(&gateway, shape, user.as_deref(), place, RequestOrigin::default());
    guard.traced(&gateway, &live, &request);
    let levels = gateway.usage().levels(&live.config, user.as_deref());
    let passing = Passing::resolve(&live, provider, user, &request, &mut guard)
        .and_then(|passing| Ok((passing.enter(&gateway, levels, &mut guard)?, passing)));
    let (reservation, passing) = match passing {
        Ok(passing) => passing,
        Err(rejection) => {
            drop_body(&live, request.headers(), body).await;
            return response_of(Err(rejection), guard);
        }
    };
    let shutdown = gateway.shutdown().clone();
    tokio::select! {
        response = passing.run(&gateway, reservation, body, guard) => response,
        () = shutdown.cancelled() => Rejection::shutting_down().answer_to(shape),
    }
}

/// Reads and drops a body for a moment, so that its client sees the answer.
async fn drop_body(live: &LiveConfig, headers: &HeaderMap, body: Body) {
    if is_awaited(headers, &body) {
        discard(body, live.config.server.body_max).await;
    }
}

fn asked_provider<'l>(live: &'l LiveConfig, asked: &AskedPath<'_>) -> Option<&'l Arc<Provider>> {
    let name = asked.provider.as_deref().or(live.config.server.files.as_deref());
    live.config.providers.get(name?)
}

/// A request whose provider, key and path are known.
struct Passing {
    provider: Arc<Provider>,
    /// The attempt, without its body.
    outgoing: Outgoing,
    spoken: ProviderDialect,
    key: Option<HashedKey>,
    word: String,
    live: Arc<LiveConfig>,
    read_at: Instant,
}

impl Passing {
    fn resolve(
        live: &Arc<LiveConfig>,
        provider: &Arc<Provider>,
        user: Option<Arc<User>>,
        request: &Request<()>,
        guard: &mut RaceGuard,
    ) -> Result<Passing, Rejection> {
        let (uri, headers) = (request.uri(), request.headers());
        let asked = AskedPath::of(uri.path());
        let target = live.route(&provider.name).and_then(|route| Target::of(provider, route, &asked, uri));
        let read_at = guard.passes(target.as_ref().map_or("other", |target| &target.word));
        let caller = Caller::new(live, user, headers)?;
        guard.charge_to(overrides::charged_to(headers, None)?);
        let target = target.ok_or_else(|| unknown(live, uri.path()))?;
        if !asked.stays() {
            let why = "the path has a part that is empty or only dots: write it as the provider has it";
            return Err(Rejection::parameter(None, why));
        }
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|bytes| bytes > UPLOAD_MAX) {
            return Err(Rejection::upload_too_large(UPLOAD_MAX));
        }
        let name = &provider.name;
        if provider.is_at(&live.config.server.listen) {
            return Err(Rejection::not_passed(format!("the provider {name} is at the gateway's own address")));
        }
        let own = caller.own_key(live, name);
        let pays = own.as_ref().is_some_and(|key| key.pays);
        if let Some(user) = caller.user.as_ref().filter(|user| !pays && !user.overrides.any_upstream()) {
            return Err(Rejection::forbidden_provider(name, &user.name));
        }
        // Files belong to an account, so that of several keys the first is used, and no other.
        let keys = live.route(name).and_then(|route| route.shared().for_request(own, 0).into_keys());
        let Some(keys) = keys else {
            let why = provider.why_off().unwrap_or_default();
            return Err(Rejection::not_passed(format!("the provider {name} is off because {why}")));
        };
        let key = keys.into_iter().next();
        if matches!(target.spoken.auth, Auth::SigV4 { .. })
            && key.as_ref().is_some_and(|key| key.expose().contains(':'))
        {
            let why = format!(
                "the requests of {name} are signed over their whole body, which is not held here: use a Bedrock API key"
            );
            return Err(Rejection::not_passed(why));
        }
        let mut up = going_up(headers, provider, key.as_ref(), &target.word);
        if let Some(trace) = guard.trace() {
            trace.write_headers(0, &mut up);
        }
        let outgoing = Outgoing {
            endpoint: target.endpoint,
            method: request.method().clone(),
            path: target.path.into(),
            headers: up,
            body: BodyParts::default(),
            connect_timeout: live.config.race.timeouts.connect,
            fresh: false,
        };
        let (provider, spoken, word) = (provider.clone(), target.spoken.clone(), target.word);
        Ok(Passing { provider, outgoing, spoken, key, word, live: live.clone(), read_at })
    }

    /// The right to ask, if the limits of the caller allow whatever the provider has. The price is not known before the answer.
    fn enter(
        &self,
        gateway: &Gateway,
        levels: LimitLevels,
        guard: &mut RaceGuard,
    ) -> Result<AttemptReservation, Rejection> {
        let name = &self.provider.name;
        if let Some(level) = levels.forbidding_any_of(name) {
            return Err(Rejection::forbidden_paths(level, name));
        }
        if levels.is_empty() {
            return Admission::unlimited().reserve(name, 0, |_| AttemptCost::default()).ok_or_else(Rejection::internal);
        }
        let own_key = self.key.as_ref().is_some_and(|key| key.pays);
        let cost = AttemptCost { unpriced: true, own_key, ..AttemptCost::default() };
        let now = LimitClock { us: gateway.learning().now_us(), wall_us: guard.started_at() };
        // Which model it is about is not known.
        let levels = levels.with_models(gateway.usage(), |_| Some(Vec::new()));
        let (admission, _) = enter(gateway, levels, 0, &[cost], now)?;
        guard.admitted(gateway, &admission, AnswerKind::NONE);
        admission.reserve(name, 0, |_| cost).ok_or_else(Rejection::internal)
    }

    async fn run(
        self,
        gateway: &Arc<Gateway>,
        reservation: AttemptReservation,
        body: Body,
        mut guard: RaceGuard,
    ) -> Response<Body> {
        let Passing { provider, outgoing, spoken, key, word, live, read_at } = self;
        guard.attempts().fetch_add(1, Ordering::Relaxed);
        let (upload, progress) = upload::upload(body);
        let upstream = format!("{}/{word}", provider.name);
        let exchange = ExchangeSpec {
            client: gateway.client().clone(),
            sink: guard.sink(),
            shutdown: gateway.shutdown().clone(),
            race_id: guard.race_id().to_owned(),
            context: LogContext::current().attempt(&upstream, 0, StartReason::First.as_str()),
            read_at,
            key: key.clone(),
            memory: gateway.memory().clone(),
        };
        let (timeouts, catalogue) = (live.config.race.timeouts, live.config.catalogue.clone());
        let spec =
            PassSpec { exchange, provider: provider.clone(), spoken, word, outgoing, upload, timeouts, catalogue };
        let sent = spec.send(reservation, || progress.look()).await;
        guard.sent_up(progress.bytes());
        match sent {
            Ok(passed) => {
                guard.commit_passed(passed.status);
                let head = head(passed.status, &passed.headers, key.as_ref(), &upstream, &guard);
                let cancelled = Box::pin(gateway.shutdown().cancelled());
                let (scrubbed, broken) = (ScrubbedPieces::default(), None);
                let mut body = PassedBody {
                    stream: passed.body,
                    key,
                    scrubbed,
                    guard,
                    progress,
                    cancelled,
                    is_over: false,
                    broken,
                };
                body.end_with_its_stream();
                head.map(|()| Body::new(body))
            }
            Err(failure) => {
                let is_shared = key.is_some_and(|key| !key.own);
                if let (Keys::Token(token), FailureKind::Unauthorized, true) = (&provider.keys, failure.kind, is_shared)
                {
                    token.refuse();
                }
                refused(failure, progress.rejection(), upstream, guard)
            }
        }
    }
}

/// Why no provider is found.
fn unknown(live: &LiveConfig, path: &str) -> Rejection {
    let asked = AskedPath::of(path);
    match asked.provider.as_deref().or(live.config.server.files.as_deref()) {
        Some(name) => Rejection::not_served(path, &live.config.why_no_provider(name)),
        None => {
            let why = format!(
                "name a provider for files and batches as files = \"NAME\" under [server], or call /providers/NAME{}",
                asked.rest
            );
            Rejection::not_served(path, &why)
        }
    }
}

fn going_up(client: &HeaderMap, provider: &Provider, key: Option<&HashedKey>, word: &str) -> HeaderMap {
    let own_key = key.is_some_and(|key| key.own);
    let goes = |name: &str| {
        UP.contains(&name)
            || own_key && UP_WITH_OWN_KEY.contains(&name)
            || provider.forward_headers.iter().any(|configured| configured == name)
    };
    let mut headers = selected(client, goes);
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("photofinish/", env!("CARGO_PKG_VERSION"))));
    headers.extend(provider.requests.changes(word).headers);
    headers
}

fn selected(headers: &HeaderMap, goes: impl Fn(&str) -> bool) -> HeaderMap {
    headers.iter().filter(|(name, _)| goes(name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn head(
    status: StatusCode,
    upstream_headers: &HeaderMap,
    key: Option<&HashedKey>,
    upstream: &str,
    guard: &RaceGuard,
) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.extend(selected(upstream_headers, |name| DOWN.contains(&name)));
    scrub_headers(headers, key);
    headers.extend(answer::passed_on(upstream_headers, key));
    // What others have stored there must not act as a page of the gateway.
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    HeaderValue::from_str(upstream).ok().map(|name| headers.insert("x-photofinish-upstream", name));
    answer::name_race(headers, guard);
    response
}

/// The answer without a good one: the provider's own error, else the gateway's. `clients`: what was wrong with the client's body.
fn refused(failure: Failure, clients: Option<Rejection>, upstream: String, guard: RaceGuard) -> Response<Body> {
    if let (None, Some(RawAnswer { status, headers, body, .. })) = (&clients, &failure.answer) {
        let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_GATEWAY);
        let mut response = head(status, headers, None, &upstream, &guard).map(|()| Body::from(body.clone()));
        response.headers_mut().remove(CONTENT_LENGTH);
        guard.answered(status, None, &[]);
        return response;
    }
    let (kind, phase) = (failure.kind, failure.phase);
    let failed = [FailedUpstream { upstream, failure }];
    let rejection = clients.unwrap_or_else(|| match kind {
        FailureKind::GatewayLimit => Rejection::gateway_limit(&failed),
        FailureKind::Timeout if phase != Phase::Connect => Rejection::deadline(&failed),
        _ => Rejection::all_failed(&failed),
    });
    response_of(Err(rejection), guard)
}

/// Streams the answer. Dropping it cancels the exchange.
struct PassedBody {
    stream: PassedStream,
    /// What was sent, which a provider may repeat.
    key: Option<HashedKey>,
    scrubbed: ScrubbedPieces,
    guard: RaceGuard,
    progress: UploadProgress,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    is_over: bool,
    /// How it broke. Returned by the poll after that, so that the server first sends what was there.
    broken: Option<&'static str>,
}

impl PassedBody {
    fn end_with_its_stream(&mut self) {
        if self.stream.is_over() {
            self.end(RaceOutcome::Ok);
        }
    }

    fn scrub(&mut self, bytes: Bytes) -> Bytes {
        match &self.key {
            Some(key) => self.scrubbed.push(bytes, key.expose().as_bytes()),
            None => bytes,
        }
    }

    fn break_off(&mut self, outcome: RaceOutcome, why: &'static str, context: &Context<'_>) {
        self.end(outcome);
        self.broken = Some(why);
        context.waker().wake_by_ref();
    }

    fn end(&mut self, outcome: RaceOutcome) {
        self.is_over = true;
        self.guard.sent_up(self.progress.bytes());
        self.guard.passed_on(outcome);
    }
}

impl http_body::Body for PassedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(why) = self.broken.take() {
            // An answer that is cut must not look whole.
            return Poll::Ready(Some(Err(std::io::Error::other(why))));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        let Poll::Ready(next) = self.stream.poll_next(context) else {
            if self.cancelled.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.break_off(RaceOutcome::Shutdown, "the gateway is shutting down", context);
            return Poll::Pending;
        };
        if let Some(Err(failure)) = &next {
            self.break_off(RaceOutcome::Error, failure.kind.as_str(), context);
            return Poll::Pending;
        }
        self.end_with_its_stream();
        let bytes = next.and_then(Result::ok).map(|bytes| self.scrub(bytes));
        let rest = if self.is_over || bytes.is_none() { self.scrubbed.finish() } else { Bytes::new() };
        Poll::Ready(match bytes {
            Some(bytes) if rest.is_empty() => Some(Ok(Frame::data(bytes))),
            Some(bytes) => Some(Ok(Frame::data([bytes, rest].concat().into()))),
            None => (!rest.is_empty()).then(|| Ok(Frame::data(rest))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.is_over && self.broken.is_none()
    }
}
