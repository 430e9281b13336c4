-- The part of an attempt's prompt that its provider wrote into its cache. Rows of older editions have none. Columns:
-- docs/measurement.md.

ALTER TABLE attempt ADD COLUMN cache_write_tokens INTEGER;
