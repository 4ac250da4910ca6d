"""The layout of a slot: docs/reference/rank-protocol.md. Generated from internal/slot by go generate."""

MAGIC = b"FERMIL0\x01"
COPIED = 1
WHOLE = 2
HEADER = 76
DATA = 4096
SUM = 8388608
ROOM = 65536
