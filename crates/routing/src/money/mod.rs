//! Money: what an attempt costs, what extra attempts of a model may cost, and what one race has spent. Not for rows, which hold known
//! costs and no estimate.

mod cost_budget;
mod look_book;
mod race_budget;
mod recent_sums;
pub mod tariff;

pub use cost_budget::{BudgetSnapshot, CostBudget, SpentLately};
pub use look_book::LookBook;
pub(crate) use race_budget::lock;
pub use race_budget::{RaceBudget, SharedCostBudget};
