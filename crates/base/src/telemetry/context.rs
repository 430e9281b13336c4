//! What every line that is logged within a request says of it.
//!
//! Most requests log nothing, so nothing is formatted until a line is written: a span of `tracing` would format its names for each request.

use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use serde_json::Value;

use crate::printable::PrintableWriter;

thread_local! {
    /// The context that the running code is in.
    static CURRENT: Cell<LogContext> = const { Cell::new(LogContext(None)) };
}

/// The names of a request, or of an attempt within it. By default those of neither.
#[derive(Clone, Debug, Default)]
pub struct LogContext(Option<Arc<ContextNames>>);

/// Returns the context until now. At the end of a thread there is none.
fn enter(context: LogContext) -> LogContext {
    CURRENT.try_with(|current| current.replace(context)).unwrap_or_default()
}

/// What it is, such as an attempt, and its names.
pub(super) type ContextLevel = (&'static str, Vec<(&'static str, Value)>);

#[derive(Debug)]
enum ContextNames {
    Request(RequestNames),
    Attempt { request: LogContext, upstream: String, ordinal: usize, reason: &'static str },
}

/// Only the surface is known from the start.
#[derive(Debug)]
struct RequestNames {
    surface: &'static str,
    race_id: OnceLock<String>,
    user: OnceLock<String>,
    model: OnceLock<String>,
}

impl LogContext {
    /// That of a request to `surface`.
    pub fn request(surface: &'static str) -> LogContext {
        let [race_id, user, model] = Default::default();
        LogContext(Some(Arc::new(ContextNames::Request(RequestNames { surface, race_id, user, model }))))
    }

    /// That of an attempt within this request.
    pub fn attempt(&self, upstream: &str, ordinal: usize, reason: &'static str) -> LogContext {
        let names = ContextNames::Attempt { request: self.clone(), upstream: upstream.to_owned(), ordinal, reason };
        LogContext(Some(Arc::new(names)))
    }

    /// That of the running code.
    pub fn current() -> LogContext {
        let context = enter(LogContext(None));
        enter(context.clone());
        context
    }

    /// Names the request's race and who asks; the first names stay.
    pub fn name_race(&self, race_id: &str, user: Option<&str>) {
        if let Some(ContextNames::Request(names)) = self.0.as_deref() {
            names.race_id.get_or_init(|| race_id.to_owned());
            user.map(|user| names.user.get_or_init(|| user.to_owned()));
        }
    }

    /// Names the request's model; the first name stays.
    pub fn name_model(&self, model: &str) {
        if let Some(ContextNames::Request(names)) = self.0.as_deref() {
            names.model.get_or_init(|| model.to_owned());
        }
    }

    /// The running code is in this context until the guard is dropped.
    pub fn enter(&self) -> EnteredContext {
        EnteredContext { outer: enter(self.clone()) }
    }

    /// The names of the request and then, in an attempt, the attempt's.
    pub(super) fn levels(&self) -> Vec<ContextLevel> {
        match self.0.as_deref() {
            None => Vec::new(),
            Some(ContextNames::Request(RequestNames { surface, race_id, user, model })) => {
                let known = [("race_id", race_id), ("user", user), ("model", model)];
                let known = known.into_iter().filter_map(|(name, value)| Some((name, value.get()?.as_str().into())));
                vec![("request", std::iter::once(("surface", (*surface).into())).chain(known).collect())]
            }
            Some(ContextNames::Attempt { request, upstream, ordinal, reason }) => {
                let names = vec![
                    ("upstream", upstream.as_str().into()),
                    ("ordinal", (*ordinal).into()),
                    ("reason", (*reason).into()),
                ];
                let mut levels = request.levels();
                levels.push(("attempt", names));
                levels
            }
        }
    }
}

impl fmt::Display for LogContext {
    /// `request{surface="chat" …}:attempt{…}: `, or nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = self.levels();
        for (kind, names) in &levels {
            write!(f, "{kind}{{")?;
            for (place, (name, value)) in names.iter().enumerate() {
                let space = if place == 0 { "" } else { " " };
                match value.as_str() {
                    Some(text) => write!(PrintableWriter(&mut *f), "{space}{name}={text:?}")?,
                    None => write!(f, "{space}{name}={value}")?,
                }
            }
            f.write_str("}:")?;
        }
        f.write_str(if levels.is_empty() { "" } else { " " })
    }
}

/// See [`LogContext::enter`].
pub struct EnteredContext {
    outer: LogContext,
}

impl Drop for EnteredContext {
    fn drop(&mut self) {
        enter(std::mem::take(&mut self.outer));
    }
}

pin_project! {
    /// A future that runs, and is dropped, within a context.
    pub struct InContext<F> {
        context: LogContext,
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for InContext<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let _entered = this.context.enter();
            this.future.set(None);
        }
    }
}

/// Runs a future within a context.
pub trait WithLogContext: Future + Sized {
    fn in_context(self, context: LogContext) -> InContext<Self> {
        InContext { context, future: Some(self) }
    }
}

impl<F: Future> WithLogContext for F {}

impl<F: Future> Future for InContext<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = this.context.enter();
        this.future.as_pin_mut().map_or(Poll::Pending, |future| future.poll(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> String {
        LogContext::current().to_string()
    }

    struct SaysAtItsEnd<'s>(&'s Cell<String>);

    impl Drop for SaysAtItsEnd<'_> {
        fn drop(&mut self) {
            self.0.set(shown());
        }
    }

    #[test]
    fn a_future_runs_and_ends_in_its_context_and_leaves_the_one_around_it() {
        let request = LogContext::request("chat");
        let attempt = request.attempt("one/x", 1, "fallback");
        let at_end = Cell::new(String::new());
        let around = request.enter();
        {
            let says = SaysAtItsEnd(&at_end);
            let future = async {
                let _says = says;
                let inside = shown();
                std::future::pending::<()>().await;
                inside
            };
            let mut future = Box::pin(future.in_context(attempt));
            assert!(future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
            assert_eq!(shown(), "request{surface=\"chat\"}: ");
            request.name_race("id", Some("a\u{202e}n"));
            request.name_race("other", None);
            request.name_model("m");
        }
        let named = "request{surface=\"chat\" race_id=\"id\" user=\"a\\u{202e}n\" model=\"m\"}:";
        assert_eq!(at_end.take(), format!("{named}attempt{{upstream=\"one/x\" ordinal=1 reason=\"fallback\"}}: "));
        assert_eq!(shown(), format!("{named} "));
        drop(around);
        assert_eq!(shown(), "");
    }
}
