//! A request as its upstream demands it: in the caller's own dialect, with the operator's changes, or without a member that the
//! upstream refused. Not for what is demanded: see `quirks`.

use std::sync::Arc;

use bytes::Bytes;

use super::{RequestTranslation, UpstreamBody};
use crate::dialect::TranslationOptions;
use crate::json::raw_members::raw_members;
use crate::quirks::{self, Quirks, RefusalLesson, RequestChanges};
use crate::request::ApiRequest;

impl RequestTranslation {
    /// For an upstream of the caller's dialect that demands something: see `quirks`. None: it gets the request as it is.
    pub fn own_dialect(&self, options: &TranslationOptions, changes: &RequestChanges) -> Option<RequestTranslation> {
        let UpstreamBody::Spliced(request) = &self.body else { return None };
        if request.is_form() {
            return None;
        }
        let (body, losses) = quirks::rewritten(self.surface, request.body(), &options.quirks, changes)?;
        let request = ApiRequest::written(self.surface, Bytes::from(body)).ok()?;
        let mut changed = RequestTranslation::spliced(Arc::new(request), self.losses.clone());
        changed.losses.extend(&losses);
        Some(changed)
    }

    /// A translation with the changes that the operator makes in requests to a provider.
    pub fn changed(mut self, changes: &RequestChanges) -> RequestTranslation {
        let surface = self.asked();
        // Nothing but the operator's changes: the writer knew the quirks.
        let rewritten = |body: &[u8]| quirks::rewritten(surface, body, &Quirks::default(), changes);
        match &self.body {
            UpstreamBody::Spliced(request) => {
                if let Some((body, losses)) = rewritten(request.body())
                    && let Ok(request) = ApiRequest::written(request.surface, Bytes::from(body))
                {
                    self.body = UpstreamBody::Spliced(Arc::new(request));
                    self.losses.extend(&losses);
                }
            }
            UpstreamBody::Fixed(body, max_tokens) => {
                if let Some((body, losses)) = rewritten(body) {
                    self.body = UpstreamBody::Fixed(Bytes::from(body), *max_tokens);
                    self.losses.extend(&losses);
                }
            }
        }
        self
    }

    /// Without what these refusals were about. None: it has nothing of it.
    pub fn without(&self, lessons: &[RefusalLesson]) -> Option<RequestTranslation> {
        let UpstreamBody::Spliced(request) = &self.body else { return None };
        if lessons.is_empty() || request.is_form() || self.embedding.is_some() {
            return None;
        }
        let (body, lost) = quirks::without(request.body(), lessons)?;
        let request = ApiRequest::written(request.surface, Bytes::from(body)).ok()?;
        let mut losses = self.losses.clone();
        losses.extend(&lost);
        Some(RequestTranslation {
            body: UpstreamBody::Spliced(Arc::new(request)),
            losses,
            customs: self.customs.clone(),
            echo: self.echo.clone(),
            embedding: None,
            _lease: None,
            ..*self
        })
    }

    /// The value of a member, as JSON text.
    pub fn value_of(&self, name: &str) -> Option<String> {
        let UpstreamBody::Spliced(request) = &self.body else { return None };
        if request.is_form() {
            return None;
        }
        raw_members(request.body())?.into_iter().rfind(|(member, _)| member == name).map(|(_, text)| text.into_owned())
    }
}
