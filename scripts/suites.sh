#!/usr/bin/env bash
# Reads test/suites.txt: what CI runs, and everything in full.
#   suites.sh core      a line for each core suite: NAME SETTINGS…
#   suites.sh more      the others in the order in which they are wanted: NAME SECONDS WHY SETTINGS…
#   suites.sh samples   a line for each suite that CI runs smaller than it is
#   suites.sh all       runs in full those of which something that they cover changed since they passed; writes test/full-run after each
set -euo pipefail
cd "$(dirname "$0")/.."

# table prints NAME KIND SECONDS SETTINGS|FOLDERS, settings joined by commas, "-" for none.
table() {
	awk '!/^#/ && NF { s = ""; f = ""; for (i = 4; i <= NF; i++) if ($i ~ /=/) s = s (s ? "," : "") $i; else if ($i != "-") f = f (f ? "," : "") $i
		print $1, $2, $3, s ? s : "-", f ? f : "." }' test/suites.txt
}

# full prints the commit on which a suite last passed in full; nothing if nobody knows.
full() {
	awk -v s="$1" '!/^#/ && $1 == s { print $2; exit }' test/full-run 2>/dev/null || true
}

# changed says whether a file below the folders of a suite changed since it last passed in full: NAME FOLDERS.
changed() {
	local at folders
	at=$(full "$1")
	IFS=, read -ra folders <<<"$2"
	[ -n "$at" ] && git cat-file -e "$at^{commit}" 2>/dev/null || return 0 # nobody knows: changed
	! git diff --quiet "$at" HEAD -- "${folders[@]}" go.mod
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
	first=() later=()
	while read -r name kind seconds settings folders; do
		[ "$kind" = more ] || continue
		line="${settings//,/ }"
		[ "$line" = "-" ] && line=
		if changed "$name" "$folders"; then
			first+=("$name $seconds changed $line")
		else
			later+=("$name $seconds in-turn $line")
		fi
	done < <(table)
	for ((i = 0; i < ${#first[@]}; i++)); do
		echo "${first[(i + turn) % ${#first[@]}]}"
	done
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
	if [ -n "$(git status --porcelain | grep -v ' test/full-run$')" ]; then
		echo "commit first: what passed is remembered for a commit" >&2
		exit 1
	fi
	while read -r name _ _ _ folders; do
		if ! changed "$name" "$folders"; then
			echo "$name passed in full at $(full "$name"); nothing that it covers changed since"
			continue
		fi
		at=$(git rev-parse --short=12 HEAD)
		make "$name" </dev/null
		{
			grep -v "^$name " test/full-run || true
			echo "$name $at"
		} >test/full-run.new
		mv test/full-run.new test/full-run
	done < <(table)
	echo "all passed in full; test/full-run says when: commit it"
	;;
*)
	sed -n '2,6p' "$0"
	exit 2
	;;
esac
