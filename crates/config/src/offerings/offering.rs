//! One row of the catalogue: one provider's offer of one model. Not for finding it: see `catalogue`.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::names::names;
use photofinish_base::printable::printable;

/// What one provider says of one of its models.
#[derive(Clone, Debug, Default)]
pub struct Offering {
    /// As in `[providers.NAME]`.
    pub provider: String,
    /// What is sent as `model`.
    pub id: String,
    /// The name that all hosts of the same model share. None: it is not known which model it is.
    pub model: Option<String>,
    /// USD per million input tokens.
    pub input: Option<f64>,
    /// USD per million input tokens that the provider reads from its cache.
    pub cached: Option<f64>,
    /// USD per million input tokens that the provider writes into its cache.
    pub written: Option<f64>,
    /// USD per million output tokens.
    pub output: Option<f64>,
    /// Other prices for long prompts, the shortest first.
    pub tiers: Vec<PriceTier>,
    /// Tokens of prompt and answer.
    pub context: Option<u64>,
    /// Tokens of the answer.
    pub max_output: Option<u64>,
    /// What a prompt may contain.
    pub kinds: Option<Vec<InputKind>>,
    pub tools: Option<bool>,
    pub reasoning: Option<bool>,
    /// Answers by a JSON schema.
    pub schema: Option<bool>,
    /// It makes embeddings and no text.
    pub embedding: bool,
    /// The precision of its weights where the host says it: `fp8`.
    pub precision: Option<String>,
    /// The only dialect in which its provider serves it: `responses`.
    pub dialect: Option<String>,
    /// Only callers in this region can use it: `us`.
    pub region: Option<String>,
    pub status: OfferingStatus,
    /// The day from which the provider no longer serves it: `2026-02-16`.
    pub retires: Option<String>,
    /// Sources differ about its price by more than a tenth; the dearer one is here.
    pub disputed: bool,
    /// The day of its facts.
    pub date: Option<String>,
    /// The day on which a source last had it.
    pub seen: Option<String>,
    /// The sources, a letter each; the catalogue's head names them.
    pub source: String,
}

/// The prices of a prompt of more than `above` tokens, in USD per million tokens. Absent: the usual price.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PriceTier {
    pub above: u64,
    pub input: Option<f64>,
    pub cached: Option<f64>,
    pub written: Option<f64>,
    pub output: Option<f64>,
}

names! {
    /// A kind of content in a prompt.
    pub enum InputKind {
        Text = "text",
        Image = "image",
        Audio = "audio",
        Video = "video",
        Pdf = "pdf",
    }
}

names! {
    /// How far along an offering is.
    pub enum OfferingStatus or Active {
        Active = "active",
        Preview = "preview",
        Deprecated = "deprecated",
        Retired = "retired",
    }
}

impl Offering {
    /// `provider/id`
    pub fn upstream(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }

    /// Whether the provider has stopped serving it by this day, such as `2026-11-22`.
    pub fn is_retired(&self, today: &str) -> bool {
        self.status == OfferingStatus::Retired || self.retires.as_deref().is_some_and(|day| day <= today)
    }

    /// Whether its id says who serves it, so that it is no other name of its model: ids of Bedrock, such as `anthropic.claude-x`, and those
    /// with a part of the world, which a retired row says in its id alone.
    pub fn names_its_host(&self) -> bool {
        const REGIONS: [&str; 8] = ["apac", "au", "ca", "eu", "global", "in", "jp", "us"];
        let is_profile = |(part, rest): (&str, &str)| REGIONS.contains(&part) && rest.contains('.');
        self.provider == "bedrock" || self.region.is_some() || self.id.split_once('.').is_some_and(is_profile)
    }

    /// One figure to compare hosts by: USD per million tokens of a prompt with a third as much answer.
    pub fn blended_price(&self) -> Option<f64> {
        Some((3.0 * self.input? + self.output?) / 4.0)
    }

    /// Bits of each weight, if the host says how it serves the model.
    pub fn bits(&self) -> Option<u8> {
        self.precision.as_deref().and_then(bits)
    }
}

/// Bits of each weight in a named precision.
pub(super) fn bits(precision: &str) -> Option<u8> {
    Some(match precision {
        "fp32" => 32,
        "bf16" | "fp16" => 16,
        "fp8" | "int8" => 8,
        "fp6" => 6,
        "fp4" | "mxfp4" | "nvfp4" | "int4" | "awq" => 4,
        _ => return None,
    })
}

/// A row of one provider, with the names of its places.
pub(super) struct Row<'r> {
    pub columns: &'r [String],
    /// Each is read as what its column has: reading a number as a [`Value`] first copies its text.
    pub values: &'r [&'r RawValue],
}

