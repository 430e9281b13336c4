//! Names that anyone may read: a provider that is called like a host gets a number instead.

/// The numbers given so far.
#[derive(Debug, Default)]
pub(super) struct PublicNames {
    hosts: Vec<String>,
}

impl PublicNames {
    /// A name of the form `PROVIDER/MODEL`; several are separated by spaces.
    pub fn of(&mut self, names: &str) -> String {
        names.split(' ').map(|name| self.one(name)).collect::<Vec<_>>().join(" ")
    }

    fn one(&mut self, name: &str) -> String {
        let (provider, model) = match name.split_once("://") {
            // An address as a whole.
            Some(_) => (name, None),
            None => name.split_once('/').map_or((name, None), |(provider, model)| (provider, Some(model))),
        };
        if !is_host(provider) {
            return name.to_owned();
        }
        let number = self.hosts.iter().position(|host| host == provider).unwrap_or_else(|| {
            self.hosts.push(provider.to_owned());
            self.hosts.len() - 1
        });
        let server = format!("server-{}", number + 1);
        model.map_or(server.clone(), |model| format!("{server}/{model}"))
    }
}

/// A name with a dot or a port, or of this machine.
fn is_host(provider: &str) -> bool {
    provider.contains(['.', ':']) || provider.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_get_numbers() {
        let mut names = PublicNames::default();
        for (name, expected) in [
            ("groq/llama-3.3:free", "groq/llama-3.3:free"),
            ("gpu7.corp/qwen", "server-1/qwen"),
            ("10.0.0.7:8000/m", "server-2/m"),
            ("gpu7.corp/other", "server-1/other"),
            ("http://gpu8:1/v1", "server-3"),
            ("localhost/m a/b", "server-4/m a/b"),
        ] {
            assert_eq!(names.of(name), expected);
        }
    }
}
