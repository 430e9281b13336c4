//! Reads the configuration again while the gateway runs, and puts it in force or keeps the old one.
//!
//! It fails closed: a configuration that cannot be read, is invalid, or drops much of the one in force changes nothing until a person
//! says so. Not for when to look: see `reload_watch`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::config_changes;
use super::discovery::Discovery;
use super::simulated::Simulated;
use super::startup_log::{self, shortened};
use super::tokens::Tokens;
use crate::accounts::AccountKeeper;
use crate::server::ReloadCall;
use photofinish_base::files::FileLimits;
use photofinish_base::printable::quoted;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::{Config, ConfigText, Listen, load_text};
use photofinish_gateway::proxy::{Acceptance, Gateway, RefusedConfiguration};
use photofinish_history::store::Author;
use photofinish_routing::health::LiveConfig;

/// The parts that a reload changes, and the state that it cannot change.
#[derive(Clone)]
pub(super) struct Reloading {
    pub gateway: Arc<Gateway>,
    pub simulated: Simulated,
    pub tokens: Tokens,
    pub discovery: Discovery,
    pub accounts: Arc<AccountKeeper>,
    /// The addresses the gateway listens on, whatever `listen` says now.
    pub bound: Vec<Listen>,
    pub one_at_a_time: Arc<tokio::sync::Mutex<()>>,
}

/// Who wants a reload, and so what it may take.
pub(super) enum ReloadOrder {
    /// The watch, of the text that it found; none if it found another file changed.
    Settled(Option<ConfigText>),
    /// An administrator, and the fingerprint of the text whose losses they accept.
    Asked { accept: Option<String>, by: Author },
    /// SIGHUP, with the text that the watch found; none if it is not read again and again. It accepts the logged losses of this text, but
    /// never the loss of all users.
    Signalled(Option<ConfigText>),
    /// Whoever runs the gateway in their own process: whatever the file says now.
    Accepted,
}

impl ReloadOrder {
    fn limits(&self) -> FileLimits {
        FileLimits::regular(!matches!(self, ReloadOrder::Settled(_)))
    }

    /// For the audit. Who wrote the file is not known.
    fn author(&self) -> Author {
        let nobody = |origin: &str| Author { who: String::new(), origin: origin.to_owned() };
        match self {
            ReloadOrder::Asked { by, .. } => by.clone(),
            ReloadOrder::Signalled(_) => nobody("configuration file, on SIGHUP"),
            ReloadOrder::Settled(_) | ReloadOrder::Accepted => nobody("configuration file"),
        }
    }

    /// The text that was found.
    fn take_text(&mut self) -> Option<ConfigText> {
        match self {
            ReloadOrder::Settled(text) | ReloadOrder::Signalled(text) => text.take(),
            ReloadOrder::Asked { .. } | ReloadOrder::Accepted => None,
        }
    }
}

/// Why a reload changed nothing.
enum NotReloaded {
    Refused(RefusedConfiguration),
    /// The text is not the one that was accepted. What was said of the file stays valid.
    NotAccepted(String),
}

impl From<anyhow::Error> for NotReloaded {
    fn from(error: anyhow::Error) -> NotReloaded {
        NotReloaded::Refused(RefusedConfiguration {
            why: format!("{error:#}"),
            text: None,
            acceptance: Acceptance::Never,
        })
    }
}

impl Reloading {
    /// Reads the configuration again and puts it in force, or reports why not.
    ///
    /// # Errors
    /// For an operator, and already in the log.
    pub async fn reload(&self, order: ReloadOrder) -> Result<(), String> {
        let _one_at_a_time = self.one_at_a_time.lock().await;
        let why = match self.replace(order).await {
            Ok(()) => {
                self.gateway.refuse_configuration(None);
                tracing::info!("the new configuration is in force");
                return Ok(());
            }
            Err(NotReloaded::Refused(refused)) => {
                let why = refused.to_string();
                self.gateway.refuse_configuration(Some(refused));
                why
            }
            Err(NotReloaded::NotAccepted(why)) => why,
        };
        tracing::error!("the new configuration is not used, the old one stays in force:\n{why}");
        Err(why)
    }

    /// For a request to the server.
    pub fn call(&self) -> ReloadCall {
        let reloading = self.clone();
        Arc::new(move |accept, by| {
            let reloading = reloading.clone();
            Box::pin(async move { reloading.reload(ReloadOrder::Asked { accept, by }).await })
        })
    }

