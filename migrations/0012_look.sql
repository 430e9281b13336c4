-- Looks: a fair sample of each upstream. Columns: docs/measurement.md.

ALTER TABLE race ADD COLUMN p_look REAL;
ALTER TABLE race ADD COLUMN look TEXT;
ALTER TABLE race ADD COLUMN look_out TEXT;

-- Few rows are in it.
CREATE INDEX race_look ON race (started_at) WHERE look IS NOT NULL;
