//! Macros of the crate: enums whose values have names, and walks through the members of a JSON object.

/// Makes an enum with the names of its values: `ALL`, `as_str` and `from_name`.
macro_rules! names {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$says:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$says])* $variant,)+ }

        impl $name {
            pub const ALL: [$name; [$($text),+].len()] = [$($name::$variant,)+];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            pub fn from_name(name: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|known| known.as_str() == name)
            }
        }
    };
}

/// The closure for a walk through an object ([`crate::json::Json::object`]): reads the members that are listed, and skips all
/// others.
macro_rules! members {
    (|$json:ident| { $($name:pat $(if $also:expr)? => $read:expr,)+ }) => {
        |name, $json| {
            match name {
                $($name $(if $also)? => $read,)+
                _ => drop($json.skip()?),
            }
            Ok(())
        }
    };
}