    /// Does work on files, which may wait for them. None: the gateway ends, and waits for no file.
    pub async fn aside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let working = Shutdown::new().run_blocking(work);
        tokio::select! {
            biased;
            () = self.gateway.shutdown().draining() => None,
            done = working => done.ok(),
        }
    }

    async fn replace(&self, mut order: ReloadOrder) -> Result<(), NotReloaded> {
        let before = self.gateway.live();
        let config = self.read(&before, order.take_text(), order.limits()).await?;
        self.check_listeners(&config)?;
        let by = order.author();
        match order {
            ReloadOrder::Asked { accept: Some(accept), .. } => check_accepted(&config, &accept)?,
            ReloadOrder::Signalled(_) if self.was_told(&config) => {}
            ReloadOrder::Accepted => {}
            _ => self.check_losses(before.as_read(), &config)?,
        }
        self.put_in_force(before, config, by).await.map_err(NotReloaded::from)
    }

    async fn read(
        &self,
        before: &LiveConfig,
        found: Option<ConfigText>,
        limits: FileLimits,
    ) -> Result<Config, NotReloaded> {
        let (source, listen) = (before.config.source.clone(), before.config.given_listen.clone());
        let reading = self.aside(move || {
            let text = match found {
                Some(text) => text,
                None => ConfigText::read(&source, limits).map_err(|error| (error, None))?,
            };
            load_text(&text, listen.as_ref(), limits).map_err(|error| (error, text.fingerprint()))
        });
        let ended =
            || NotReloaded::from(anyhow::anyhow!("it was not read to its end: the gateway ends, or the log says why"));
        reading.await.ok_or_else(ended)?.map_err(|(error, text)| {
            let why = error.to_string();
            NotReloaded::Refused(RefusedConfiguration { why, text, acceptance: Acceptance::Never })
        })
    }

    /// Whether a person could read what this configuration drops, and a signal may accept it.
    fn was_told(&self, config: &Config) -> bool {
        let refusal = self.gateway.refused_configuration();
        refusal
            .is_some_and(|refusal| refusal.acceptance == Acceptance::ByRequestOrSignal && refusal.text == config.text)
    }

    /// # Errors
    /// The new configuration drops much of the old one.
    fn check_losses(&self, before: &Config, config: &Config) -> Result<(), NotReloaded> {
        let losses = losses(before, config, &self.bound);
        if losses.is_empty() {
            return Ok(());
        }
        let why = format!("{}: {}", config.source, losses.join("; "));
        let acceptance = match config.users.is_empty() && !before.users.is_empty() {
            true => Acceptance::ByRequest,
            false => Acceptance::ByRequestOrSignal,
        };
        Err(NotReloaded::Refused(RefusedConfiguration { why, text: config.text, acceptance }))
    }

    /// # Errors
    /// A listener that others can reach would need no token. This cannot be accepted: a start refuses it too.
    fn check_listeners(&self, config: &Config) -> Result<(), NotReloaded> {
        let open = self.bound.iter().find(|listen| !listen.is_local() && config.users.is_empty());
        let Some(open) = open else { return Ok(()) };
        let why = format!(
            "the gateway listens on {open}, which others can reach, and the new configuration has no [users]: \
             restart the gateway if it is to listen elsewhere, or keep a user"
        );
        Err(NotReloaded::Refused(RefusedConfiguration { why, text: config.text, acceptance: Acceptance::Never }))
    }

    async fn put_in_force(&self, before: Arc<LiveConfig>, config: Config, by: Author) -> anyhow::Result<()> {
        let next = self.simulated.next(&config).await?;
        let restart = restart_needed(&before.config, &config);
        let live = self.discovery.applied(&LiveConfig::new(config, &next.addresses())?);
        self.tokens.hand_over(&live.config);
        startup_log::configuration(&live.config);
        for (what, _) in restart.iter().filter(|(_, changed)| *changed) {
            tracing::warn!("a new `{what}` takes effect only after a restart");
        }
        self.gateway.reload(live);
        self.tokens.keep(&self.gateway.live().config);
        next.put_in_force();
        self.gateway.client().keep_warm(self.gateway.live().warm());
        self.discovery.reloaded();
        let (accounts, live) = (self.accounts.clone(), self.gateway.live());
        // It waits for the database, and the reload does not.
        self.gateway.shutdown().run_blocking(move || {
            config_changes::enter(&accounts, Some(before.as_read()), live.as_read(), &by);
        });
        Ok(())
    }
}

