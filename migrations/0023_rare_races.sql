-- A question to the view has `COLLATE BINARY` behind what the view computes, and an index of some rows is used only where its condition
-- reads the same.
DROP INDEX race_row_apart;
DROP INDEX race_row_not_ok;
CREATE INDEX race_row_apart ON race_row (coalesce(source, 'client'), race_id) WHERE coalesce(source, 'client') COLLATE BINARY <> 'client';
CREATE INDEX race_row_not_ok ON race_row (CASE outcome WHEN 1 THEN 'ok' WHEN 2 THEN 'error' WHEN 3 THEN 'client_gone' WHEN 4 THEN 'rejected' WHEN 5 THEN 'shutdown' ELSE outcome END, race_id) WHERE CASE outcome WHEN 1 THEN 'ok' WHEN 2 THEN 'error' WHEN 3 THEN 'client_gone' WHEN 4 THEN 'rejected' WHEN 5 THEN 'shutdown' ELSE outcome END COLLATE BINARY <> 'ok';
