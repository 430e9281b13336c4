-- What was predicted for an attempt when it was started, to be held against what came. Columns: docs/measurement.md.

ALTER TABLE attempt ADD COLUMN predicted_us INTEGER;
