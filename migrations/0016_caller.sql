-- In other databases `SELECT user` is the account of the connection: a wrong answer without an error. Columns:
-- docs/measurement.md.

ALTER TABLE race RENAME COLUMN user TO caller;
ALTER TABLE rollup RENAME COLUMN user TO caller;
