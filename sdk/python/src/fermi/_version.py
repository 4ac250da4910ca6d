"""The version that a rank says in its hello."""

VERSION = "0.1.0"
