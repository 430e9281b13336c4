//! Reads a catalogue, and finds offerings in it by upstream and by model. Not for choosing between hosts: see `config::hosts`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

use flate2::read::GzDecoder;
use jiff::civil::Date;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::offering::{Offering, Row, bits, is_plain};
use photofinish_wire::quirks::ModelRules;

/// The form of `catalogue.json` that this program reads.
const FORMAT: u32 = 1;
/// Characters that a message shows of a wrong date or name.
const TEXT_SHOWN: usize = 64;

/// Every offering of one version of the catalogue.
#[derive(Debug, Default)]
pub struct ModelCatalogue {
    /// The day of its facts: `2026-11-22`.
    date: String,
    /// By provider and id.
    offerings: HashMap<String, HashMap<String, Arc<Offering>>>,
    /// The hosts of each model, by its name.
    models: BTreeMap<String, CataloguedModel>,
    /// From another name of a model to its name.
    aliases: BTreeMap<String, String>,
    rules: ModelRules,
}

/// A model that one or more providers host.
#[derive(Debug, Default)]
pub struct CataloguedModel {
    pub hosts: Vec<Arc<Offering>>,
    /// Faster, smaller or quantised variants of it, which have names of their own.
    pub variants: Vec<Arc<Offering>>,
    /// Anyone can download its weights.
    pub is_open: bool,
    /// Bits of each weight as released, if known.
    pub released_bits: Option<u8>,
}

/// Why a text is no catalogue.
#[derive(Debug)]
pub enum CatalogueError {
    /// It has another form, written by another version.
    Format(u32),
    Invalid(serde_json::Error),
    /// Its date is no day.
    Date(String),
    /// A row of this provider is wrong, and why.
    Row(String, String),
    /// A name of a model or of a provider is too long or has control characters.
    Name(String),
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CatalogueError::Format(found) if *found > FORMAT => {
                write!(f, "it has the format {found}, and this version reads {FORMAT}: a newer photofinish reads it")
            }
            CatalogueError::Format(found) => {
                write!(
                    f,
                    "it has the format {found}, and this version reads {FORMAT}: `data/update` of this version makes it anew"
                )
            }
            CatalogueError::Invalid(error) => write!(f, "it is no catalogue: {error}"),
            CatalogueError::Date(date) => write!(f, "its date {date:?} is no day such as \"2026-11-22\""),
            CatalogueError::Row(provider, why) => write!(f, "a row of {provider} is wrong: {why}"),
            CatalogueError::Name(name) => write!(f, "the name {name:?} is too long or has control characters"),
        }
    }
}

impl std::error::Error for CatalogueError {}

#[derive(Deserialize)]
struct CatalogueFormat {
    format: u32,
}

#[derive(Deserialize)]
struct CatalogueDate {
    date: String,
}

#[derive(Deserialize)]
struct CatalogueText<'t> {
    format: u32,
    date: String,
    /// By the letter that rows name them with.
    sources: BTreeMap<String, CatalogueSource>,
    /// The names of the places in a row.
    columns: Vec<String>,
    models: Vec<NamedModel>,
    /// An older file has none.
    #[serde(default)]
    rules: ModelRules,
    /// By provider. Read one by one, because all values together take more memory than what is kept.
    #[serde(borrow)]
    rows: BTreeMap<String, &'t RawValue>,
}

#[derive(Deserialize)]
struct CatalogueSource {
    /// The day of its facts.
    date: String,
}

/// What is known of a model at every host.
#[derive(Deserialize)]
struct NamedModel {
    name: String,
    #[serde(default)]
    open: bool,
    /// The precision in which its weights were released.
    precision: Option<String>,
    /// Other names.
    #[serde(default)]
    also: Vec<String>,
    /// The model that this is a variant of.
    of: Option<String>,
}

/// Other names of models.
#[derive(Default)]
struct AliasTable {
    /// None: two models have this name, so it names neither.
    aliases: BTreeMap<String, Option<String>>,
}

impl AliasTable {
    /// A name with a slash is an upstream's.
    fn add(&mut self, alias: &str, name: &str) {
        if alias.contains('/') {
            return;
        }
        let known = self.aliases.entry(alias.to_owned()).or_insert_with(|| Some(name.to_owned()));
        if known.as_deref() != Some(name) {
            *known = None;
        }
    }
}

static BUILT_IN: LazyLock<Arc<ModelCatalogue>> =
    LazyLock::new(|| Arc::new(ModelCatalogue::read(&built_in_text()).unwrap_or_default()));

