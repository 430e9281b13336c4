//! Whether a provider can be asked in this configuration, in a word. Not for the running gateway: see `routing`.

use super::text::{GREEN, GREY, YELLOW};
use photofinish_config::names::names;
use photofinish_config::{Config, Keys, Provider};

names! {
    /// What `check`, `models` and `providers` say of a provider.
    pub enum ProviderState {
        On = "on",
        Simulated = "simulated",
        /// Off until the gateway has read a token.
        Token = "token",
        /// Only for users with a key of their own.
        OwnKeys = "own keys",
        Off = "off",
    }
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

    pub fn colour(self) -> &'static str {
        match self {
            ProviderState::On | ProviderState::Simulated | ProviderState::Token => GREEN,
            ProviderState::OwnKeys => YELLOW,
            ProviderState::Off => GREY,
        }
    }
}
