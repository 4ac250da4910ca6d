-- Curves. Nobody wrote points before. Batches are rows as launchers hand them over; when a replica has many, they are folded
-- into the blocks of their series.
ALTER TABLE points
  ADD COLUMN rank       BIGINT NOT NULL DEFAULT -1,
  ADD COLUMN generation BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN upto       BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN made       BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN n          BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN first_step BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN last_step  BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN first_time BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN last_time  BIGINT NOT NULL DEFAULT 0,
  DROP CONSTRAINT points_pkey,
  ADD PRIMARY KEY (task, name, replica, rank, generation, block);
CREATE TABLE point_batches (
  task    TEXT COLLATE "C" NOT NULL,
  replica TEXT COLLATE "C" NOT NULL,
  seq     BIGINT NOT NULL,
  data    BYTEA NOT NULL,
  PRIMARY KEY (task, replica, seq)
);
CREATE TABLE point_sources (
  task    TEXT COLLATE "C" NOT NULL,
  replica TEXT COLLATE "C" NOT NULL,
  seq     BIGINT NOT NULL,
  waiting BIGINT NOT NULL,
  bytes   BIGINT NOT NULL,
  dropped BIGINT NOT NULL,
  known   BIGINT NOT NULL,
  PRIMARY KEY (task, replica)
);
CREATE TABLE point_series (
  task       TEXT COLLATE "C" NOT NULL,
  name       TEXT COLLATE "C" NOT NULL,
  rank       BIGINT NOT NULL,
  generation BIGINT NOT NULL,
  replica    TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (task, name, rank, generation, replica)
);