static BUILT_IN_DATE: LazyLock<String> =
    LazyLock::new(|| serde_json::from_slice(&built_in_text()).map(|CatalogueDate { date }| date).unwrap_or_default());

/// `catalogue.json`, which the build compressed.
fn built_in_text() -> Vec<u8> {
    const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/catalogue.json.gz"));
    let mut text = Vec::new();
    GzDecoder::new(PACKED).read_to_end(&mut text).map_or_else(|_| Vec::new(), |_| text)
}

impl ModelCatalogue {
    /// The catalogue in the program. A test reads it, so it is never empty.
    pub fn built_in() -> &'static Arc<ModelCatalogue> {
        &BUILT_IN
    }

    /// The day of the catalogue in the program, without keeping its rows in memory.
    pub fn built_in_date() -> &'static str {
        &BUILT_IN_DATE
    }

    /// # Errors
    /// The text is no catalogue, or one of another format.
    pub fn read(text: &[u8]) -> Result<ModelCatalogue, CatalogueError> {
        let CatalogueText { date, sources, columns, models: named, rules, rows, .. } =
            match serde_json::from_slice(text).map_err(CatalogueError::Invalid) {
                Ok(CatalogueText { format, .. }) if format != FORMAT => return Err(CatalogueError::Format(format)),
                Ok(read) => read,
                // Another format may have other members.
                Err(invalid) => {
                    let format = serde_json::from_slice(text).map(|CatalogueFormat { format }| format);
                    return Err(format.ok().filter(|format| *format != FORMAT).map_or(invalid, CatalogueError::Format));
                }
            };
        check(&date, rows.keys(), &named)?;
        let newest = |letters: &str| {
            let dates = sources.iter().filter(|(letter, _)| letters.contains(letter.as_str()));
            dates.map(|(_, source)| source.date.clone()).max()
        };
        let (mut offerings, mut models) = (HashMap::new(), BTreeMap::<String, CataloguedModel>::new());
        let mut names = AliasTable::default();
        for (provider, rows) in rows {
            let rows: Vec<Vec<&RawValue>> = serde_json::from_str(rows.get()).map_err(CatalogueError::Invalid)?;
            let mut of_provider = HashMap::with_capacity(rows.len());
            for values in &rows {
                let row = Row { columns: &columns, values };
                let wrong = |why| CatalogueError::Row(provider.clone(), why);
                let mut offering = row.offering(&provider).map_err(wrong)?;
                offering.date = offering.date.or_else(|| newest(&offering.source));
                let offering = Arc::new(offering);
                if let Some(model) = &offering.model {
                    models.entry(model.clone()).or_default().hosts.push(offering.clone());
                    // Who serves it, and where, is a part of what such a name asks for.
                    if !offering.names_its_host() {
                        names.add(&offering.id, model);
                    }
                }
                of_provider.insert(offering.id.clone(), offering);
            }
            offerings.insert(provider, of_provider);
        }
        for NamedModel { name, open, precision, also, of } in named {
            let Some(model) = models.get_mut(&name) else { continue };
            (model.is_open, model.released_bits) = (open, precision.as_deref().and_then(bits));
            also.iter().for_each(|alias| names.add(alias, &name));
            let variants = model.hosts.clone();
            if let Some(model) = of.and_then(|of| models.get_mut(&of)) {
                model.variants.extend(variants);
            }
        }
        // A name of a model is no alias of another.
        let aliases = names.aliases.into_iter().filter(|(alias, _)| !models.contains_key(alias));
        let aliases = aliases.filter_map(|(alias, name)| Some((alias, name?))).collect();
        Ok(ModelCatalogue { date, offerings, models, aliases, rules })
    }

    pub fn date(&self) -> &str {
        &self.date
    }

    /// What models demand of requests.
    pub fn rules(&self) -> &ModelRules {
        if self.rules.is_empty() { &BUILT_IN.rules } else { &self.rules }
    }

    /// What the provider says of this id, or of the id without the date of a snapshot: a new snapshot costs what its model does.
    pub fn offering_or_undated(&self, provider: &str, id: &str) -> Option<&Arc<Offering>> {
        self.offering(provider, id).or_else(|| self.offering(provider, undated(id)?))
    }

    /// What the provider offers, in no order.
    pub fn of_provider(&self, provider: &str) -> impl Iterator<Item = &Arc<Offering>> {
        self.offerings.get(provider).into_iter().flat_map(HashMap::values)
    }

    /// The name of the model that a dated name is a snapshot of, such as an answer's. None: the name has no date, or the
    /// catalogue has no such model.
    pub fn undated_model<'n>(&self, name: &'n str) -> Option<&'n str> {
        undated(name).filter(|name| self.model(name).is_some())
    }

    /// What the provider says of this very id.
    pub fn offering(&self, provider: &str, id: &str) -> Option<&Arc<Offering>> {
        self.offerings.get(provider)?.get(id)
    }

    /// The model that hosts share under this name, or under one of its other names.
    pub fn model(&self, name: &str) -> Option<&CataloguedModel> {
        self.models.get(name).or_else(|| self.models.get(self.aliases.get(name)?))
    }

    /// The name of the model that has this name or alias, or that hosts offer under this id. None: there is none, or hosts differ.
    pub fn identity(&self, id: &str) -> Option<&str> {
        if let Some((name, _)) = self.models.get_key_value(id) {
            return Some(name);
        }
        if let Some(name) = self.aliases.get(id) {
            return Some(name);
        }
        let mut names = self.offerings.values().filter_map(|offerings| offerings.get(id)?.model.as_deref());
        let name = names.next()?;
        names.all(|other| other == name).then_some(name)
    }

    /// Other names of models, and the names of those.
    pub fn aliases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.aliases.iter().map(|(alias, name)| (alias.as_str(), name.as_str()))
    }

    /// Every model, by name.
    pub fn models(&self) -> impl Iterator<Item = (&str, &CataloguedModel)> {
        self.models.iter().map(|(name, model)| (name.as_str(), model))
    }

    /// Every offering, by provider and id, in no order.
    pub fn offerings(&self) -> impl Iterator<Item = &Arc<Offering>> {
        self.offerings.values().flat_map(HashMap::values)
    }

    /// How many offerings there are.
    pub fn len(&self) -> usize {
        self.offerings.values().map(HashMap::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.offerings.is_empty()
    }
}

