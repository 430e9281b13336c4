-- Where the price of an attempt comes from. Rows of older editions have none. Columns: docs/measurement.md.

ALTER TABLE attempt ADD COLUMN price_source TEXT;
