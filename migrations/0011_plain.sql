-- Whether an attempt was asked for its answer in one piece. Columns: docs/measurement.md.

ALTER TABLE attempt ADD COLUMN plain INTEGER NOT NULL DEFAULT 0;
