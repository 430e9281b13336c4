-- The audit has a bound: lines before the newest 1,000,000 may go, and no others.
DROP TRIGGER audit_delete;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit WHEN OLD.id > (SELECT max(id) FROM audit) - 1000000
BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;
