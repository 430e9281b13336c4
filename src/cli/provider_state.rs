//! Whether a provider can be asked in this configuration, in a word. Not for the running gateway: see `routing`.

use super::text::{GREEN, GREY, YELLOW};
use photofinish_config::config::{Config, Keys, Provider};

/// What `check`, `models` and `providers` say of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderState {
    On,
    Simulated,
    /// Off until the gateway has read a token.
    Token,
    /// Only for users with a key of their own.
    OwnKeys,
    Off,
}

impl ProviderState {
    pub fn of(config: &Config, provider: &Provider) -> ProviderState {
        match &provider.keys {
            _ if provider.simulate.is_some() => ProviderState::Simulated,
            Keys::Token(_) => ProviderState::Token,
            Keys::Off(_) if config.provider_is_on(provider) => ProviderState::OwnKeys,
            Keys::Off(_) => ProviderState::Off,
            Keys::NotConfigured | Keys::Keys(_) => ProviderState::On,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ProviderState::On => "on",
            ProviderState::Simulated => "simulated",
            ProviderState::Token => "token",
            ProviderState::OwnKeys => "own keys",
            ProviderState::Off => "off",
        }
    }

    pub fn colour(self) -> &'static str {
        match self {
            ProviderState::On | ProviderState::Simulated | ProviderState::Token => GREEN,
            ProviderState::OwnKeys => YELLOW,
            ProviderState::Off => GREY,
        }
    }
}
