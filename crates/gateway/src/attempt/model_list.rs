//! Asks a provider for the list of its models, with the key and over the connections of requests. Not for what the list
//! changes: see `config::listed`.

use photofinish_dialects::model_list::ListFormat as _;
use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::credential;
use photofinish_base::pace::aside;
use photofinish_base::parts::BodyParts;
use photofinish_config::ProviderDialect;
use photofinish_config::keyring::HashedKey;
use photofinish_dialects::model_list::NoModelList;
use photofinish_transport::upstream::{Endpoint, GetError, GetLimits, Outgoing, UpstreamClient};

/// Bytes of all pages of a provider's list of models.
const LIST_MAX: usize = 8 << 20;
/// Pages of such a list. A list with more changes nothing: a cut list would say that models are gone.
const PAGES_MAX: usize = 20;

/// Whom to ask for a list, and where.
#[derive(Clone)]
pub struct ModelListRequest<'a> {
    pub spoken: &'a ProviderDialect,
    pub endpoint: Endpoint,
    pub key: Option<HashedKey>,
    /// The path of the first page.
    pub path: &'static str,
    /// For all pages together.
    pub deadline: Duration,
}

/// Why there is no list. Its text never quotes the provider, which may quote the key.
#[derive(Debug)]
pub enum ModelListError {
    /// The provider's token has not been read yet.
    NoKey,
    NoAnswer(GetError),
    /// Redirects are not followed: the key is for this address alone.
    Status(StatusCode),
    Unreadable(NoModelList),
    TooManyPages,
    Empty,
}

impl fmt::Display for ModelListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelListError::NoKey => f.write_str("there is no key for it yet"),
            ModelListError::NoAnswer(why) => why.fmt(f),
            ModelListError::Status(status) => write!(f, "it answered with status {}", status.as_u16()),
            ModelListError::Unreadable(why) => why.fmt(f),
            ModelListError::TooManyPages => write!(f, "it has more than {PAGES_MAX} pages"),
            ModelListError::Empty => f.write_str("it is empty"),
        }
    }
}

impl ModelListRequest<'_> {
    /// The ids of the whole list; at least one.
    ///
    /// # Errors
    /// There is no complete list in time.
    pub async fn send(&self, client: &UpstreamClient) -> Result<Vec<String>, ModelListError> {
        let all = tokio::time::timeout(self.deadline, self.pages(client));
        all.await.unwrap_or(Err(ModelListError::NoAnswer(GetError::Late(self.deadline))))
    }

    async fn pages(&self, client: &UpstreamClient) -> Result<Vec<String>, ModelListError> {
        let (mut ids, mut room, mut next) = (Vec::new(), LIST_MAX, self.path.to_owned());
        for _ in 0..PAGES_MAX {
            let text = self.page(client, next, room).await?;
            room -= text.len();
            let page =
                aside(text.len(), || self.spoken.dialect.model_page(&text)).map_err(ModelListError::Unreadable)?;
            ids.extend(page.ids);
            match page.next {
                Some(path) => next = path,
                None if ids.is_empty() => return Err(ModelListError::Empty),
                None => return Ok(ids),
            }
        }
        Err(ModelListError::TooManyPages)
    }

    /// The text of one page, of at most `bytes` bytes.
    async fn page(&self, client: &UpstreamClient, path: String, bytes: usize) -> Result<Bytes, ModelListError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("photofinish/", env!("CARGO_PKG_VERSION"))));
        let mut outgoing = Outgoing {
            endpoint: self.endpoint.clone(),
            method: Method::GET,
            path: path.into(),
            headers,
            body: BodyParts::default(),
            connect_timeout: self.deadline,
            fresh: false,
        };
        credential::add(&mut outgoing, self.spoken, self.key.as_ref().map(HashedKey::expose), SystemTime::now());
        let limits = GetLimits { time: self.deadline, bytes };
        let answer = client.get(outgoing.endpoint, outgoing.path.into_owned(), outgoing.headers, limits).await;
        let answer = answer.map_err(ModelListError::NoAnswer)?;
        if answer.status == StatusCode::OK { Ok(answer.body) } else { Err(ModelListError::Status(answer.status)) }
    }
}
