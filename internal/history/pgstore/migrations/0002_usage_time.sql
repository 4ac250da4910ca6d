-- Sums of usage look at a span of time.
CREATE INDEX usage_start ON usage (start);
CREATE INDEX usage_stop ON usage (stop);
