-- The tier that served an attempt, where it is not the usual one. Rows of older editions have none. Columns:
-- docs/measurement.md.

ALTER TABLE attempt ADD COLUMN service_tier TEXT;