/// Checks what is outside of the rows: the program compares the date and prints the names.
fn check<'p>(
    date: &str,
    mut providers: impl Iterator<Item = &'p String>,
    named: &[NamedModel],
) -> Result<(), CatalogueError> {
    if date.parse::<Date>().is_err() || date.len() != "2026-11-22".len() {
        return Err(CatalogueError::Date(date.chars().take(TEXT_SHOWN).collect()));
    }
    let mut names = named.iter().flat_map(|model| model.also.iter().chain([&model.name]));
    match providers.find(|name| !is_plain(name)).or_else(|| names.find(|name| !is_plain(name))) {
        Some(name) => Err(CatalogueError::Name(name.chars().take(TEXT_SHOWN).collect())),
        None => Ok(()),
    }
}

/// A number of eight digits at the end of a name is a date in one of these years.
const YEARS: RangeInclusive<i16> = 2020..=2100;

/// The name without its date: `gpt-5.5-2026-04-23`, `claude-opus-4-5-20251101` or `…@20251101`. None: it has none.
pub(crate) fn undated(name: &str) -> Option<&str> {
    for (length, form) in [("2026-04-23".len(), "%Y-%m-%d"), ("20260423".len(), "%Y%m%d")] {
        let start = name.len().saturating_sub(length);
        let Some((base, date)) = name.split_at_checked(start) else { continue };
        let is_date = Date::strptime(form, date).is_ok_and(|date| YEARS.contains(&date.year()));
        if let Some(base) = base.strip_suffix(['-', '@']).filter(|base| is_date && !base.is_empty()) {
            return Some(base);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offerings::{InputKind, OfferingStatus};
    use photofinish_wire::Dialect;
    use photofinish_wire::quirks::ThinkingForm;
    use serde_json::Value;

    const COLUMNS: &str =
        r#""columns":["id","model","input","output","context","kinds","abilities","status","tiers","source"]"#;

    fn read(models: &str, rows: &str) -> Result<ModelCatalogue, CatalogueError> {
        let text = format!(
            r#"{{"format":1,"date":"2026-11-22","sources":{{"m":{{"date":"2026-07-02"}},"l":{{"date":"2026-11-15"}}}},{COLUMNS},"models":{models},"rows":{rows}}}"#
        );
        ModelCatalogue::read(text.as_bytes())
    }

    #[test]
    fn the_built_in_catalogue_is_read() {
        let text = include_bytes!("../../data/catalogue.json");
        let catalogue = ModelCatalogue::read(text).unwrap();
        assert!(catalogue.len() > 1_000 && catalogue.models().count() > 300, "{}", catalogue.len());
        assert!(text.len() <= 200_000, "{} bytes are in the program", text.len());
        let open = catalogue.model("gpt-oss-120b").unwrap();
        assert!(open.is_open && open.hosts.len() >= 5);
        assert_eq!(ModelCatalogue::built_in().date(), catalogue.date());
        assert_eq!(ModelCatalogue::built_in_date(), catalogue.date());
    }

    #[test]
    fn the_rules_of_the_catalogue_are_those_of_their_file() {
        let mut written: toml::Table = toml::from_str(include_str!("../../data/rules.toml")).unwrap();
        let rules = written["rule"].as_array_mut().unwrap();
        rules.iter_mut().for_each(|rule| drop(rule.as_table_mut().unwrap().remove("source")));
        let file: Value = serde_json::from_slice(&built_in_text()).unwrap();
        assert_eq!(serde_json::to_value(rules).unwrap(), file["rules"], "data/update --rules writes them");
    }

    #[test]
    fn a_newer_catalogue_says_what_its_models_demand_and_an_older_one_leaves_it_to_the_program() {
        let of = |rules: &str| {
            let text = format!(
                r#"{{"format":1,"date":"2026-11-27","sources":{{}},{COLUMNS},"models":[],{rules}"rows":{{}}}}"#
            );
            ModelCatalogue::read(text.as_bytes())
        };
        let thinking = |catalogue: &ModelCatalogue| {
            let quirks = catalogue.rules().of("gemini-2.5-pro", Dialect::Gemini).settled();
            (quirks.thinking, quirks.thinking_max)
        };
        let newer = r#""rules":[{"dialect":"of-tomorrow","names":["*"],"quirks":{"thinking":"off"}},
            {"dialect":"gemini","names":["*pro"],"quirks":{"thinking":"either","of_tomorrow":1}}],"#;
        assert_eq!(thinking(&of(newer).unwrap()), (ThinkingForm::Either, None));
        assert_eq!(thinking(&of("").unwrap()), (ThinkingForm::Budget, Some(32_768)));
        let wrong = r#""rules":[{"names":["*"],"quirks":{"thinking":"sometimes"}}],"#;
        assert!(of(wrong).unwrap_err().to_string().contains("sometimes"));
        let many = format!(r#""rules":[{{"names":[{}"*"],"quirks":{{}}}}],"#, r#""a","#.repeat(1_000));
        assert!(of(&many).unwrap_err().to_string().contains("1001 names, more than 1000"));
    }

    #[test]
    fn a_row_ends_at_its_last_known_fact_and_the_rest_is_unknown() {
        let rows =
            r#"{"groq":[["x","m",1,2.5,131072,"image pdf","+-?","preview",[[200000,2,null,null,5]],"ml"],["y"]]}"#;
        let catalogue = read(r#"[{"name":"m","open":true,"precision":"bf16","also":["n"]}]"#, rows).unwrap();
        let x = catalogue.offering("groq", "x").unwrap();
        assert_eq!((x.input, x.output, x.context), (Some(1.0), Some(2.5), Some(131_072)));
        assert_eq!(x.kinds.as_deref(), Some(&[InputKind::Text, InputKind::Image, InputKind::Pdf][..]));
        assert_eq!((x.tools, x.reasoning, x.schema), (Some(true), Some(false), None));
        assert_eq!((x.status, x.tiers[0].above, x.tiers[0].output), (OfferingStatus::Preview, 200_000, Some(5.0)));
        assert_eq!(x.date.as_deref(), Some("2026-11-15"), "of the newest of its sources");
        let y = catalogue.offering("groq", "y").unwrap();
        assert_eq!((&y.model, y.input, y.tools, &y.kinds), (&None, None, None, &None));
        let model = catalogue.model("n").unwrap();
        assert!(model.is_open && model.released_bits == Some(16) && model.hosts.len() == 1);
        assert!(catalogue.model("y").is_none());
    }

    #[test]
    fn a_wrong_catalogue_is_refused_as_a_whole() {
        for (rows, why) in [
            (r#"{"groq":[["x",null,-1]]}"#, "input"),
            (r#"{"groq":[["x",null,"1"]]}"#, "input"),
            (r#"{"groq":[["x",null,1e99]]}"#, "input"),
            (r#"{"groq":[["x",null,1,1,-5]]}"#, "context"),
            (r#"{"groq":[["x",null,1,1,5,"smell"]]}"#, "kinds"),
            (r#"{"groq":[["x",null,1,1,5,"","yes"]]}"#, "abilities"),
            (r#"{"groq":[[null,"m"]]}"#, "no id"),
            (r#"{"groq":[["x\u001b[2J"]]}"#, "id"),
            (r#"{"gr\u0007oq":[["x"]]}"#, "control characters"),
        ] {
            let error = read("[]", rows).unwrap_err().to_string();
            assert!(error.contains(why), "{rows}: {error}");
        }
        let newer = ModelCatalogue::read(br#"{"format":2}"#).unwrap_err().to_string();
        assert!(newer.contains("a newer photofinish reads it"), "{newer}");
        for text in ["", "{", "[]", "<html>", r#"{"format":1}"#] {
            assert!(ModelCatalogue::read(text.as_bytes()).is_err(), "{text}");
        }
        for date in ["", "2026-13-01", "9", "2026-11-22T00:00:00"] {
            let text = format!(r#"{{"format":1,"date":"{date}","sources":{{}},"columns":[],"models":[],"rows":{{}}}}"#);
            let error = ModelCatalogue::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("is no day"), "{date}: {error}");
        }
    }

    #[test]
    fn a_dated_name_finds_the_row_without_its_date() {
        let rows =
            r#"{"openai":[["gpt-9","gpt-9",1,2],["gpt-9-2026-04-23","gpt-9-2026-04-23",8,9]],"vertex":[["c","c"]]}"#;
        let catalogue = read("[]", rows).unwrap();
        let found =
            |provider: &str, id: &str| catalogue.offering_or_undated(provider, id).map(|found| found.id.clone());
        for (provider, id, expected) in [
            ("openai", "gpt-9", Some("gpt-9")),
            ("openai", "gpt-9-2026-04-23", Some("gpt-9-2026-04-23")),
            ("openai", "gpt-9-2026-12-31", Some("gpt-9")),
            ("vertex", "gpt-9-2026-12-31", None),
        ] {
            assert_eq!(found(provider, id).as_deref(), expected, "{provider}/{id}");
        }
        assert_eq!(catalogue.undated_model("gpt-9-2026-12-31"), Some("gpt-9"));
        assert_eq!((catalogue.undated_model("gpt-8-2026-12-31"), catalogue.undated_model("gpt-9")), (None, None));
        assert!(catalogue.offering("openai", "gpt-9-2026-12-31").is_none());
    }

    #[test]
    fn a_name_of_a_model_is_no_alias_of_another() {
        let rows =
            r#"{"groq":[["x","m"],["y","n"],["lab/z","n"],["twice","m"]],"zai":[["twice","n"],["m-fast","m-fast"]]}"#;
        let named = r#"[{"name":"m","also":["n","o"]},{"name":"gone","also":["p"]},{"name":"m-fast","of":"m"}]"#;
        let catalogue = read(named, rows).unwrap();
        assert_eq!(catalogue.aliases().collect::<Vec<_>>(), [("o", "m"), ("x", "m"), ("y", "n")]);
        assert_eq!(catalogue.model("n").unwrap().hosts[0].id, "y");
        assert_eq!(catalogue.model("m").unwrap().variants[0].id, "m-fast");
        assert!(catalogue.model("twice").is_none(), "two models have the name");
        let identities = ["m", "o", "lab/z", "twice", "z"].map(|id| catalogue.identity(id));
        assert_eq!(identities, [Some("m"), Some("m"), Some("n"), None, None]);
    }
}

#[cfg(test)]
mod snapshot_tests {
    use super::*;

    #[test]
    fn only_a_date_at_the_end_is_taken_off() {
        for (name, expected) in [
            ("gpt-5.5-2026-04-23", Some("gpt-5.5")),
            ("claude-opus-4-5-20251101", Some("claude-opus-4-5")),
            ("claude-opus-4-5@20251101", Some("claude-opus-4-5")),
            ("lab/m-2026-04-23", Some("lab/m")),
            ("gpt-5.5", None),
            ("gpt-5.5-2026-13-31", None),
            ("gpt-5.5-12345678", None),
            ("gpt-5.520260423", None),
            ("-2026-04-23", None),
            ("2026-04-23", None),
            ("m-é2026-12-3", None),
            ("", None),
        ] {
            assert_eq!(undated(name), expected, "{name}");
        }
    }
}
