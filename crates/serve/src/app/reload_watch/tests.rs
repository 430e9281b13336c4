//! Looks at real files, one at a time and without a clock, and what the gateway makes of them.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::app::App;
use photofinish_config::{ConfigSource, load};
use photofinish_gateway::proxy::Acceptance;
use photofinish_history::store::Author;

const MODELS: &str =
    "[providers.sim]\nsimulate = {}\n[models.a]\nupstreams = [\"sim/m\"]\n[models.b]\nupstreams = [\"sim/m\"]\n";
const USERS: &str = "[users.ann]\ntoken = \"token-of-ann\"\nrole = \"admin\"\n";

/// A gateway and the file that it was started with.
struct Watched {
    folder: TempDir,
    app: App,
    watch: ReloadWatch,
}

impl Watched {
    async fn start(text: &str) -> Watched {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), text);
        let config = load(&ConfigSource::File(folder.path().join("config.toml"))).unwrap();
        Watched { folder, app: App::start(config).await.unwrap(), watch: ReloadWatch::new().unwrap() }
    }

    fn write(&self, text: &str) {
        write(self.folder.path(), text);
    }

    async fn look(&mut self) {
        self.watch.look(&self.app.reloading).await;
    }

    /// The users, the models and the policy of the first model in force.
    fn in_force(&self) -> (usize, usize, &'static str) {
        let live = self.app.gateway().live();
        let policy = live.config.models.values().next().map_or("none", |model| model.race.policy.as_str());
        (live.config.users.len(), live.config.models.len(), policy)
    }

    fn refused(&self) -> String {
        self.app.gateway().refused_configuration().map(|refused| refused.to_string()).unwrap_or_default()
    }
}

/// Replaces the part behind the listener and the store.
fn write(folder: &Path, text: &str) {
    let store = folder.join("history.db");
    let before = format!("server.listen = \"127.0.0.1:0\"\nstore.url = \"sqlite:{}\"\n", store.display());
    fs::write(folder.join("config.toml"), before + text).unwrap();
}

#[tokio::test]
async fn a_file_that_is_being_written_is_not_taken() {
    let (cut, whole) =
        (format!("{MODELS}[race]\nretries = 1\n"), format!("{MODELS}[race]\nretries = 1\npolicy = \"fallback\"\n"));
    let mut watched = Watched::start(&whole).await;
    for text in [&cut[..MODELS.len()], &cut, &whole.replace("fallback", "adaptive"), &whole] {
        watched.write(text);
        watched.look().await;
        assert_eq!(watched.in_force(), (0, 2, "fallback"), "{text}");
    }
    watched.write(&whole.replace("fallback", "adaptive"));
    watched.look().await;
    assert_eq!(watched.in_force(), (0, 2, "fallback"), "one look");
    watched.look().await;
    assert_eq!(watched.in_force(), (0, 2, "adaptive"), "two looks that are equal");
    assert_eq!(watched.refused(), "");
}

#[tokio::test]
async fn what_drops_much_waits_for_a_person_and_goes_when_the_file_is_back() {
    let whole = format!("{MODELS}{USERS}");
    let mut watched = Watched::start(&whole).await;
    for (text, why) in
        [(MODELS, "1 of 1 users are gone (ann)"), ("", "2 of 2 models are gone (a, b)"), ("[", "not TOML")]
    {
        watched.write(text);
        watched.look().await;
        assert_eq!(watched.refused(), "", "it may still change");
        watched.look().await;
        assert!(watched.refused().contains(why), "{text}: {}", watched.refused());
        assert_eq!(watched.in_force(), (1, 2, "adaptive"));
        watched.write(&whole);
        watched.look().await;
        assert_eq!(watched.refused(), "", "the file is again the one in force");
    }
    watched.write(MODELS);
    watched.look().await;
    watched.look().await;
    let reloading = watched.app.reloading.clone();
    let asked = async |accept: Option<&str>| {
        let by = Author { who: "root".to_owned(), origin: "127.0.0.1".to_owned() };
        reloading
            .reload(ReloadOrder::Asked { accept: accept.map(str::to_owned), by })
            .await
            .map_or_else(|why| why, |()| String::new())
    };
    let refused = watched.refused();
    assert_eq!(asked(None).await, refused);
    let (_, print) = refused.split_once("POST /api/reload?accept=").unwrap();
    let print = &print[..12];
    let other = asked(Some("0123456789ab")).await;
    assert!(other.contains("\"0123456789ab\"") && other.contains(print), "{other}");
    assert!(watched.refused() == refused && watched.in_force().0 == 1, "what was reported stays");
    assert_eq!(asked(Some(print)).await, "");
    assert_eq!((watched.refused().as_str(), watched.in_force()), ("", (0, 2, "adaptive")));
    watched.look().await;
    assert_eq!(watched.refused(), "");
}

