#!/usr/bin/env bash
# Runs one suite: suite.sh NAME COMMAND... Shows a line a package while it runs and the whole
# output if it fails, then "NAME: SECONDS s" and what was skipped and why. The full output is
# .cache/log/NAME.log; the line is also appended to $FERMI_SUITES for a summary.
set -euo pipefail

name=$1
shift
mkdir -p .cache/log
log=.cache/log/$name.log
begin=$(date +%s)
status=0
"$@" 2>&1 | tee "$log" | { grep --line-buffered -E '^(ok|FAIL|--- FAIL|panic:)' || true; } || status=$?
seconds=$(($(date +%s) - begin))

# The reason of a skip is the line before it.
skipped=$(awk '/^ *--- SKIP/ { sub(/^ +/, "", before); sub(/^ *--- SKIP: /, ""); print "  skipped " $1 ": " before } { before = $0 }' "$log")

if [ "$status" -ne 0 ]; then
	echo "---- output of $name"
	grep -vE '^ *(=== |--- (PASS|SKIP)|PASS$)|no test files' "$log" || true
	echo "---- end of $name; everything is in $log"
	line="$name: $seconds s FAILED"
else
	line="$name: $seconds s"
fi
[ -z "$skipped" ] || line+=$'\n'"$skipped"
echo "$line"
[ -z "${FERMI_SUITES:-}" ] || echo "$line" >>"$FERMI_SUITES"
exit "$status"
