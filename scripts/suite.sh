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
"$@" 2>&1 | tee "$log" | { grep --line-buffered -E '^(ok|FAIL|--- FAIL|panic:)|^ +(✓|✘) ' || true; } || status=$?
seconds=$(($(date +%s) - begin))

# What a skipped test said last is its reason; those of one test with one reason share a line.
skipped=$(awk '
	/^=== (RUN|CONT|NAME)/ { now = $3 }
	/_test\.go:[0-9]+: / { said = $0; sub(/^ +/, "", said); reason[now] = said }
	/^ *--- SKIP: / { name = $3; top = name; sub(/\/.*/, "", top); key = top ": " reason[name]; sub(/[a-z_]+_test\.go:[0-9]+: /, "", key)
		if (!(key in count)) order[++n] = key
		count[key]++ }
	END { for (i = 1; i <= n; i++) { c = count[order[i]]; print "  skipped " (c > 1 ? c " of " : "") order[i] } }' "$log")

if [ "$status" -ne 0 ]; then
	echo "---- output of $name"
	grep -vE '^ *(=== |--- (PASS|SKIP)|PASS$)|no test files' "$log" || true
	echo "---- end of $name; everything is in $log"
	line="$name: $seconds s FAILED"
	# What the failed said, once more in the summary: the whole output may be too long to be kept.
	line+=$'\n'$(awk '/^=== RUN *[^/]*$/ { n = 0 } !/level=|^=== |^---- / { said[n++ % 12] = $0 }
		/^ *(--- FAIL|panic:)/ { for (i = n > 12 ? n - 12 : 0; i < n; i++) print "  " said[i % 12]; n = 0 }' "$log" | cut -c1-600 | head -80)
else
	line="$name: $seconds s"
fi
[ -z "$skipped" ] || line+=$'\n'"$skipped"
echo "$line"
[ -z "${FERMI_SUITES:-}" ] || echo "$line" >>"$FERMI_SUITES"
exit "$status"
