-- Curves. Nobody wrote points before. Batches are rows as launchers hand them over; when a replica has many, they are folded
-- into the blocks of their series.
DROP TABLE points;
CREATE TABLE points (
  task       TEXT NOT NULL,
  name       TEXT NOT NULL,
  replica    TEXT NOT NULL,
  rank       BIGINT NOT NULL,
  generation BIGINT NOT NULL,
  block      BIGINT NOT NULL,
  upto       BIGINT NOT NULL,
  made       BIGINT NOT NULL,
  n          BIGINT NOT NULL,
  first_step BIGINT NOT NULL,
  last_step  BIGINT NOT NULL,
  first_time BIGINT NOT NULL,
  last_time  BIGINT NOT NULL,
  data       BLOB NOT NULL,
  PRIMARY KEY (task, name, replica, rank, generation, block)
);
CREATE TABLE point_batches (
  task    TEXT NOT NULL,
  replica TEXT NOT NULL,
  seq     BIGINT NOT NULL,
  data    BLOB NOT NULL,
  PRIMARY KEY (task, replica, seq)
) WITHOUT ROWID;
CREATE TABLE point_sources (
  task    TEXT NOT NULL,
  replica TEXT NOT NULL,
  seq     BIGINT NOT NULL,
  waiting BIGINT NOT NULL,
  bytes   BIGINT NOT NULL,
  dropped BIGINT NOT NULL,
  known   BIGINT NOT NULL,
  PRIMARY KEY (task, replica)
) WITHOUT ROWID;
CREATE TABLE point_series (
  task       TEXT NOT NULL,
  name       TEXT NOT NULL,
  rank       BIGINT NOT NULL,
  generation BIGINT NOT NULL,
  replica    TEXT NOT NULL,
  PRIMARY KEY (task, name, rank, generation, replica)
) WITHOUT ROWID;
