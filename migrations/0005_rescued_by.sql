-- Who went on with an answer that broke off. Rows of older editions have none. Columns: docs/measurement.md.

ALTER TABLE race ADD COLUMN rescued_by INTEGER;
