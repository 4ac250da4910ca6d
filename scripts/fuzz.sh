#!/usr/bin/env bash
# Runs every fuzz target of the repository for $FUZZTIME each.
set -euo pipefail

targets=$(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's#^\./(.*)/[^/]+:[0-9]+:func (.*)$#\1 \2#' | sort)
status=0
while read -r dir name; do
	[ -n "$name" ] || continue
	scripts/suite.sh "fuzz-$(basename "$dir")-$name" go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-10s}" -fuzzminimizetime 20x "./$dir" || status=1
done <<<"$targets"
exit $status
