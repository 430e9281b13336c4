//! The JSON Schema of the config file, for editors: `photofinish check --schema` prints it, `config.schema.json` is a copy.
//!
//! It follows from the declarations that the parser reads with (`keys!`). Not for checks that a schema cannot express, such as an
//! unknown provider: those are the parser's.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::catalogue_file::CatalogueKeys;
use super::keys::{self, TableKeys as _};
use super::oidc::OidcKeys;
use super::otlp::OtlpKeys;
use super::probes::{ProbeKeys, WorkloadKeys};
use super::provider_table::ProviderKeys;
use super::raw::{IncidentKeys, ModelKeys, StoreKeys};
use super::server::ServerKeys;
use super::user::UserKeys;
use super::{Limits, RaceSettings};

/// The schema as JSON text, in draft 7: what taplo and Even Better TOML read.
pub fn schema() -> String {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<ConfigFile>();
    format!("{:#}\n", schema.as_value())
}

/// The whole file.
struct ConfigFile;

impl JsonSchema for ConfigFile {
    fn schema_name() -> Cow<'static, str> {
        "Photofinish configuration".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut model = ModelKeys::properties(generator);
        model.extend(RaceSettings::properties(generator));
        let model = keys::object(model);
        let provider = generator.subschema_for::<ProviderKeys>();
        let mut user = UserKeys::properties(generator);
        user.extend(Limits::properties(generator));
        let user = keys::object(user);
        let limits = generator.subschema_for::<Limits>();
        let workload = generator.subschema_for::<WorkloadKeys>();
        let named = |about: &str, table: Schema| json_schema!({ "description": about, "type": "object", "additionalProperties": table });
        let section = |about: &str, mut table: Schema| {
            table.insert("description".to_owned(), about.into());
            table
        };
        keys::object(vec![
            ("server", section("Where and how the gateway listens.", generator.subschema_for::<ServerKeys>())),
            ("store", section("The history.", generator.subschema_for::<StoreKeys>())),
            ("catalogue", section("The catalogue of models.", generator.subschema_for::<CatalogueKeys>())),
            ("incidents", section("Incidents of upstreams.", generator.subschema_for::<IncidentKeys>())),
            ("otlp", section("Traces and metrics for OpenTelemetry.", generator.subschema_for::<OtlpKeys>())),
            (
                "oidc",
                section("Logins and tokens of an issuer (OpenID Connect).", generator.subschema_for::<OidcKeys>()),
            ),
            ("race", section("The defaults of every model.", generator.subschema_for::<RaceSettings>())),
            ("providers", named("Providers by name; those of the catalogue need only a key.", provider)),
            ("models", named("Models by the name that apps send, each with its upstreams.", model)),
            ("users", named("Who may call. Without users, the gateway listens on this machine only.", user)),
            ("limits", section("What everybody together may use.", limits.clone())),
            ("teams", named("Limits that several users share.", limits)),
            ("workloads", named("Further workloads for probes.", workload)),
            (
                "probes",
                section("Measured requests that the gateway sends by itself.", generator.subschema_for::<ProbeKeys>()),
            ),
        ])
    }
}
