//! Budgets between the gateway's memory and the store.

use photofinish_history::store::BudgetRow;
use photofinish_limits::{BudgetChange, Calendar, LevelName};

/// For the store.
pub fn row(change: BudgetChange) -> BudgetRow {
    let BudgetChange { level, calendar, start_us, spent, reserved, estimated } = change;
    BudgetRow {
        subject: subject(&level),
        span: calendar.as_str().to_owned(),
        start: start_us,
        spent,
        reserved,
        estimated,
    }
}

/// As the store names it.
pub fn subject(level: &LevelName) -> String {
    match level {
        LevelName::Everybody => level.kind().to_owned(),
        named => format!("{}:{}", named.kind(), named.name()),
    }
}

/// From the store. None: of another version.
pub fn change(row: &BudgetRow) -> Option<BudgetChange> {
    let calendar = Calendar::ALL.into_iter().find(|calendar| calendar.as_str() == row.span)?;
    let level = level(&row.subject)?;
    let BudgetRow { start, spent, reserved, estimated, .. } = *row;
    Some(BudgetChange { level, calendar, start_us: start, spent, reserved, estimated })
}

/// The reverse of [`subject`]. None: of another version.
pub fn level(subject: &str) -> Option<LevelName> {
    match subject.split_once(':') {
        None => (subject == LevelName::Everybody.kind()).then_some(LevelName::Everybody),
        Some((kind, name)) => [LevelName::Team, LevelName::User, LevelName::Key, LevelName::Models]
            .into_iter()
            .map(|level| level(name.into()))
            .find(|level| level.kind() == kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_comes_back_as_it_was() {
        let levels = [
            LevelName::Everybody,
            LevelName::Team("a:b".into()),
            LevelName::User("everybody".into()),
            LevelName::Key("k".into()),
            LevelName::Models("opus-* of user a:b".into()),
        ];
        for (level, calendar) in levels.into_iter().flat_map(|level| Calendar::ALL.map(|of| (level.clone(), of))) {
            let kept = BudgetChange { level, calendar, start_us: 1, spent: 2, reserved: 3, estimated: 4 };
            assert_eq!(change(&row(kept.clone())), Some(kept));
        }
        let other = BudgetRow {
            subject: "planet:earth".to_owned(),
            span: "day".to_owned(),
            start: 0,
            spent: 0,
            reserved: 0,
            estimated: 0,
        };
        assert_eq!(change(&other), None);
    }
}
