//! `catalogue.toml` is sound: it can be read, and has names, addresses, and a source for every fact.

use std::collections::BTreeSet;

use super::*;
use crate::provider_table::base_url_problem;

/// What the config would fill in.
fn filled(url: &str) -> String {
    let url = url.replace("{host}", "h.example").replace("{project}", "p");
    let url = url.replace("{AZURE_OPENAI_ENDPOINT}", "https://h.example");
    url.replace("{location}", "l").replace("{region}", "r")
}

#[test]
fn names_and_addresses_are_sound() {
    assert!(!read(include_str!("../catalogue.toml")).unwrap().is_empty());
    let names: BTreeSet<_> = entries().map(|entry| &entry.name).collect();
    assert_eq!(names.len(), entries().count(), "a name is there twice");
    for entry in entries() {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        assert!(entry.name.bytes().all(plain), "{}: lower case, digits and hyphens only", entry.name);
        assert!(!entry.serves.is_empty() && !entry.serves[0].only_if_named, "{}", entry.name);
        let dialects: BTreeSet<_> = entry.serves.iter().map(|served| served.dialect).collect();
        assert_eq!(dialects.len(), entry.serves.len(), "{}", entry.name);
        for served in entry.serves.iter().filter(|served| !served.base_url.is_empty()) {
            assert_eq!(base_url_problem(&filled(&served.base_url)), None, "{}", entry.name);
            assert!(!served.base_url.ends_with('/'), "{}", entry.name);
            let local = served.base_url.starts_with("http://127.0.0.1:");
            assert_eq!((entry.key_variable.is_none(), !entry.warming.value), (local, local), "{}", entry.name);
        }
    }
    let variables: Vec<_> = entries().flat_map(CatalogueEntry::key_variables).collect();
    for (place, variable) in variables.iter().enumerate() {
        assert!(!variables[..place].contains(variable), "{variable} is the key of two providers");
    }
}

#[test]
fn a_form_of_keys_is_of_one_provider() {
    let forms: Vec<_> = entries().flat_map(|entry| &entry.key_prefixes.value).collect();
    assert!(forms.len() > 8);
    for (place, form) in forms.iter().enumerate() {
        assert!(
            form.len() > 2 && !forms[..place].iter().any(|other| form.starts_with(*other) || other.starts_with(*form)),
            "{form}"
        );
    }
}

#[test]
fn every_fact_has_a_source() {
    for entry in entries() {
        let facts = [
            &entry.cancel_billing.source,
            &entry.key_prefixes.source,
            &entry.lists.source,
            &entry.omits_finish_reason.source,
            &entry.refuses.source,
            &entry.continues.source,
            &entry.warming.source,
            &entry.note.source,
        ];
        let quirks = entry.quirks.facts().map(|(_, _, source)| source);
        for source in facts.into_iter().map(String::as_str).chain(quirks) {
            assert!(source.contains("2026"), "{}: {source:?} has no date", entry.name);
        }
        for served in &entry.serves {
            assert!(served.source.starts_with("https://"), "{}: {:?}", entry.name, served.source);
        }
    }
}