/// # Errors
/// Another text was accepted.
fn check_accepted(config: &Config, accept: &str) -> Result<(), NotReloaded> {
    let print = config.text.map_or_else(|| "none".to_owned(), |text| text.to_string());
    if accept == print {
        return Ok(());
    }
    Err(NotReloaded::NotAccepted(format!(
        "the text with the fingerprint {} was accepted, and the file has {print} now: see what it says, and accept that",
        quoted(accept)
    )))
}

fn restart_needed(before: &Config, after: &Config) -> [(&'static str, bool); 4] {
    [
        ("server.listen", before.server.listen != after.server.listen),
        // A different certificate needs no restart.
        ("server.tls", before.server.tls.is_some() != after.server.tls.is_some()),
        ("server.log", before.server.log != after.server.log),
        ("store.url", before.store.address != after.store.address),
    ]
}

/// What `after` drops so much of that a person has to accept it, as sentences; none if it may be taken at once. `bound`: where the gateway
/// listens.
///
/// A configuration with as many users or models as before drops none: they were renamed or replaced.
pub(super) fn losses(before: &Config, after: &Config, bound: &[Listen]) -> Vec<String> {
    let mut losses = Vec::new();
    let has_content = !before.users.is_empty() || !before.models.is_empty();
    let is_blank = |config: &Config| config.text.is_some_and(|text| text.is_blank);
    if is_blank(after) && !is_blank(before) && has_content {
        losses.push("the file is empty".to_owned());
    }
    losses.extend(lost_users(before, after, bound));
    losses.extend(lost_models(before, after));
    if losses.is_empty() && !is_blank(after) {
        losses.extend(after.written.is_cut_from(&before.written));
    }
    losses
}

fn lost_users(before: &Config, after: &Config, bound: &[Listen]) -> Option<String> {
    let names: Vec<&str> = before.users.iter().map(|user| user.name.as_str()).collect();
    let stay: BTreeSet<&str> = after.users.iter().map(|user| user.name.as_str()).collect();
    let lost = lost("users", &names, after.users.len(), |name| stay.contains(name))?;
    if !after.users.is_empty() {
        return Some(lost);
    }
    let listeners: Vec<String> = bound.iter().map(Listen::to_string).collect();
    Some(format!("{lost}: whoever reaches {} would need no token", listeners.join(", ")))
}

fn lost_models(before: &Config, after: &Config) -> Option<String> {
    let names: Vec<&str> = before.models.keys().map(String::as_str).collect();
    match (before.serves_catalogue, after.serves_catalogue) {
        // The first models of its own.
        (true, false) => None,
        (false, true) => {
            let all = lost("models", &names, 0, |_| false)?;
            Some(format!("{all}: without [models] those of the catalogue would be served"))
        }
        // An app may still ask for a model that is an alias now.
        _ => lost("models", &names, after.models.len(), |name| after.model(name).is_some()),
    }
}

/// The sentence, if all or more than half are gone and fewer are left.
fn lost(what: &str, before: &[&str], after: usize, stays: impl Fn(&str) -> bool) -> Option<String> {
    let gone: Vec<&str> = before.iter().copied().filter(|name| !stays(name)).collect();
    let (count, all) = (gone.len(), before.len());
    let is_loss = after < all && count * 2 > all;
    is_loss.then(|| format!("{count} of {all} {what} are gone ({})", shortened(&gone)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;

    const SIM: &str = "[providers.sim]\nsimulate = {}\n";

    fn config(text: &str) -> Config {
        let env = |name: &str| (name == "GROQ_API_KEY" && text.contains("# keyed")).then(|| "planted".to_owned());
        parse(text, Path::new("config.toml"), &env).unwrap()
    }

    fn with(users: &[&str], models: &[&str]) -> String {
        let user = |name: &&str| format!("[users.{name}]\ntoken = \"token-of-{name}\"\n");
        let model = |name: &&str| format!("[models.{name}]\nupstreams = [\"sim/m\"]\n");
        let [users, models]: [String; 2] = [users.iter().map(user).collect(), models.iter().map(model).collect()];
        format!("{SIM}{models}{users}")
    }

    fn refusal(before: &str, after: &str) -> String {
        let bound = ["127.0.0.1:1", "10.0.0.1:2", "unix:/run/gateway"].map(|text| Listen::parse(text).unwrap());
        losses(&config(before), &config(after), &bound).join("; ")
    }

    #[test]
    fn all_or_more_than_half_of_the_users_or_models_are_a_loss() {
        let before = with(&["a", "b", "c"], &["k", "l", "m", "n"]);
        for (after, expected) in [
            (before.clone(), ""),
            (with(&["b", "c"], &["k", "l"]), ""),
            (with(&["x", "y", "z"], &["r", "s", "t", "u"]), ""),
            (with(&["a"], &["k", "l", "m", "n"]), "2 of 3 users are gone (b, c)"),
            (with(&["x"], &["k", "l", "m", "n"]), "3 of 3 users are gone (a, b, c)"),
            (with(&["a", "b", "c"], &["k"]), "3 of 4 models are gone (l, m, n)"),
            (with(&["a", "b", "c"], &["x", "y", "z"]), "4 of 4 models are gone (k, l, m, n)"),
        ] {
            assert_eq!(refusal(&before, &after), expected, "{after}");
        }
        assert_eq!(refusal(&with(&["a"], &["m"]), &with(&["b"], &["n"])), "", "renamed");
        let alias = format!("{SIM}[models.big]\nupstreams = [\"sim/m\"]\naliases = [\"k\", \"l\", \"m\"]\n");
        assert_eq!(refusal(&with(&[], &["k", "l", "m"]), &alias), "", "apps still find them");
    }

    #[test]
    fn a_configuration_without_users_opens_every_listener() {
        let expected =
            "1 of 1 users are gone (a): whoever reaches 127.0.0.1:1, 10.0.0.1:2, unix:/run/gateway would need no token";
        assert_eq!(refusal(&with(&["a"], &["m"]), &with(&[], &["m"])), expected);
        assert_eq!(refusal(&with(&[], &["m"]), &with(&["a"], &["m"])), "");
    }

    #[test]
    fn an_emptied_file_is_a_loss() {
        let blank = "# nothing\n\n";
        assert_eq!(
            refusal(&with(&[], &["m"]), blank),
            "the file is empty; 1 of 1 models are gone (m): without [models] those of the catalogue would be served"
        );
        assert!(refusal(&with(&["a"], &[]), "").starts_with("the file is empty; 1 of 1 users are gone"));
        assert_eq!(refusal("# one", "# another"), "");
        assert_eq!(refusal("[race]\nretries = 1", ""), "", "it had neither users nor models");
    }

    #[test]
    fn models_of_the_catalogue_count_as_those_of_tables_do() {
        let (keyed, own) = ("# keyed\n[race]\nretries = 1", with(&[], &["m"]));
        assert!(config(keyed).models.len() > 1);
        assert_eq!(refusal(keyed, &own), "", "the first models of its own");
        assert!(refusal(&own, keyed).starts_with("1 of 1 models are gone (m): without [models]"));
        assert!(refusal(keyed, "[race]\nretries = 1").contains(" models are gone ("));
        assert_eq!(refusal(keyed, "# keyed\n"), "the file is empty");
    }
    /// Users, models, limits and budgets.
    fn held(config: &Config) -> String {
        let users: Vec<_> = config.users.iter().map(|user| (&user.name, &user.limits, &user.team)).collect();
        format!("{users:?} {:?} {:?} {:?}", config.models.keys(), config.limits, config.teams)
    }

    #[test]
    fn no_cut_of_a_file_loses_a_user_a_model_or_a_limit_without_a_word() {
        let users = "[users.ann]\ntoken = \"token-of-ann\"\nrole = \"admin\"\n\n# The last.\n[users.bob]\ntoken = \"token-of-bob\"\n\
                     team = \"red\"\nmodels = [\"m\", \"sim/*\"]\nbudget.day = 1000\nrpm = 6000";
        let limits = "[limits]\ntpm = 100000\nstreams = 50\n[teams.red]\nbudget.month = 2000\nrpm = 600\n";
        let models = with(&[], &["k", "l", "m", "n"]);
        for whole in [format!("{models}{limits}{users}"), format!("{users}\n{limits}{models}")] {
            let before = config(&whole);
            // The file is written as it was, or with a change at its begin and another one in the middle.
            for written in [
                whole.clone(),
                format!("# New.\nrace.retries = 1\n{}", whole.replace("[models.l]", "[models.l]\naliases = [\"x\"]")),
            ] {
                let mut taken = 0;
                for end in 0..=written.len() {
                    let cut = written.get(..end).unwrap();
                    let Ok(after) = parse(cut, Path::new("config.toml"), &|_| None) else { continue };
                    if losses(&before, &after, &[]).is_empty() {
                        taken += 1;
                        assert_eq!(held(&after), held(&before), "cut at {end}:\n{cut}");
                    }
                }
                assert!((1..5).contains(&taken), "{taken} cuts are whole");
            }
        }
    }
}
