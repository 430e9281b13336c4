//! What the shared texts have that Postgres does not.

/// The rows of a JSON list.
const LIST: &str = "jsonb_array_elements_text(CAST(CAST(LIST AS TEXT) AS jsonb)) AS list(value)";

/// The text for Postgres. SQLite's parameters are `?1`, its hints name an index or the order of a join.
pub(in crate::store) fn dialect(sql: &str) -> String {
    let mut text = sql.replace("CROSS JOIN ", "JOIN ");
    for (begin, end, written) in [("json_each(", ")", Some(LIST)), (" INDEXED BY ", " ", None)] {
        while let Some((before, found)) = text.split_once(begin) {
            let (argument, behind) = found.split_once(end).unwrap_or((found, ""));
            let written = written.map_or_else(|| end.to_owned(), |written| written.replace("LIST", argument));
            text = format!("{before}{written}{behind}");
        }
    }
    text.replace('?', "$")
}

#[cfg(test)]
mod tests {
    use super::dialect;

    #[test]
    fn hints_and_parameters_are_rewritten() {
        for (sqlite, postgres) in [
            ("SELECT a FROM b WHERE c = ?1 AND d < ?12", "SELECT a FROM b WHERE c = $1 AND d < $12"),
            ("SELECT s FROM r INDEXED BY r_due WHERE I = ?1", "SELECT s FROM r WHERE I = $1"),
            ("race CROSS JOIN attempt ON x = y", "race JOIN attempt ON x = y"),
            (
                "IN (SELECT value FROM json_each(?1))",
                "IN (SELECT value FROM jsonb_array_elements_text(CAST(CAST($1 AS TEXT) AS jsonb)) AS list(value))",
            ),
        ] {
            assert_eq!(dialect(sqlite), postgres);
        }
    }
}
