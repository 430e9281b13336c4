//! Calls of a conversation that wait for their results, for surfaces whose clients may send neither id.

/// In order of the calls.
#[derive(Default)]
pub(crate) struct OpenCalls {
    /// Ids and names.
    open: Vec<(String, String)>,
    /// Calls so far.
    count: usize,
}

impl OpenCalls {
    /// Adds a call, and returns its id: its own, or one by its number.
    pub(crate) fn call(&mut self, id: Option<String>, name: &str) -> String {
        let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{}", self.count));
        self.count += 1;
        self.open.push((id.clone(), name.to_owned()));
        id
    }

    /// Id and name of the call that a result belongs to: the one with its id, else the first of its function, else the
    /// first. None without an open call.
    pub(crate) fn answer(&mut self, id: Option<&str>, name: Option<&str>) -> Option<(String, String)> {
        let by_id = self.open.iter().position(|(open, _)| id == Some(open));
        let by_name = || self.open.iter().position(|(_, open)| name == Some(open));
        let at = by_id.or_else(by_name).or((!self.open.is_empty()).then_some(0))?;
        Some(self.open.remove(at))
    }
}
