-- Whether the calls and the structured output of an answer are what its request asked for. Columns: docs/measurement.md.

ALTER TABLE attempt ADD COLUMN calls TEXT;
ALTER TABLE attempt ADD COLUMN structured TEXT;
ALTER TABLE attempt ADD COLUMN tool_set INTEGER;
