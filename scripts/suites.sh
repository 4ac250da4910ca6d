#!/usr/bin/env bash
# Reads test/suites.txt: what CI runs, and everything in full.
#   suites.sh core      a line for each core suite: NAME SETTINGS…
#   suites.sh more      the others in the order in which they are wanted: NAME SECONDS WHY SETTINGS…
#   suites.sh samples   a line for each suite that CI runs smaller than it is
#   suites.sh all       runs all in full; those that passed on this very tree are not run again; then writes test/full-run
set -euo pipefail
cd "$(dirname "$0")/.."

# table prints NAME KIND SECONDS SETTINGS|FOLDERS, settings joined by commas, "-" for none.
table() {
	awk '!/^#/ && NF { s = ""; f = ""; for (i = 4; i <= NF; i++) if ($i ~ /=/) s = s (s ? "," : "") $i; else if ($i != "-") f = f (f ? "," : "") $i
		print $1, $2, $3, s ? s : "-", f ? f : "." }' test/suites.txt
}

# changed says whether a file below one of the folders changed since everything was run.
changed() {
	local full folders
	full=$(awk '!/^#/ && NF { print $1; exit }' test/full-run 2>/dev/null || true)
	IFS=, read -ra folders <<<"$1"
	[ -n "$full" ] && git cat-file -e "$full^{commit}" 2>/dev/null || return 0 # nobody knows: all changed
	! git diff --quiet "$full" HEAD -- "${folders[@]}"
}

case ${1:-} in
core)
	table | while read -r name kind _ settings _; do
		[ "$kind" = core ] && echo "$name ${settings//,/ }" | sed 's/ -$//'
	done
	;;
more)
	# A fresh clone does not know what ran before: the count of commits turns the list, so that each comes first in its turn.
	turn=$(git rev-list --count HEAD 2>/dev/null || echo 0)
	later=()
	while read -r name kind seconds settings folders; do
		[ "$kind" = more ] || continue
		line="${settings//,/ }"
		[ "$line" = "-" ] && line=
		if changed "$folders"; then
			echo "$name $seconds changed $line"
		else
			later+=("$name $seconds in-turn $line")
		fi
	done < <(table)
	for ((i = 0; i < ${#later[@]}; i++)); do
		echo "${later[(i + turn) % ${#later[@]}]}"
	done
	;;
samples)
	table | while read -r name _ _ settings _; do
		[ "$settings" = "-" ] || echo "$name is a sample in CI (${settings//,/ }); make $name runs it whole"
	done
	;;
all)
	if [ -n "$(git status --porcelain)" ]; then
		echo "commit first: what passed is remembered for a tree" >&2
		exit 1
	fi
	tree=$(git rev-parse 'HEAD^{tree}')
	mkdir -p .cache/passed
	while read -r name _; do
		mark=.cache/passed/$tree-$name
		if [ -e "$mark" ]; then
			echo "$name passed on this tree before"
			continue
		fi
		make "$name" </dev/null
		touch "$mark"
	done < <(table)
	printf '# The commit on which every suite of test/suites.txt last passed in full (make e2e-all writes it).\n%s\n' "$(git rev-parse HEAD)" >test/full-run
	echo "all passed in full; test/full-run names this commit: commit it"
	;;
*)
	sed -n '2,6p' "$0"
	exit 2
	;;
esac
