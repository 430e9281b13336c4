//! `named!` declares an enum whose variants have names: the enum, `ALL`, `as_str` and `from_name`. Not for the names in the
//! configuration, which are also explained: see `config::names`.

/// Each variant is written `Variant = "name",`.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$about])* $variant,)+ }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: [$name; [$($name::$variant),+].len()] = [$($name::$variant),+];

            /// The name, wherever it is written.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            pub fn from_name(name: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|variant| variant.as_str() == name)
            }
        }
    };
}
