//! `[oidc]`: who may come by a login at the company's issuer (OpenID Connect), and which of its groups is which role and team.
//!
//! Not for tokens and logins themselves: see the gateway's `door` and the server's `login`.

use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};

use super::Team;
use super::http_address::HttpAddress;
use super::keys::{self, PlainText, TableKeys as _, Texts, TypedText, choice, keys, own};
use super::problem::{LocatedProblem, shown};
use super::reader::{Located, ReaderScope, TomlTable};
use super::role::UserRole;
use super::text::{self, ExpandedText, Secret};

keys! {
    /// `[oidc]`
    #[derive(Clone)]
    pub(super) struct OidcKeys {
        /// The issuer, as it names itself in its tokens; `/.well-known/openid-configuration` behind it says the rest.
        issuer: Option<Located<String>> = TypedText;
        /// The gateway's client at the issuer: tokens for it count.
        client_id: Option<ExpandedText> = PlainText;
        /// The client's secret. Without it there are no logins: the issuer's tokens alone count.
        client_secret: Option<Located<String>> = TypedText;
        /// Where browsers reach the gateway, such as `https://llm.example.com`. The issuer must know `/dashboard/login/callback` behind it
        /// as a redirect.
        url: Option<HttpAddress> = own(read_url, |_| keys::text("https?://[^#@?]+"));
        /// Further audiences whose tokens count.
        audience: Vec<ExpandedText> = Texts { max: AUDIENCES_MAX, noun: "audiences" }, or Vec::new();
        /// The claim with the user's name here: unique, and none that users change themselves.
        user: String = own(|table, key| Some(table.text(key)?.value), |_| keys::any_text()).shown("email"), or "email".to_owned();
        /// The claim with the user's groups; dots lead into objects.
        groups: String = own(|table, key| Some(table.text(key)?.value), |_| keys::any_text()).shown("groups"), or "groups".to_owned();
        /// What a group of the issuer is here, by its name; `"*"` is everybody. The first in the file that gives a role or a team counts.
        group: Vec<(Located<String>, GroupKeys)> = own(read_groups, |generator| {
            let group = generator.subschema_for::<GroupKeys>();
            schemars::json_schema!({ "type": "object", "additionalProperties": group })
        }), or Vec::new();
    }
}

keys! {
    /// `[oidc.group.NAME]`
    #[derive(Clone)]
    pub(super) struct GroupKeys {
        /// The role of its users; `user` unless a later group says.
        role: Option<UserRole> = choice();
        /// The team of its users.
        team: Option<Located<String>> = TypedText;
    }
}

/// Fewer characters can be guessed: what browsers keep of a login is encrypted with it.
const SHORT: usize = 16;
/// Audiences of a configuration.
const AUDIENCES_MAX: usize = 16;

/// `[oidc]`
#[derive(Debug)]
pub struct Oidc {
    /// As its tokens name it.
    pub issuer: String,
    /// Where it is.
    pub address: HttpAddress,
    pub client_id: String,
    /// What logins need.
    pub login: Option<OidcLogin>,
    /// Those of tokens that count, with `client_id`.
    pub audiences: Vec<String>,
    /// The claim with the name of a user.
    pub user_claim: String,
    /// The claim with the groups.
    pub groups_claim: String,
    groups: Vec<MappedGroup>,
}

/// With it users log in.
#[derive(Debug)]
pub struct OidcLogin {
    pub secret: SecretString,
    /// Where browsers reach the gateway, without a slash at its end.
    pub url: String,
}

#[derive(Debug)]
struct MappedGroup {
    name: String,
    role: Option<UserRole>,
    team: Option<String>,
}

impl Oidc {
    /// The role and team of a user with these groups. None: none of them is listed.
    pub fn place_of<'g>(&self, groups: impl IntoIterator<Item = &'g str>) -> Option<(UserRole, Option<String>)> {
        let mut is_in = vec![false; self.groups.len()];
        for group in groups {
            for (mapped, is_in) in self.groups.iter().zip(&mut is_in) {
                *is_in |= mapped.name == group;
            }
        }
        let mut found = self.groups.iter().zip(is_in).filter(|(mapped, is_in)| *is_in || mapped.name == EVERYBODY);
        found.clone().next()?;
        let role = found.clone().find_map(|(mapped, _)| mapped.role).unwrap_or_default();
        Some((role, found.find_map(|(mapped, _)| mapped.team.clone())))
    }

    /// The names of the groups, for a message.
    pub fn group_names(&self) -> Vec<&str> {
        self.groups.iter().map(|group| group.name.as_str()).collect()
    }
}

