-- What gateways carried for services: a minute of a revision, or an hour of a key.
CREATE TABLE served (
  width      BIGINT NOT NULL,
  start      BIGINT NOT NULL,
  service_id TEXT COLLATE "C" NOT NULL,
  gateway    TEXT COLLATE "C" NOT NULL,
  key        TEXT COLLATE "C" NOT NULL,
  revision   BIGINT NOT NULL,
  project    TEXT COLLATE "C" NOT NULL,
  service    TEXT COLLATE "C" NOT NULL,
  requests   BIGINT NOT NULL,
  errors     BIGINT NOT NULL,
  refused    BIGINT NOT NULL,
  slow       BIGINT NOT NULL,
  tokens     BIGINT NOT NULL,
  begun      TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (width, start, service_id, gateway, key, revision)
);
CREATE INDEX served_service ON served (service_id, width, start);
CREATE INDEX served_key ON served (key, width, start);
