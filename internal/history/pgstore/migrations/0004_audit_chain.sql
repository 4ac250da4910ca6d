ALTER TABLE audit
  ADD COLUMN token   TEXT COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN session TEXT COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN request TEXT COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN detail  TEXT COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN count   BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN since   BIGINT NOT NULL DEFAULT -9223372036854775808,
  -- The chain. Rows that are older than it have number 0 and no hash; audit_head says what they were together.
  ADD COLUMN number  BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN prev    TEXT COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN hash    TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX audit_actor ON audit (actor, seq);
CREATE INDEX audit_project ON audit (project, seq);

CREATE TABLE audit_head (
  id          INTEGER PRIMARY KEY CHECK (id = 1),
  number      BIGINT NOT NULL,
  hash        TEXT COLLATE "C" NOT NULL,
  prev        TEXT COLLATE "C" NOT NULL DEFAULT '',
  anchor_rows BIGINT NOT NULL,
  anchor_hash TEXT COLLATE "C" NOT NULL,
  anchor_time BIGINT NOT NULL
);
