//! Compares the facts of hosts with a reference. Pure. Not for the facts of one host: see `judge`.

use std::collections::BTreeMap;

use super::judge::{FactFinding, Findings};
use photofinish_config::HostFact;
use photofinish_config::names::names;

names! {
    /// What is shown of a fact of a host.
    pub enum FactAnswer {
        Yes = "yes",
        No = "no",
        Differs = "differs",
        NotSaid = "not said",
    }
}

/// One fact of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactVerdict {
    /// `provider/model`
    pub host: String,
    pub fact: HostFact,
    pub answer: FactAnswer,
    /// What the others say, or the host that is the reference: `yes`, `no`, or a figure. Empty: none says it.
    pub reference: String,
    pub detail: String,
    /// The host does not do what the reference does.
    pub wrong: bool,
}

/// Every fact of every host, hosts in order. `reference`: its place; none: the majority of each fact.
pub fn compare(hosts: &[(String, Findings)], reference: Option<usize>) -> Vec<FactVerdict> {
    let mut verdicts = Vec::new();
    for (host, findings) in hosts {
        for fact in HostFact::ALL {
            let Some((finding, detail)) = findings.get(&fact) else { continue };
            let expected = match reference.and_then(|place| hosts.get(place)) {
                Some((_, of)) => of.get(&fact).map(|(finding, _)| finding.clone()),
                None => majority(hosts, fact),
            };
            verdicts.push(verdict(host, fact, finding, detail, expected));
        }
    }
    verdicts
}

fn verdict(
    host: &str,
    fact: HostFact,
    finding: &FactFinding,
    detail: &str,
    expected: Option<FactFinding>,
) -> FactVerdict {
    let (answer, wrong) = match (finding, &expected) {
        (FactFinding::Yes, _) => (FactAnswer::Yes, false),
        // What no host can do is of the model.
        (FactFinding::No, expected) => (FactAnswer::No, matches!(expected, Some(FactFinding::Yes))),
        (FactFinding::NotSaid, _) => (FactAnswer::NotSaid, false),
        (FactFinding::Value(own), Some(FactFinding::Value(other))) if own == other => (FactAnswer::Yes, false),
        // None to compare with.
        (FactFinding::Value(_), Some(FactFinding::NotSaid)) => (FactAnswer::NotSaid, false),
        (FactFinding::Value(_), _) => (FactAnswer::Differs, true),
    };
    let detail = match (finding, &expected) {
        (FactFinding::Value(own), Some(FactFinding::Value(other))) if own != other => difference(own, other),
        (FactFinding::Value(own), None) => own.clone(),
        (FactFinding::Value(own), _) if !own.contains(' ') || own.starts_with('<') => own.clone(),
        _ => detail.to_owned(),
    };
    let reference = match expected {
        Some(FactFinding::Yes) => "yes".to_owned(),
        Some(FactFinding::No) => "no".to_owned(),
        Some(FactFinding::Value(value)) => value,
        Some(FactFinding::NotSaid) | None => String::new(),
    };
    FactVerdict { host: host.to_owned(), fact, answer, reference, detail, wrong }
}

/// Numbers that differ by a constant say that something is put before each prompt.
fn difference(own: &str, other: &str) -> String {
    let numbers = |text: &str| text.split(' ').map(str::parse).collect::<Result<Vec<i64>, _>>().ok();
    let Some((own, other)) = numbers(own).zip(numbers(other)) else { return format!("{own}, not {other}") };
    let apart: Vec<i64> = own.iter().zip(&other).map(|(own, other)| own - other).collect();
    match apart.first() {
        Some(first) if apart.iter().all(|one| one == first) => {
            format!("{first:+} tokens in each prompt: another template, or a hidden system prompt")
        }
        _ => {
            let differ = apart.iter().filter(|apart| **apart != 0).count();
            format!("{differ} of {} prompts have another number of tokens: another tokenizer, or a cut", apart.len())
        }
    }
}

/// What most hosts that say something say; of as many, yes before no. None: as many say one value as another.
fn majority(hosts: &[(String, Findings)], fact: HostFact) -> Option<FactFinding> {
    let mut counts: BTreeMap<String, (usize, FactFinding)> = BTreeMap::new();
    for (finding, _) in hosts.iter().filter_map(|(_, findings)| findings.get(&fact)) {
        if *finding != FactFinding::NotSaid {
            counts.entry(format!("{finding:?}")).or_insert_with(|| (0, finding.clone())).0 += 1;
        }
    }
    let most = counts.values().map(|(count, _)| *count).max();
    let mut leading = counts.into_values().filter(|(count, _)| Some(*count) == most).map(|(_, finding)| finding);
    match (leading.next(), leading.next()) {
        (None, _) => Some(FactFinding::NotSaid),
        (Some(only), None) => Some(only),
        (Some(FactFinding::No | FactFinding::Yes), Some(FactFinding::No | FactFinding::Yes)) => Some(FactFinding::Yes),
        _ => None,
    }
}

/// The place of the vendor's own API: its name begins the owner in the names that other hosts use, as in `groq/deepseek-ai/…`.
pub fn vendor(hosts: &[String]) -> Option<usize> {
    let owners: Vec<String> = hosts.iter().filter_map(|host| host.split('/').nth(1)).map(str::to_lowercase).collect();
    hosts.iter().position(|host| {
        let provider = host.split('/').next().unwrap_or_default();
        let owns =
            |(place, owner): (usize, &String)| hosts[place].matches('/').count() > 1 && owner.starts_with(provider);
        provider.len() > 2 && owners.iter().enumerate().any(owns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vendor_is_known_by_its_name() {
        let hosts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(vendor(&hosts(&["groq/openai/gpt-oss-120b", "openai/gpt-oss-120b"])), Some(1));
        assert_eq!(vendor(&hosts(&["deepseek/deepseek-chat", "together/deepseek-ai/DeepSeek-V3"])), Some(0));
        assert_eq!(vendor(&hosts(&["groq/llama-3.3-70b", "together/meta-llama/Llama-3.3-70B"])), None);
    }

    #[test]
    fn what_differs_is_said_and_two_hosts_have_no_majority() {
        let host = |name: &str, tokens: &str, stop: FactFinding| {
            let tokens = (FactFinding::Value(tokens.to_owned()), String::new());
            (name.to_owned(), Findings::from([(HostFact::Template, tokens), (HostFact::Stop, (stop, String::new()))]))
        };
        let answers = |hosts: &[(String, Findings)], reference| -> Vec<(FactAnswer, bool)> {
            compare(hosts, reference).iter().map(|one| (one.answer, one.wrong)).collect()
        };
        use FactAnswer::{Differs, No, Yes};
        let two = [host("a/m", "1 2", FactFinding::Yes), host("b/m", "18 19", FactFinding::No)];
        assert_eq!(answers(&two, None), [(Differs, true), (Yes, false), (Differs, true), (No, true)]);
        assert_eq!(answers(&two, Some(0)), [(Yes, false), (Yes, false), (Differs, true), (No, true)]);
        assert_eq!(answers(&two, Some(1)), [(Differs, true), (Yes, false), (Yes, false), (No, false)]);
        assert_eq!(
            compare(&two, Some(0))[2].detail,
            "+17 tokens in each prompt: another template, or a hidden system prompt"
        );
        let odd = host("c/m", "1 3", FactFinding::Yes);
        let three = [two[0].clone(), two[0].clone(), odd];
        assert_eq!(
            compare(&three, None)[4].detail,
            "1 of 2 prompts have another number of tokens: another tokenizer, or a cut"
        );
    }
}
