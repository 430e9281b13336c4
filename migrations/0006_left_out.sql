-- Which upstreams a race could not start, and why. Rows of older editions have none. Columns: docs/measurement.md.

ALTER TABLE race ADD COLUMN left_out TEXT;
