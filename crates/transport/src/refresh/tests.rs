//! Files as updates: what is taken, what needs consent, what is refused always, and that a refusal changes nothing. The
//! answers of servers are in `tests/gateway/cli/models_update.rs`.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use photofinish_config::{CataloguePlace, ConfigSource, load};

const BUILT_IN: &[u8] = include_bytes!("../../../../data/catalogue.json");
const IN_USE: (&str, &str) = ("groq", "openai/gpt-oss-120b");

/// A directory with a configuration that uses one upstream of Groq, and a store.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        place.configure("models.gpt-oss-120b.upstreams = [\"groq/openai/gpt-oss-120b\"]");
        place
    }

    fn configure(&self, models: &str) {
        let store = self.folder.path().join("history.db");
        let text =
            format!("store.url = \"sqlite:{}\"\n{models}\n[providers]\ngroq.api_key = \"planted\"", store.display());
        std::fs::write(self.folder.path().join("config.toml"), text).unwrap();
    }

    fn config(&self) -> Config {
        load(&ConfigSource::File(self.folder.path().join("config.toml"))).unwrap()
    }

    fn target(&self) -> PathBuf {
        self.folder.path().join("photofinish.catalogue.json")
    }

    fn update(&self, text: impl Into<Bytes>, accept: bool) -> Result<CatalogueUpdate, UpdateError> {
        settle(&self.config(), ReceivedFile::New { text: text.into(), memory: None }, accept)
    }

    /// Every file with its bytes.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter_map(|path| Some((path.clone(), std::fs::read(path).ok()?))).collect()
    }
}

/// The built-in catalogue at a later date, changed.
fn newer(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut catalogue: Value = serde_json::from_slice(BUILT_IN).unwrap();
    catalogue["date"] = json!(tomorrow());
    change(&mut catalogue);
    catalogue.to_string().into_bytes()
}

/// The cell of a column in the row of an upstream.
fn cell<'c>(catalogue: &'c mut Value, (provider, id): (&str, &str), column: &str) -> &'c mut Value {
    let place = catalogue["columns"].as_array().unwrap().iter().position(|name| name == column).unwrap();
    let rows = catalogue["rows"][provider].as_array_mut().unwrap();
    let row = rows.iter_mut().find(|row| row[0] == id).unwrap().as_array_mut().unwrap();
    row.resize(row.len().max(place + 1), Value::Null);
    &mut row[place]
}

fn times(catalogue: &mut Value, row: (&str, &str), factor: f64) {
    let price = cell(catalogue, row, "output");
    *price = json!(price.as_f64().unwrap() * factor);
}

/// Removes rows of the providers of most rows.
fn thin_out(catalogue: &mut Value, share: f64) {
    let rows = catalogue["rows"].as_object().unwrap().values().map(|rows| rows.as_array().unwrap().len());
    let mut left = (rows.sum::<usize>() as f64 * share) as usize;
    for provider in ["openrouter", "bedrock", "azure", "novita", "vertex", "alibaba"] {
        let rows = catalogue["rows"][provider].as_array_mut().unwrap();
        let gone = left.min(rows.len());
        rows.truncate(rows.len() - gone);
        left -= gone;
    }
    assert_eq!(left, 0, "the catalogue has that many rows");
}

#[test]
fn a_newer_catalogue_is_written_and_counts() {
    let place = Place::new();
    let text = newer(|catalogue| times(catalogue, IN_USE, 2.0));
    let update = place.update(text.clone(), false).unwrap();
    assert_eq!((update.outcome, update.date.as_str()), (UpdateOutcome::Written, tomorrow().as_str()));
    assert_eq!((update.change.moved.len(), update.change.gone.len(), update.objections.len()), (1, 0, 0));
    assert_eq!(std::fs::read(place.target()).unwrap(), text);
    assert_eq!(place.files().len(), 2, "no temporary file is left: {:?}", place.files().keys());
    let config = place.config();
    assert_eq!(
        (config.catalogue.date(), &config.catalogue_place),
        (tomorrow().as_str(), &CataloguePlace::File(place.target()))
    );
    assert_eq!(config.models["gpt-oss-120b"].upstreams[0].price.unwrap().output, 1.2);
    assert_eq!(place.update(text, false).unwrap().outcome, UpdateOutcome::Unchanged);
}

