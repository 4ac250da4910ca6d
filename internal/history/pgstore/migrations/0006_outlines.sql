-- Outlines of blocks that are full: what a picture of a long curve needs of them. Blocks from before have none, and are read whole.
CREATE TABLE point_outlines (
  task       TEXT COLLATE "C" NOT NULL,
  name       TEXT COLLATE "C" NOT NULL,
  replica    TEXT COLLATE "C" NOT NULL,
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
  data       BYTEA NOT NULL,
  PRIMARY KEY (task, name, replica, rank, generation, block)
);
