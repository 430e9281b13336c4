//! A walk through the members of a JSON object.

/// The closure for a walk through an object ([`crate::json::Json::object`]): reads the members that are listed, and skips all
/// others.
#[macro_export]
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
