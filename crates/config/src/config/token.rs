//! A key that changes while the gateway runs: its source, its refresh time and its current value.
//!
//! Not for running the command or reading the file: a background task of `app` does that.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use secrecy::SecretString;
use tokio::sync::Notify;

/// `token = { … }`
#[derive(Debug)]
pub struct Token {
    pub source: CredentialSource,
    /// How long a token is used before the next one is read.
    pub refresh: Duration,
    current: ArcSwapOption<SecretString>,
    /// Why the last try failed.
    problem: Mutex<Option<String>>,
    /// The first try has ended, with or without success.
    tried: AtomicBool,
    first_try: Notify,
    refused: Notify,
}

/// Where a token comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// A program and its arguments, never empty; no shell. Its output is the token.
    Command(Vec<String>),
    /// A file with the token.
    File(PathBuf),
}

impl CredentialSource {
    /// The program or the file, for messages. Arguments are left out: they may contain a secret.
    pub fn name(&self) -> String {
        match self {
            CredentialSource::Command(words) => {
                format!("the command {}", words.first().map_or("", String::as_str))
            }
            CredentialSource::File(path) => format!("the file {}", path.display()),
        }
    }
}

impl Token {
    pub fn new(source: CredentialSource, refresh: Duration) -> Token {
        Token {
            source,
            refresh,
            current: ArcSwapOption::empty(),
            problem: Mutex::default(),
            tried: AtomicBool::new(false),
            first_try: Notify::new(),
            refused: Notify::new(),
        }
    }

    /// The current token.
    pub fn current(&self) -> Option<Arc<SecretString>> {
        self.current.load_full()
    }

    /// Why there is no token yet, as the end of a sentence.
    pub fn why_none(&self) -> String {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        match &*problem {
            Some(problem) => format!("there is no token yet: {problem}"),
            None => format!("there is no token yet: {} was not asked", self.source.name()),
        }
    }

    /// Stores a new token.
    ///
    /// # Errors
    /// What is wrong with it, without quoting it.
    pub fn put(&self, text: &str) -> Result<(), &'static str> {
        let text = text.trim();
        if text.is_empty() {
            return Err("it gave nothing");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it gave more than one word, or characters that cannot be sent in a header");
        }
        self.current.store(Some(Arc::new(SecretString::from(text))));
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.end_first_try();
        Ok(())
    }

    /// Notes a failed try; the old token stays.
    pub fn failed(&self, problem: String) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
        self.end_first_try();
    }

    /// Takes over the current value from the same token of the previous configuration.
    pub fn take_over(&self, before: &Token) {
        if self.source == before.source
            && let Some(current) = before.current()
        {
            self.current.store(Some(current));
            self.end_first_try();
        }
    }

    /// Notes that a provider refused the token: it is read again soon.
    pub fn refuse(&self) {
        self.refused.notify_one();
    }

    /// Resolves when a provider has refused the token.
    pub async fn refused(&self) {
        self.refused.notified().await;
    }

    /// Resolves when the first try has ended.
    pub async fn tried(&self) {
        let mut notified = std::pin::pin!(self.first_try.notified());
        notified.as_mut().enable();
        if !self.tried.load(Ordering::Acquire) {
            notified.await;
        }
    }

    fn end_first_try(&self) {
        self.tried.store(true, Ordering::Release);
        self.first_try.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn token() -> Token {
        Token::new(CredentialSource::File("/run/token".into()), Duration::from_secs(60))
    }

    #[test]
    fn a_token_is_one_word_and_is_told_to_nobody() {
        let token = token();
        assert_eq!(token.why_none(), "there is no token yet: the file /run/token was not asked");
        for bad in ["", " \n", "two words", "a\nb", "ü"] {
            assert!(token.put(bad).is_err(), "{bad:?}");
        }
        assert!(token.current().is_none());
        token.put(" planted-token\n").unwrap();
        assert_eq!(token.current().unwrap().expose_secret(), "planted-token");
        assert!(!format!("{token:?}").contains("planted"));
        token.failed("it is away".to_owned());
        assert!(token.current().is_some(), "the old one may still be good");
    }

    #[tokio::test]
    async fn one_is_taken_over_from_the_same_source() {
        let (before, after) = (token(), token());
        before.put("one").unwrap();
        after.take_over(&before);
        assert_eq!(after.current().unwrap().expose_secret(), "one");
        after.tried().await;
        let other = Token::new(CredentialSource::Command(vec!["x".to_owned()]), Duration::from_secs(60));
        other.take_over(&before);
        assert!(other.current().is_none());
    }
}
