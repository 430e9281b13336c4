//! What `photofinish` says if neither a file nor a key says what to serve.

use std::fmt;

use photofinish_config::catalogue;

/// Columns of the list of variables.
const WIDTH: usize = 76;

/// There is no config.toml, and no variable holds the key of a provider. With what is said of variables that are set in vain.
#[derive(Debug)]
pub(super) struct NoKeys(pub(super) Vec<String>);

impl std::error::Error for NoKeys {}

impl fmt::Display for NoKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("photofinish: no key of a provider is set, and there is no config.toml here.\n\n")?;
        for warning in &self.0 {
            writeln!(f, "{warning}.")?;
        }
        if !self.0.is_empty() {
            writeln!(f)?;
        }
        f.write_str("It looks for keys in these variables; two keys that host the same model make a race:\n")?;
        let variables = catalogue::entries().filter(|entry| !entry.only_if_named && entry.has_address(&|_| None));
        let mut line = " ".to_owned();
        for variable in variables.filter_map(|entry| entry.key_variable.as_deref()) {
            if line.len() + 1 + variable.len() > WIDTH {
                writeln!(f, "{line}")?;
                line.replace_range(.., " ");
            }
            line.push(' ');
            line.push_str(variable);
        }
        writeln!(f, "{line}\n")?;
        f.write_str("Without a key:\n")?;
        f.write_str("  photofinish                serves model servers of this machine, or simulated providers\n")?;
        f.write_str("  photofinish init           a first config.toml, with the model servers of this machine\n")?;
        f.write_str("  photofinish --help         every command")
    }
}
