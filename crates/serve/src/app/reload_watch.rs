//! Looks at the files of the configuration while the gateway runs, and asks for a reload: on SIGHUP, or when the file, one of the
//! certificates and keys that it names, or the catalogue in the store's directory has changed.
//!
//! A file that is being written looks different each time, and a certificate and its key are not replaced in one step. So a change,
//! or a signal, counts once two looks have found the same. Not for what a reload may take: see `reload`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;

use super::reload::{ReloadOrder, Reloading};
use photofinish_base::files::{FileLimits, FileStamp};
use photofinish_config::{Config, ConfigText, Fingerprint};
use photofinish_gateway::proxy::RefusedConfiguration;
use photofinish_routing::health::LiveConfig;

/// How often the files are looked at. A look by path, unlike a watch on the file, also sees that a mounted file is replaced.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The watch. Created before the gateway starts, so a signal during the start is not missed. Nor is a change: a configuration says
/// which versions of its files were read.
pub struct ReloadWatch {
    hangup: Signal,
    /// The latest look.
    last: Option<FilesLook>,
    /// What a reload was tried with last.
    tried: Option<SeenFiles>,
    /// SIGHUP came, and has not been followed.
    is_signalled: bool,
}

/// The files at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SeenFiles {
    text: SeenText,
    others: BTreeMap<PathBuf, Option<FileStamp>>,
}

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FilesLook {
    files: SeenFiles,
    /// The version of the file with the text. A writer may have begun anew and be where it was a look before.
    version: Option<FileStamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SeenText {
    /// The configuration is the built-in one, or came through a pipe.
    Unwatched,
    Read(Fingerprint),
    /// And why.
    Unread(String),
}

/// What to do after a look.
#[derive(Debug, PartialEq, Eq)]
enum LookResult {
    /// The files are those in force.
    InForce,
    /// Something is different, and it may still change or was tried already.
    Wait,
    Reload,
}

impl ReloadWatch {
    /// From now on SIGHUP does not end the process.
    ///
    /// # Errors
    /// The handler for the signal cannot be installed.
    pub fn new() -> std::io::Result<ReloadWatch> {
        Ok(ReloadWatch { hangup: signal(SignalKind::hangup())?, last: None, tried: None, is_signalled: false })
    }

    /// Runs until the gateway drains.
    pub(super) async fn run(mut self, reloading: Reloading) {
        let mut draining = std::pin::pin!(reloading.gateway.shutdown().draining());
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = &mut draining => return,
                _ = self.hangup.recv() => {
                    if !self.is_signalled {
                        self.signalled(&reloading).await;
                        looks.reset();
                    }
                }
                _ = looks.tick() => self.look(&reloading).await,
            }
        }
    }

    /// The first of the two looks that a signal takes: the file may be half-written now.
    async fn signalled(&mut self, reloading: &Reloading) {
        (self.is_signalled, self.last) = (true, None);
        self.look(reloading).await;
    }

    async fn look(&mut self, reloading: &Reloading) {
        let live = reloading.gateway.live();
        let Some((text, found)) = reloading.aside(move || find(&live)).await else { return };
        // A reload may have been asked for meanwhile.
        let in_force = SeenFiles::in_force(&reloading.gateway.live().config);
        let refused = reloading.gateway.refused_configuration();
        if self.is_signalled && self.last.as_ref() == Some(&found) {
            (self.is_signalled, self.tried) = (false, Some(found.files));
            // The log has its error.
            let _ = reloading.reload(ReloadOrder::Signalled(text)).await;
            return;
        }
        let result = found.compared(&in_force, self.last.as_ref(), self.tried.as_ref(), refused.as_ref());
        self.last = Some(found.clone());
        match result {
            LookResult::InForce if refused.is_some() => {
                reloading.gateway.refuse_configuration(None);
                tracing::info!("the files of the configuration are again those in force");
            }
            LookResult::Reload if !self.is_signalled => {
                self.tried = Some(found.files);
                let _ = reloading.reload(ReloadOrder::Settled(text)).await;
            }
            LookResult::InForce | LookResult::Wait | LookResult::Reload => {}
        }
    }
}

/// Looks at the files of the configuration in force. It waits for them.
fn find(live: &LiveConfig) -> (Option<ConfigText>, FilesLook) {
    let (config, limits) = (&live.config, FileLimits::regular(false));
    let (text, seen) = match config.text.map(|_| ConfigText::read(&config.source, limits)) {
        None => (None, SeenText::Unwatched),
        Some(Ok(text)) => {
            let seen = text.fingerprint().map_or(SeenText::Unwatched, SeenText::Read);
            (Some(text), seen)
        }
        Some(Err(error)) => (None, SeenText::Unread(error.to_string())),
    };
    let others = config.watched.keys().map(|path| (path.clone(), FileStamp::at(path, limits))).collect();
    let version = text.as_ref().and_then(ConfigText::version);
    (text, FilesLook { files: SeenFiles { text: seen, others }, version })
}

impl SeenFiles {
    /// What a look finds while nothing changes.
    fn in_force(config: &Config) -> SeenFiles {
        SeenFiles { text: config.text.map_or(SeenText::Unwatched, SeenText::Read), others: config.watched.clone() }
    }
}

impl FilesLook {
    /// `last`: the look before; `tried`: what a reload was tried with. `refused`: the configuration that was not taken, if there is one.
    fn compared(
        &self,
        in_force: &SeenFiles,
        last: Option<&FilesLook>,
        tried: Option<&SeenFiles>,
        refused: Option<&RefusedConfiguration>,
    ) -> LookResult {
        let files = &self.files;
        if files == in_force {
            return LookResult::InForce;
        }
        // A person asked for it and got the answer.
        let is_known = files.others == in_force.others
            && refused.and_then(|refused| refused.text).is_some_and(|text| files.text == SeenText::Read(text));
        match last == Some(self) && tried != Some(files) && !is_known {
            true => LookResult::Reload,
            false => LookResult::Wait,
        }
    }
}

#[cfg(test)]
mod tests;
