-- Races that did not end well: a page of them read every race of the history.
CREATE INDEX race_not_ok ON race (outcome, race_id) WHERE outcome <> 'ok';