impl<'r> Row<'r> {
    /// Why it is wrong, in words; it has to be right as a whole.
    pub fn offering(&self, provider: &str) -> Result<Offering, String> {
        let id = self.text("id")?.ok_or("a row has no id")?;
        let [tools, reasoning, schema] = self.abilities()?;
        let offering = Offering {
            provider: provider.to_owned(),
            id,
            model: self.text("model")?,
            input: self.price("input")?,
            cached: self.price("cached")?,
            written: self.price("written")?,
            output: self.price("output")?,
            tiers: self.tiers()?,
            context: self.tokens("context")?,
            max_output: self.tokens("max_output")?,
            kinds: self.kinds()?,
            tools,
            reasoning,
            schema,
            embedding: self.flag("embedding")?,
            precision: self.text("precision")?,
            dialect: self.text("dialect")?,
            region: self.text("region")?,
            status: self.status()?,
            retires: self.text("retires")?,
            disputed: self.flag("disputed")?,
            date: self.text("date")?,
            seen: self.text("seen")?,
            source: self.text("source")?.unwrap_or_default(),
        };
        Ok(offering)
    }

    /// None: unknown.
    fn value<T: Deserialize<'r>>(&self, column: &str) -> Result<Option<T>, String> {
        let mut places = self.columns.iter().zip(self.values);
        let value =
            places.find(|(name, _)| *name == column).map(|(_, value)| value).filter(|value| value.get() != "null");
        value.map(|value| serde_json::from_str(value.get())).transpose().map_err(|_| self.wrong(column))
    }

    fn wrong(&self, column: &str) -> String {
        let id: String = self.values.first().and_then(|id| serde_json::from_str(id.get()).ok()).unwrap_or_default();
        format!("{column} of {id:?} is not right")
    }

    fn text(&self, column: &str) -> Result<Option<String>, String> {
        let text: Option<String> = self.value(column)?;
        if text.as_deref().is_none_or(is_plain) { Ok(text) } else { Err(self.wrong(column)) }
    }

    fn flag(&self, column: &str) -> Result<bool, String> {
        match self.value(column)? {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::Number(number)) => Ok(number.as_u64() == Some(1)),
            Some(_) => Err(self.wrong(column)),
        }
    }

    fn price(&self, column: &str) -> Result<Option<f64>, String> {
        let usd = self.value(column)?;
        if usd.is_none_or(is_price) { Ok(usd) } else { Err(self.wrong(column)) }
    }

    fn tokens(&self, column: &str) -> Result<Option<u64>, String> {
        self.value(column)
    }

    /// Every prompt may contain text; a row lists the rest, with spaces between.
    fn kinds(&self) -> Result<Option<Vec<InputKind>>, String> {
        let Some(text) = self.text("kinds")? else { return Ok(None) };
        let mut kinds = vec![InputKind::Text];
        for name in text.split_whitespace() {
            kinds.push(InputKind::from_name(name).ok_or_else(|| self.wrong("kinds"))?);
        }
        Ok(Some(kinds))
    }

    /// Tools, reasoning and JSON schemas, a letter each: `+-?`.
    fn abilities(&self) -> Result<[Option<bool>; 3], String> {
        let Some(text) = self.text("abilities")? else { return Ok([None; 3]) };
        let mut abilities = [None; 3];
        for (ability, letter) in abilities.iter_mut().zip(text.chars()) {
            *ability = match letter {
                '+' => Some(true),
                '-' => Some(false),
                '?' => None,
                _ => return Err(self.wrong("abilities")),
            };
        }
        Ok(abilities)
    }

    fn status(&self) -> Result<OfferingStatus, String> {
        let Some(name) = self.text("status")? else { return Ok(OfferingStatus::Active) };
        OfferingStatus::from_name(&name).ok_or_else(|| self.wrong("status"))
    }

    /// `[[above, input, cached, written, output], …]`
    fn tiers(&self) -> Result<Vec<PriceTier>, String> {
        let Some(rows) = self.value::<Vec<Vec<Value>>>("tiers")? else { return Ok(Vec::new()) };
        let read = |tier: &Vec<Value>| {
            let at = |place: usize| tier.get(place).filter(|value| !value.is_null());
            let price = |place| match at(place) {
                None => Some(None),
                Some(value) => value.as_f64().filter(|usd| is_price(*usd)).map(Some),
            };
            let above = at(0)?.as_u64()?;
            Some(PriceTier { above, input: price(1)?, cached: price(2)?, written: price(3)?, output: price(4)? })
        };
        let tiers: Option<Vec<PriceTier>> = rows.iter().map(read).collect();
        let mut tiers = tiers.ok_or_else(|| self.wrong("tiers"))?;
        tiers.sort_by_key(|tier| tier.above);
        Ok(tiers)
    }
}

/// Bytes of the longest text in a row of the catalogue.
const TEXT_MAX: usize = 512;
/// USD per million tokens; no model costs more.
const PRICE_MAX: f64 = 100_000.0;

/// Safe to print, and not too long.
pub(super) fn is_plain(text: &str) -> bool {
    text.len() <= TEXT_MAX && (text.bytes().all(|byte| matches!(byte, b' '..=b'~')) || printable(text) == text)
}

fn is_price(usd: f64) -> bool {
    (0.0..=PRICE_MAX).contains(&usd)
}
