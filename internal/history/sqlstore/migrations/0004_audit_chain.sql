ALTER TABLE audit ADD COLUMN token   TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN session TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN request TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN detail  TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN count   BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit ADD COLUMN since   BIGINT NOT NULL DEFAULT -9223372036854775808;
-- The chain. Rows that are older than it have number 0 and no hash; audit_head says what they were together.
ALTER TABLE audit ADD COLUMN number  BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit ADD COLUMN prev    TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN hash    TEXT NOT NULL DEFAULT '';
CREATE INDEX audit_actor ON audit (actor, seq);
CREATE INDEX audit_project ON audit (project, seq);

CREATE TABLE audit_head (
  id          INTEGER PRIMARY KEY CHECK (id = 1),
  number      BIGINT NOT NULL,
  hash        TEXT NOT NULL,
  anchor_rows BIGINT NOT NULL,
  anchor_hash TEXT NOT NULL,
  anchor_time BIGINT NOT NULL
);
