CREATE TABLE events (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  time    BIGINT NOT NULL,
  kind    TEXT NOT NULL,
  project TEXT NOT NULL,
  name    TEXT NOT NULL,
  object  TEXT NOT NULL,
  type    TEXT NOT NULL,
  reason  TEXT NOT NULL,
  en      TEXT NOT NULL,
  zh      TEXT NOT NULL,
  actor   TEXT NOT NULL,
  dedup   TEXT
);
CREATE UNIQUE INDEX events_dedup ON events (dedup) WHERE dedup IS NOT NULL;
CREATE INDEX events_object ON events (object, seq);
CREATE INDEX events_project ON events (project, seq);
CREATE INDEX events_kind ON events (kind, seq);
CREATE INDEX events_time ON events (time);

CREATE TABLE audit (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  time    BIGINT NOT NULL,
  actor   TEXT NOT NULL,
  verb    TEXT NOT NULL,
  kind    TEXT NOT NULL,
  project TEXT NOT NULL,
  name    TEXT NOT NULL,
  object  TEXT NOT NULL,
  before  TEXT NOT NULL,
  after   TEXT NOT NULL,
  remote  TEXT NOT NULL,
  outcome TEXT NOT NULL
);

CREATE TABLE usage (
  replica    TEXT PRIMARY KEY,
  task       TEXT NOT NULL,
  project    TEXT NOT NULL,
  owner      TEXT NOT NULL,
  zone       TEXT NOT NULL,
  node       TEXT NOT NULL,
  devices    BIGINT NOT NULL,
  type       TEXT NOT NULL,
  cpu        BIGINT NOT NULL,
  memory     BIGINT NOT NULL,
  start      BIGINT NOT NULL,
  stop       BIGINT,
  exit_code  BIGINT NOT NULL,
  reason     TEXT NOT NULL,
  cpu_time   BIGINT NOT NULL,
  peak_bytes BIGINT NOT NULL,
  price_hour DOUBLE PRECISION NOT NULL
);
CREATE INDEX usage_task ON usage (task, start, replica);

-- The narrow half of archived objects: what lists filter and sort by.
CREATE TABLE archived (
  seq      INTEGER PRIMARY KEY,
  kind     TEXT NOT NULL,
  id       TEXT NOT NULL,
  project  TEXT NOT NULL,
  owner    TEXT NOT NULL,
  name     TEXT NOT NULL,
  sort_key TEXT NOT NULL,
  updated  TEXT NOT NULL,
  phase    TEXT NOT NULL,
  queue    TEXT NOT NULL,
  labels   TEXT NOT NULL,
  haystack TEXT NOT NULL,
  expires  BIGINT
);
CREATE UNIQUE INDEX archived_id ON archived (kind, id);
CREATE INDEX archived_name ON archived (kind, name, id);
CREATE INDEX archived_display ON archived (kind, sort_key, id);
CREATE INDEX archived_updated ON archived (kind, updated, id);
CREATE INDEX archived_expires ON archived (expires) WHERE expires IS NOT NULL;

-- The wide half: the object as compressed JSON.
CREATE TABLE archived_body (
  seq  INTEGER PRIMARY KEY,
  body BLOB NOT NULL
);

-- Words of archived rows (hashed pairs of characters, projects, owners, phases …) to row numbers.
CREATE VIRTUAL TABLE archived_words USING fts5 (words, content='', columnsize=0, detail=none, tokenize='ascii');

-- Runs of neighbours in each order, with a Bloom filter of the words of all rows in the run.
CREATE TABLE archived_zone (
  kind   TEXT NOT NULL,
  sort   TEXT NOT NULL,
  lo     TEXT NOT NULL,
  lo_id  TEXT NOT NULL,
  n      BIGINT NOT NULL,
  filter BLOB NOT NULL,
  PRIMARY KEY (kind, sort, lo, lo_id)
);

CREATE TABLE points (
  task    TEXT NOT NULL,
  name    TEXT NOT NULL,
  replica TEXT NOT NULL,
  block   BIGINT NOT NULL,
  n       BIGINT NOT NULL,
  data    BLOB NOT NULL,
  PRIMARY KEY (task, name, replica, block)
);
