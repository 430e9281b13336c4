-- Narrow rows hold costs as steps of 10^-10 USD (see narrow.sql). No table changes: an older program, which would read steps as dollars,
-- refuses the file by this number.
SELECT 1;
