//! Budgets that come near their ends: reported once, and in a header of each answer.

use photofinish_limits::{BudgetWarning, Calendar};

use super::{ANN, TOKEN, answer, ask, asking, priced, spent, user};
use crate::support::FakeProvider;

const HEADER: &str = "x-photofinish-budget-warning";

#[tokio::test]
async fn a_caller_hears_that_its_budget_comes_near_its_end() {
    for (warn, from) in [("", 8), ("warn = 0.5\n", 5)] {
        let fake = FakeProvider::answering(|_| answer(10)).await;
        let gateway = priced(&[&fake], &format!("{ANN}{warn}reserve = \"max\"\nbudget.day = 0.1")).start().await;
        for before in 0..10 {
            let answered = ask(&gateway, "ann", &asking(10)).await;
            assert_eq!(answered.status, 200);
            let expected = match before >= from {
                true => format!("user: 0.0{before} of 0.1 USD spent this day"),
                false => String::new(),
            };
            assert_eq!(answered.header(HEADER), expected);
            spent(&gateway, &user("ann")).await;
        }
        let refused = ask(&gateway, "ann", &asking(10)).await;
        assert_eq!((refused.status, refused.header(HEADER)), (429, "user: 0.1 of 0.1 USD spent this day"));
        let found = gateway.gateway().usage().take_warnings();
        let [BudgetWarning { level, near }] = found.as_slice() else { panic!("not once: {found:?}") };
        assert_eq!((level, near.calendar, near.spent), (&user("ann"), Calendar::Day, from * 10 * TOKEN));
        gateway.reload(&priced(&[&fake], &format!("{ANN}{warn}reserve = \"max\"\nbudget.day = 0.11"))).await;
        assert_eq!(ask(&gateway, "ann", &asking(10)).await.status, 200);
        spent(&gateway, &user("ann")).await;
        assert_eq!(gateway.gateway().usage().take_warnings().len(), 1, "another budget is reported again");
        gateway.stop().await;
    }
}