#[tokio::test]
async fn a_signal_waits_for_the_file_and_accepts_what_was_told_but_never_an_open_door() {
    let whole = format!("{USERS}{MODELS}");
    let mut watched = Watched::start(&whole).await;
    let signal = async |watched: &mut Watched| {
        let reloading = watched.app.reloading.clone();
        watched.watch.signalled(&reloading).await;
    };
    // The file is being written when the signal comes.
    watched.write(MODELS);
    watched.look().await;
    signal(&mut watched).await;
    watched.write(&whole.replace("token-of-ann", "other-of-ann"));
    watched.look().await;
    assert_eq!((watched.in_force(), watched.refused().as_str()), ((1, 2, "adaptive"), ""));
    watched.look().await;
    assert!(!watched.watch.is_signalled && watched.refused().is_empty());

    watched.write(MODELS);
    for _ in 0..3 {
        signal(&mut watched).await;
        watched.look().await;
        assert_eq!(watched.in_force(), (1, 2, "adaptive"));
        assert!(watched.refused().contains("1 of 1 users are gone") && !watched.refused().contains("SIGHUP"));
    }
    let one = "[providers.sim]\nsimulate = {}\n[models.a]\nupstreams = [\"sim/m\"]\n";
    watched.write(&format!("{USERS}{one}"));
    for (signals, models) in [(1, 2), (2, 1)] {
        signal(&mut watched).await;
        watched.look().await;
        assert_eq!(watched.in_force(), (1, models, "adaptive"), "{signals}: {}", watched.refused());
    }
    assert_eq!(watched.refused(), "");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_told() {
    let mut watched = Watched::start(MODELS).await;
    let path = watched.folder.path().join("config.toml");
    let away = watched.folder.path().join("away.toml");
    fs::rename(&path, &away).unwrap();
    watched.look().await;
    watched.look().await;
    assert!(
        watched.refused().contains("cannot read") && watched.refused().contains("No such file"),
        "{}",
        watched.refused()
    );
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    watched.look().await;
    watched.look().await;
    assert!(watched.refused().contains("it is no file"), "{}", watched.refused());
    fs::rename(&away, &path).unwrap();
    watched.look().await;
    assert_eq!((watched.refused().as_str(), watched.in_force()), ("", (0, 2, "adaptive")));
}

#[tokio::test]
async fn a_changed_certificate_is_noticed_and_one_that_is_a_pipe_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let certified = |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let path = |name: &str| folder.path().join(name);
    let put = |(certificate, key): &(String, String)| {
        fs::write(path("cert.pem"), certificate).unwrap();
        fs::write(path("key.pem"), key).unwrap();
    };
    put(&certified("one"));
    let tls = format!(
        "server.tls = {{ cert = \"{}\", key = \"{}\" }}\n",
        path("cert.pem").display(),
        path("key.pem").display()
    );
    let mut watched = Watched::start(&format!("{tls}{MODELS}")).await;
    let server = |watched: &Watched| watched.app.gateway().live().config.server.tls.as_ref().unwrap().server.clone();
    let first = server(&watched);
    watched.look().await;
    watched.look().await;
    assert!(std::sync::Arc::ptr_eq(&server(&watched), &first), "nothing has changed");
    put(&certified("a-longer-name"));
    watched.look().await;
    watched.look().await;
    let second = server(&watched);
    assert!(!std::sync::Arc::ptr_eq(&second, &first));
    for name in ["cert.pem", "key.pem"] {
        fs::rename(path(name), path("kept")).unwrap();
        assert!(Command::new("mkfifo").arg(path(name)).status().unwrap().success());
        watched.look().await;
        watched.look().await;
        let refused = watched.refused();
        assert!(refused.contains(name) && refused.contains("it is no file"), "{name}: {refused}");
        fs::rename(path("kept"), path(name)).unwrap();
        watched.look().await;
        assert_eq!(watched.refused(), "");
    }
    assert!(std::sync::Arc::ptr_eq(&server(&watched), &second));
}

#[test]
fn two_equal_looks_that_differ_from_what_is_in_force_ask_for_a_reload_once() {
    let seen = |text: &str| SeenFiles {
        text: match text {
            "none" => SeenText::Unwatched,
            "away" => SeenText::Unread("away".to_owned()),
            text => SeenText::Read(photofinish_config::parse(text, Path::new("x"), &|_| None).unwrap().text.unwrap()),
        },
        others: BTreeMap::new(),
    };
    let look = |text: &str, seconds: u64| {
        let changed = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
        FilesLook { files: seen(text), version: Some(FileStamp { changed, bytes: 1 }) }
    };
    let (old, new) = ("race.retries = 1", "race.retries = 2");
    let refused = |text: &str| match seen(text).text {
        SeenText::Read(text) => {
            Some(RefusedConfiguration { why: String::new(), text: Some(text), acceptance: Acceptance::Never })
        }
        _ => None,
    };
    for (found, last, tried, refused, expected) in [
        (old, Some((old, 1)), None, None, LookResult::InForce),
        (old, Some((new, 1)), Some(new), refused(new), LookResult::InForce),
        (new, None, None, None, LookResult::Wait),
        (new, Some((old, 1)), None, None, LookResult::Wait),
        (new, Some((new, 1)), None, None, LookResult::Reload),
        // Written anew between the two looks.
        (new, Some((new, 0)), None, None, LookResult::Wait),
        (new, Some((new, 1)), Some(new), None, LookResult::Wait),
        (new, Some((new, 1)), None, refused(new), LookResult::Wait),
        (new, Some((new, 1)), Some("away"), refused(old), LookResult::Reload),
        ("away", Some(("away", 1)), None, None, LookResult::Reload),
        ("away", Some(("away", 1)), Some("away"), None, LookResult::Wait),
    ] {
        let before = last.map(|(text, seconds)| look(text, seconds));
        let result = look(found, 1).compared(&seen(old), before.as_ref(), tried.map(seen).as_ref(), refused.as_ref());
        assert_eq!(result, expected, "{found} after {last:?}, tried {tried:?}");
    }
    assert_eq!(look("none", 1).compared(&seen("none"), None, None, None), LookResult::InForce);
}