#[test]
fn a_file_of_another_program_stays() {
    let place = Place::new();
    let foreign = place.folder.path().join("catalogue.json");
    std::fs::write(&foreign, r#"{"my": "own catalogue of goods"}"#).unwrap();
    let config = place.config();
    assert!(config.warnings.iter().all(|warning| !warning.contains("catalogue.json")), "{:?}", config.warnings);
    assert_eq!(place.update(newer(|_| {}), true).unwrap().outcome, UpdateOutcome::Written);
    assert_eq!(std::fs::read(&foreign).unwrap(), br#"{"my": "own catalogue of goods"}"#);
}

#[test]
fn a_row_in_use_that_is_gone_is_named() {
    let place = Place::new();
    let text = newer(|catalogue| {
        let rows = catalogue["rows"]["groq"].as_array_mut().unwrap();
        rows.retain(|row| row[0] != IN_USE.1 && row[0] != "openai/gpt-oss-20b");
    });
    let update = place.update(text, false).unwrap();
    assert_eq!((update.outcome, update.change.gone.len()), (UpdateOutcome::Written, 2));
    assert_eq!(update.gone_in_use, ["groq/openai/gpt-oss-120b"]);
    assert_eq!(place.config().models["gpt-oss-120b"].upstreams[0].price, None);
}

#[cfg(unix)]
#[test]
fn the_mode_of_the_file_stays() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let mode = || std::fs::metadata(place.target()).unwrap().permissions().mode() & 0o777;
    place.update(newer(|_| {}), false).unwrap();
    assert_eq!(mode() & 0o133, 0, "{:o}", mode());
    std::fs::set_permissions(place.target(), std::fs::Permissions::from_mode(0o600)).unwrap();
    place.update(newer(|catalogue| times(catalogue, IN_USE, 1.5)), false).unwrap();
    assert_eq!(mode(), 0o600);
}

#[test]
fn a_bad_file_is_refused_even_with_consent_and_nothing_is_lost() {
    let place = Place::new();
    place.update(newer(|_| {}), false).unwrap();
    let before = place.files();
    let whole = newer(|_| {});
    let priced = |price: Value| newer(|catalogue| *cell(catalogue, IN_USE, "input") = price);
    let not_a_number = String::from_utf8(priced(json!("PRICE"))).unwrap().replace("\"PRICE\"", "NaN");
    for (text, why) in [
        (newer(|catalogue| catalogue["format"] = json!(2)), "a newer photofinish reads it"),
        (newer(|catalogue| catalogue["format"] = json!(0)), "`data/update` of this version makes it anew"),
        (whole[..whole.len() / 2].to_vec(), "it is no catalogue"),
        (b"\n<!doctype html><html>".to_vec(), "a page of HTML"),
        (b"not JSON".to_vec(), "it is no catalogue"),
        (Vec::new(), "it is no catalogue"),
        (not_a_number.into_bytes(), "it is no catalogue"),
        (priced(json!(-1)), "a row of groq is wrong: input of \"openai/gpt-oss-120b\""),
        (priced(json!("1")), "a row of groq is wrong: input of \"openai/gpt-oss-120b\""),
        (newer(|catalogue| catalogue["date"] = json!("soon")), "is no day"),
        (newer(|catalogue| catalogue["date"] = json!("2999-01-01")), "it is of 2999-01-01, a day to come"),
    ] {
        let error = place.update(text, true).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
        assert_eq!(place.files(), before);
    }
}

#[test]
fn a_file_older_than_the_built_in_one_is_refused_even_with_consent() {
    let place = Place::new();
    place.update(newer(|_| {}), false).unwrap();
    let before = place.files();
    let update = place.update(newer(|catalogue| catalogue["date"] = json!("2026-01-01")), true).unwrap();
    assert_eq!((update.outcome, update.date.as_str()), (UpdateOutcome::Older, "2026-01-01"));
    assert!(update.objections[0].contains("of 2026-01-01, older than the built-in catalogue of 20"), "{update:?}");
    assert_eq!(place.files(), before);
}

/// A socket cannot be opened at all, so the error shows that its type is looked at first. Opening a pipe would wait.
#[cfg(unix)]
#[tokio::test]
async fn what_is_no_file_is_not_opened() {
    let place = Place::new();
    let path = place.folder.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let client = UpstreamClient::new(photofinish_base::shutdown::Shutdown::new()).unwrap();
    let received =
        receive(&UpdateOrigin::File(path.clone()), &CatalogueSigner::Unsigned, &place.target(), &client, LIMITS).await;
    let error = received.err().unwrap().to_string();
    assert!(error.contains("it is no file"), "{error}");
    std::fs::rename(path, place.target()).unwrap();
    let error = place.update(newer(|_| {}), true).unwrap_err().to_string();
    assert!(error.contains("it is no file"), "{error}");
}

#[test]
fn a_read_only_file_stays() {
    let place = Place::new();
    place.update(newer(|_| {}), false).unwrap();
    let mut permissions = std::fs::metadata(place.target()).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(place.target(), permissions).unwrap();
    let before = place.files();
    let error = place.update(newer(|catalogue| times(catalogue, IN_USE, 1.5)), true).unwrap_err().to_string();
    assert!(error.contains("photofinish.catalogue.json: it is read-only"), "{error}");
    assert_eq!(place.files(), before);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_or_is_too_large_is_refused() {
    let place = Place::new();
    let path = |name: &str| place.folder.path().join(name);
    std::fs::write(path("large.json"), vec![b' '; CATALOGUE_MAX + 1]).unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    let client = UpstreamClient::new(photofinish_base::shutdown::Shutdown::new()).unwrap();
    for (name, why) in
        [("large.json", "larger than 16 MiB"), ("folder", "it is no file"), ("gone.json", "No such file")]
    {
        let received =
            receive(&UpdateOrigin::File(path(name)), &CatalogueSigner::Unsigned, &place.target(), &client, LIMITS)
                .await;
        let error = received.err().unwrap().to_string();
        assert!(error.contains(why) && error.contains(name), "{error}");
    }
}

#[test]
fn what_goes_far_needs_consent() {
    let drop_price = |catalogue: &mut Value| *cell(catalogue, IN_USE, "output") = Value::Null;
    let dear_tier = |catalogue: &mut Value| *cell(catalogue, IN_USE, "tiers") = json!([[1_000, 9, null, null, null]]);
    let cases: [(Vec<u8>, &str); 6] = [
        (newer(|catalogue| thin_out(catalogue, 0.25)), "rows would vanish, more than a fifth"),
        (newer(|catalogue| times(catalogue, IN_USE, 10.0)), "groq/openai/gpt-oss-120b output $0.6 → $6"),
        (newer(|catalogue| times(catalogue, IN_USE, 0.1)), "prices in use move more than threefold"),
        (newer(drop_price), "groq/openai/gpt-oss-120b output $0.6 → unknown"),
        (newer(dear_tier), "groq/openai/gpt-oss-120b input above 1000 $0.15 → $9"),
        (newer(|catalogue| catalogue["date"] = json!(today())), "older than the catalogue in use, of 20"),
    ];
    for (text, why) in cases {
        let place = Place::new();
        place.update(newer(|_| {}), false).unwrap();
        let before = place.files();
        let refused = place.update(text.clone(), false).unwrap();
        assert_eq!(refused.outcome, UpdateOutcome::Refused, "{why}");
        assert!(refused.objections.iter().any(|objection| objection.contains(why)), "{why}: {:?}", refused.objections);
        assert_eq!(place.files(), before);
        assert_eq!(place.update(text.clone(), true).unwrap().outcome, UpdateOutcome::Written);
        assert_eq!(std::fs::read(place.target()).unwrap(), text);
    }
}

#[test]
fn what_does_not_go_far_needs_none() {
    let retire = |catalogue: &mut Value| {
        *cell(catalogue, IN_USE, "status") = json!("retired");
        for price in ["input", "cached", "output"] {
            *cell(catalogue, IN_USE, price) = Value::Null;
        }
    };
    let elsewhere = ("cerebras", "gpt-oss-120b");
    for (text, models) in [
        (newer(|catalogue| thin_out(catalogue, 0.15)), ""),
        (newer(|catalogue| times(catalogue, IN_USE, 2.9)), ""),
        (newer(|catalogue| times(catalogue, elsewhere, 10.0)), ""),
        (newer(retire), ""),
        // The user's own price counts, whatever the catalogue says.
        (
            newer(|catalogue| times(catalogue, IN_USE, 10.0)),
            "models.m.upstreams = [{ upstream = \"groq/openai/gpt-oss-120b\", input_price = 1, output_price = 1 }]",
        ),
    ] {
        let place = Place::new();
        if !models.is_empty() {
            place.configure(models);
        }
        let update = place.update(text, false).unwrap();
        assert_eq!((update.outcome, update.objections), (UpdateOutcome::Written, Vec::<String>::new()));
    }
}

#[test]
fn a_catalogue_without_a_configured_model_needs_consent_and_stops_no_start() {
    let place = Place::new();
    place.configure("[models.gpt-oss-120b]");
    let text = newer(|catalogue| {
        for rows in catalogue["rows"].as_object_mut().unwrap().values_mut() {
            rows.as_array_mut().unwrap().retain(|row| row[1] != "gpt-oss-120b");
        }
    });
    let refused = place.update(text.clone(), false).unwrap();
    assert!(refused.objections[0].contains("it lacks models of the configuration: gpt-oss-120b"), "{refused:?}");
    assert_eq!(place.update(text, true).unwrap().outcome, UpdateOutcome::Written);
    let config = place.config();
    assert_eq!(config.catalogue_place, CataloguePlace::BuiltIn);
    let warning = config.warnings.iter().find(|warning| warning.contains("catalogue.json is not used")).unwrap();
    assert!(warning.contains("has no model of this name"), "{warning}");
    assert_eq!(config.models["gpt-oss-120b"].upstreams.len(), 1);
}

#[cfg(unix)]
#[test]
fn only_a_file_of_its_own_in_a_directory_that_is_there_is_replaced() {
    let place = Place::new();
    let error = || place.update(newer(|_| {}), true).unwrap_err().to_string();
    std::fs::write(place.folder.path().join("elsewhere"), "kept").unwrap();
    std::os::unix::fs::symlink(place.folder.path().join("elsewhere"), place.target()).unwrap();
    assert!(error().contains("symbolic link"), "{}", error());
    assert_eq!(std::fs::read(place.folder.path().join("elsewhere")).unwrap(), b"kept");
    std::fs::remove_file(place.target()).unwrap();
    std::fs::create_dir(place.target()).unwrap();
    assert!(error().contains("it is no file"), "{}", error());
    let missing = replace::replace(&place.folder.path().join("gone/catalogue.json"), b"x").unwrap_err().to_string();
    assert!(missing.contains("there is no directory"), "{missing}");
    assert!(!place.folder.path().join("gone").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_takes_no_files_is_an_error() {
    let error = replace::replace(Path::new("/proc/self/catalogue.json"), b"x").unwrap_err().to_string();
    assert!(error.contains("cannot write /proc/self/catalogue.json"), "{error}");
}
