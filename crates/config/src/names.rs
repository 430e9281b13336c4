//! `names!` declares an enum whose variants have names in the config: the enum, `ALL`, `as_str`, `from_name` and `FromStr`.
//!
//! Not for names that only the program uses.

/// A choice of the config: its variants, their names, and a line about each.
pub trait NamedChoice: Copy + 'static {
    const VARIANTS: &'static [Self];

    fn name(self) -> &'static str;

    /// Its doc comment; empty if it has none.
    fn about(self) -> &'static str;
}

/// Each variant is written `/// What it does.` and `Variant = "name",`; a default `pub enum Name or Variant`.
#[macro_export]
macro_rules! names {
    (
        $(#[$meta:meta])*
        pub enum $name:ident $(or $usual:ident)? { $($(#[doc = $about:literal])* $variant:ident = $text:literal,)+ }
    ) => {
        ::photofinish_base::named! {
            $(#[$meta])*
            pub enum $name { $($(#[doc = $about])* $variant = $text,)+ }
        }

        $(impl Default for $name {
            fn default() -> $name {
                $name::$usual
            }
        })?

        impl ::std::str::FromStr for $name {
            type Err = String;

            fn from_str(name: &str) -> Result<$name, String> {
                let expected = || format!("expected one of {}", $name::ALL.map($name::as_str).join(", "));
                $name::from_name(name).ok_or_else(expected)
            }
        }

        impl $crate::names::NamedChoice for $name {
            const VARIANTS: &'static [$name] = &$name::ALL;

            fn name(self) -> &'static str {
                self.as_str()
            }

            fn about(self) -> &'static str {
                match self { $($name::$variant => concat!($($about, "\n",)* ""),)+ }
            }
        }
    };
}
pub use names;