const EVERYBODY: &str = "*";

fn read_url(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<HttpAddress> {
    let text = table.text(key)?;
    let read = HttpAddress::parse(&text.value).and_then(|address| match address.path_and_query().contains('?') {
        true => Err("has a query"),
        false => Ok(address),
    });
    if let Err(why) = read {
        let problem = LocatedProblem::at(text.offset, format!("{} {why}", table.what(key)));
        table.scope.report(problem.expected("an address such as \"https://llm.example.com\""));
    }
    read.ok()
}

fn read_groups(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<(Located<String>, GroupKeys)>> {
    let mut groups: Vec<(Located<String>, GroupKeys)> = Vec::new();
    for (name, mut table) in table.named_tables(key, &["role", "team"]) {
        let keys = GroupKeys::read(&mut table, &GroupKeys::default());
        table.finish();
        groups.push((name, keys));
    }
    // In the order of the file.
    groups.sort_by_key(|(name, _)| name.offset);
    Some(groups)
}

impl OidcKeys {
    /// None without the table, or with one that has problems, which are reported. `offset`: of the table.
    pub(super) fn resolve(
        self,
        scope: &ReaderScope<'_>,
        has_users: bool,
        teams: &BTreeMap<String, Arc<Team>>,
    ) -> Option<Arc<Oidc>> {
        let Some(issuer) = self.issuer else {
            if self.client_id.is_some() || !self.group.is_empty() {
                scope.wrong(0, "[oidc] has no \"issuer\"", "issuer = \"https://login.example.com\"");
            }
            return None;
        };
        let wrong = |message: String, expected: &str| scope.wrong(issuer.offset, message, expected);
        if !has_users {
            let expected = "a table such as [users.admin] with role = \"admin\" and a token: somebody must get in while the issuer is away";
            wrong("[oidc] without [users]".to_owned(), expected);
        }
        let address = HttpAddress::parse_secure(issuer.value.trim_end_matches('/'));
        if let Err(why) = address {
            wrong(
                format!("\"issuer\" in [oidc] {why}"),
                "an address such as \"https://login.example.com/realms/main\"",
            );
        }
        let Some(client_id) = self.client_id else {
            wrong("[oidc] has no \"client_id\"".to_owned(), "the name of the gateway's client at the issuer");
            return None;
        };
        if self.group.is_empty() {
            wrong(
                "[oidc] names no group, so no user may log in".to_owned(),
                "a table such as [oidc.group.\"*\"] with role = \"user\"",
            );
        }
        let login = login(scope, issuer.offset, self.client_secret, self.url);
        let groups = self.group.into_iter().map(|(name, keys)| mapped(scope, name, keys, teams)).collect();
        let audiences = self.audience.into_iter().map(|text| text.value).chain([client_id.value.clone()]).collect();
        Some(Arc::new(Oidc {
            address: address.ok()?,
            issuer: issuer.value,
            client_id: client_id.value,
            login,
            audiences,
            user_claim: self.user,
            groups_claim: self.groups,
            groups,
        }))
    }
}

fn login(
    scope: &ReaderScope<'_>,
    offset: usize,
    secret: Option<Located<String>>,
    url: Option<HttpAddress>,
) -> Option<OidcLogin> {
    let Some(typed) = secret else {
        if url.is_some() {
            scope.wrong(offset, "\"url\" in [oidc] has no effect without \"client_secret\"", "both, or neither");
        }
        return None;
    };
    let what = "\"client_secret\" in [oidc]";
    let secret = match text::secret(scope, what, &typed) {
        Secret::Set(secret) => secret,
        Secret::Unset(names) => {
            scope.report(text::unset(typed.offset, what, &names));
            return None;
        }
        Secret::Bad => return None,
    };
    if secret.expose_secret().len() < SHORT {
        scope.warn(format!("{what} has fewer than {SHORT} characters, so it can be guessed: let the issuer make one"));
    }
    let Some(url) = url else {
        scope.wrong(
            typed.offset,
            "[oidc] has no \"url\"",
            "where browsers reach the gateway: url = \"https://llm.example.com\"",
        );
        return None;
    };
    Some(OidcLogin { secret, url: url.to_string().trim_end_matches('/').to_owned() })
}

fn mapped(
    scope: &ReaderScope<'_>,
    name: Located<String>,
    keys: GroupKeys,
    teams: &BTreeMap<String, Arc<Team>>,
) -> MappedGroup {
    let of = format!("[oidc.group.{}]", shown(&name.value));
    if let Some(team) = keys.team.as_ref().filter(|team| !teams.contains_key(&team.value)) {
        let message = format!("unknown team \"{}\" in {of}", shown(&team.value));
        let problem = LocatedProblem::at(team.offset, message).expected("a table under [teams]");
        scope.report(problem.nearest(&team.value, teams.keys().map(String::as_str)));
    }
    if keys.role == Some(UserRole::Lead) && keys.team.is_none() {
        scope.wrong(
            name.offset,
            format!("{of} has role = \"lead\" and no team"),
            "team = \"NAME\", a table under [teams]",
        );
    }
    MappedGroup { name: name.value, role: keys.role, team: keys.team.map(|team| team.value) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Config, Problems, parse};

    const USERS: &str = "[users.root]\ntoken = \"a-token-of-an-admin\"\nrole = \"admin\"\n[teams.ml]\nrpm = 5\n";

    fn read(oidc: &str) -> Result<Config, Problems> {
        let env = |name: &str| (name == "SECRET").then(|| "planted".to_owned());
        parse(&format!("{USERS}{oidc}"), Path::new("config.toml"), &env)
    }

    const USUAL: &str = "[oidc]\nissuer = \"https://login.example.com/realms/main\"\nclient_id = \"photofinish\"\n";

    #[test]
    fn the_first_group_of_the_file_counts() {
        let groups = "[oidc.group.zebra]\nrole = \"viewer\"\n[oidc.group.\"ml people\"]\nteam = \"ml\"\nrole = \"lead\"\n[oidc.group.\"*\"]\n";
        let config = read(&format!("{USUAL}{groups}")).unwrap();
        let oidc = config.oidc.unwrap();
        let place = |groups: &[&str]| oidc.place_of(groups.iter().copied());
        assert_eq!(place(&[]), Some((UserRole::User, None)));
        assert_eq!(place(&["ml people", "x"]), Some((UserRole::Lead, Some("ml".to_owned()))));
        assert_eq!(place(&["ml people", "zebra"]), Some((UserRole::Viewer, Some("ml".to_owned()))));
        let only = read(&format!("{USUAL}[oidc.group.a]\nrole = \"user\"\n")).unwrap().oidc.unwrap();
        assert_eq!((only.place_of(["b"]), only.login.is_none()), (None, true));
        assert_eq!(only.audiences, ["photofinish"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let group = "[oidc.group.\"*\"]\nrole = \"user\"\n";
        let with = |line: &str| format!("{USUAL}{line}\n{group}");
        for (text, words) in [
            (format!("[oidc]\nclient_id = \"x\"\n{group}"), "[oidc] has no \"issuer\""),
            (format!("[oidc]\nissuer = \"http://login.example.com\"\nclient_id = \"x\"\n{group}"), "is http"),
            (format!("[oidc]\nissuer = \"https://login.example.com\"\n{group}"), "has no \"client_id\""),
            (USUAL.to_owned(), "names no group"),
            (with("client_secret = \"${SECRET}\""), "has no \"url\""),
            (with("url = \"https://llm.example.com\""), "no effect without \"client_secret\""),
            (with("client_secret = \"${UNSET}\"\nurl = \"https://llm.example.com\""), "UNSET"),
            (with("client_secret = \"${SECRET}\"\nurl = \"llm.example.com\""), "\"url\" in [oidc]"),
            (format!("{USUAL}[oidc.group.a]\nteam = \"mk\""), "unknown team \"mk\" in [oidc.group.a]"),
            (format!("{USUAL}[oidc.group.a]\nrole = \"lead\""), "has role = \"lead\" and no team"),
            (format!("{USUAL}[oidc.group.a]\nrole = \"boss\""), "boss"),
            (format!("{USUAL}[oidc.group.a]\nroles = \"user\""), "unknown key \"roles\""),
        ] {
            let problems = read(&text).unwrap_err().to_string();
            assert!(problems.contains(words) && !problems.contains("planted"), "{text}\n{problems}");
        }
        let alone = parse(&with(""), Path::new("config.toml"), &|_| None).unwrap_err().to_string();
        assert!(alone.contains("[oidc] without [users]"), "{alone}");
        let config = read(&with("client_secret = \"${SECRET}\"\nurl = \"https://llm.example.com/\"")).unwrap();
        assert_eq!(config.oidc.as_ref().unwrap().login.as_ref().unwrap().url, "https://llm.example.com");
        assert!(!format!("{:?}", config.oidc).contains("planted"));
    }
}
