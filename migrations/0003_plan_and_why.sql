-- What was planned for a race, and why. Rows of older editions have neither. Columns: docs/measurement.md.

ALTER TABLE race ADD COLUMN plan TEXT;
ALTER TABLE race ADD COLUMN why TEXT;
