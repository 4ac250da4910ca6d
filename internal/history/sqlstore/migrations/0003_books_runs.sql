-- Shares of devices and spot prices count; what a stay costs follows from its zone's books.
ALTER TABLE usage ADD COLUMN thousandths BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN spot BIGINT NOT NULL DEFAULT 0;
UPDATE usage SET thousandths = devices * 1000;

CREATE TABLE books (
  zone  TEXT NOT NULL,
  since BIGINT NOT NULL,
  body  TEXT NOT NULL,
  PRIMARY KEY (zone, since)
);

-- What a new leader learns from.
CREATE TABLE runs (
  task      TEXT PRIMARY KEY,
  owner     TEXT NOT NULL,
  name      TEXT NOT NULL,
  framework TEXT NOT NULL,
  work      TEXT NOT NULL,
  devices   BIGINT NOT NULL,
  nodes     BIGINT NOT NULL,
  zones     TEXT NOT NULL,
  ran       BIGINT NOT NULL,
  last      BIGINT NOT NULL,
  declared  BIGINT NOT NULL,
  succeeded BIGINT NOT NULL,
  ended     BIGINT NOT NULL
);
CREATE INDEX runs_ended ON runs (ended);
