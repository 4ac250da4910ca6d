#!/usr/bin/env bash
# Runs long suites in many processes side by side, also on a machine that has neither this tree nor Go, nor a network.
#
#   far.sh pack DIR [SUITE…]                        build the program and the suites (silence), and put all that the other machine needs into DIR,
#                                                   compressed; FERMI_FAR_PROGRAM= leaves the program out that is there already
#   far.sh run silence PROCESSES [DRILLS [CALM]]    50 drills, and as many disturbances that lose nobody
#   far.sh run disk PROCESSES [DAMAGES]             500 damages of a data folder and 500 of a backup, and the rest of e2e-disk
#   far.sh run cards PROCESSES [DRILLS]             20 drills
#   far.sh run curves 1 [SECONDS]                   make bench-curves, 600 seconds of it and two minutes more
#   far.sh run trainers PROCESSES [KILLS]           10 kills of each script; FERMI_TRAINERS is a virtual environment with the libraries (that of python3)
#   far.sh run crash PROCESSES [ROUNDS]             50 rounds, the moments of each process of another seed
#   far.sh run faults PROCESSES [FAULTS]            200 faults, those of each process of another seed; python3 there has PyTorch
#   far.sh run safety PROCESSES [SCENARIOS]         a million scenarios of the planner
#   far.sh run ckpt PROCESSES [KILLS]               1,000 kills and ten times as many damages
#   far.sh run SUITE PROCESSES                      another suite below test: its tests shared out, each for itself
#                                                   run there: root, bash, python3; from the folder that pack made; FERMI_FAR_TREE is this tree
#                                                   there, which suites need that read files of it (e2e)
#
# Each process has its own servers, folders, ports and networks. What is done has numbers, so that a run can be split and resumed: see the suites' doc.go
# for their variables (FERMI_SILENCE_FROM, FERMI_SILENCE_FOR, FERMI_SILENCE_SEED, FERMI_DISK_SEED, FERMI_SEED, FERMI_ONLY …).
# Results: what was measured and what failed, and how many of each passed. Logs lie in a folder that is named at the end; where OUT is set all of them
# are $OUT/SUITE.log.gz. FERMI_FAR_SECONDS ends what still runs then, and tells of the rest.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# unpacked FILE TO
unpacked() {
	python3 -c 'import lzma, shutil, sys
with lzma.open(sys.argv[1]) as packed, open(sys.argv[2], "wb") as out: shutil.copyfileobj(packed, out)' "$1" "$2"
	chmod +x "$2"
}

pack() {
	local to=$1 suite
	shift
	mkdir -p "$to"
	to=$(cd "$to" && pwd)
	cd "$here/.."
	if [ -n "${FERMI_FAR_PROGRAM-yes}" ]; then
		CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$to/fermi" ./cmd/fermi
		xz -T0 -f -5 "$to/fermi"
	fi
	for suite in "${@:-silence}"; do
		case $suite in
		curves) CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$to/$suite.test" ./bench ;;
		ckpt) CGO_ENABLED=0 go test -c -trimpath -ldflags '-s -w' -o "$to/$suite.test" ./internal/ckpt ;;
		safety) CGO_ENABLED=0 go test -c -trimpath -ldflags '-s -w' -o "$to/$suite.test" ./sched/safety ;;
		*) CGO_ENABLED=0 go test -c -trimpath -ldflags '-s -w' -o "$to/$suite.test" "./test/$suite" ;;
		esac
		xz -T0 -f -5 "$to/$suite.test"
		[ ! -d "test/$suite/scripts" ] || { mkdir -p "$to/scripts" && cp -r "test/$suite/scripts" "$to/scripts/$suite"; }
	done
	cp "$here/far.sh" "$to/"
	ls -l "$to"
}

# begin NAME TEST VARIABLE=VALUE…: one process, whose output is $out/NAME.log
pids=() names=()
begin() {
	local name=$1 test=$2
	shift 2
	mkdir -p "$work/$name"
	[ ! -d "$here/scripts/$suite" ] || cp -r "$here/scripts/$suite" "$work/$name/scripts"
	local in=$work/$name
	[ -z "${FERMI_FAR_TREE:-}" ] || in=$FERMI_FAR_TREE/test/$suite
	(cd "$in" && exec env "$@" "$work/$suite.test" -test.v -test.run "$test" -test.timeout 120m) >"$out/$name.log" 2>&1 &
	pids+=($!) names+=("$name")
}

# parts NAME TEST COUNT VARIABLE: that many numbers, shared out over the processes; VARIABLE is how many one does, VARIABLE_FROM its first
parts() {
	local name=$1 test=$2 count=$3 variable=$4 first last p from
	from=${4}_FROM from=${!from:-0}
	for ((p = 0; p < processes; p++)); do
		first=$((count * p / processes)) last=$((count * (p + 1) / processes))
		[ "$last" -gt "$first" ] || continue
		begin "$name-$p" "$test" "$variable=$((last - first))" "${variable}_FROM=$((from + first))"
	done
}

run() {
	suite=$1 processes=$2 status=0
	local count=${3:-} p t
	work=$(mktemp -d) out=$(mktemp -d /tmp/far-results.XXXXXX)
	chmod 755 "$work" # tenants read what is in it
	unpacked "$here/fermi.xz" "$work/fermi"
	unpacked "$here/$suite.test.xz" "$work/$suite.test"
	export FERMI_BIN=$work/fermi
	case $suite in
	silence)
		parts drills '^TestDrills$' "${count:-50}" FERMI_SILENCE
		parts calm '^TestNoFalseLoss$' "${4:-${count:-50}}" FERMI_SILENCE
		;;
	disk)
		parts damages '^TestDamage$' "${count:-500}" FERMI_DAMAGES
		for test in $("$work/disk.test" -test.list . | grep -vx TestDamage); do begin "$test" "^$test\$"; done
		;;
	cards)
		for ((p = 0; p < processes; p++)); do
			begin "drills-$p" '^TestDrills$' "FERMI_SEED=$((${FERMI_SEED:-1} + p))" "FERMI_DRILLS=$((${count:-20} * (p + 1) / processes - ${count:-20} * p / processes))"
		done
		;;
	curves)
		mkdir -p "$work/bench/results"
		(cd "$work" && FERMI_CURVES_SECONDS=${count:-600} exec ./curves.test curves) >"$out/curves.log" 2>&1 &
		pids+=($!) names+=(curves)
		;;
	trainers)
		export FERMI_TRAINERS=${FERMI_TRAINERS:-$(python3 -c 'import sys; print(sys.prefix)')} FERMI_TRAINER_KILLS=${count:-10}
		for ((p = 0; p < processes; p++)); do begin "trials-$p" '^TestTrainers$' "FERMI_PART=$p/$processes"; done
		;;
	crash)
		for ((p = 0; p < processes; p++)); do
			begin "rounds-$p" '^TestCrash' "FERMI_CRASH_SEED=$((${FERMI_CRASH_SEED:-1} + p))" "FERMI_CRASH_ROUNDS=$((${count:-50} * (p + 1) / processes - ${count:-50} * p / processes))"
		done
		;;
	faults)
		for ((p = 0; p < processes; p++)); do
			begin "faults-$p" . "FERMI_FAULTS_SEED=$((${FERMI_FAULTS_SEED:-1} + p))" "FERMI_FAULTS=$((${count:-200} * (p + 1) / processes - ${count:-200} * p / processes))"
		done
		;;
	safety)
		count=${count:-1000000}
		for ((p = 0; p < processes; p++)); do
			begin "scenarios-$p" '^TestScenarios$' "FERMI_SEED=$((${FERMI_SEED:-1} + count * p / processes))" "FERMI_SCENARIOS=$((count * (p + 1) / processes - count * p / processes))"
		done
		;;
	ckpt)
		count=${count:-1000}
		for ((p = 0; p < processes; p++)); do
			begin "kills-$p" '^(TestKills|TestDamages|TestCollectBesideSaves)$' "FERMI_CKPT_KILLS=$((count / processes + 1))" "FERMI_CKPT_DAMAGES=$((count * 10 / processes + 1))" "FERMI_CKPT_COLLECTS=$((count / 5 / processes + 1))"
		done
		;;
	*)
		local tests
		mapfile -t tests < <("$work/$suite.test" -test.list . | grep '^Test')
		for ((p = 0; p < processes && p < ${#tests[@]}; p++)); do
			begin "tests-$p" "^($(for ((t = p; t < ${#tests[@]}; t += processes)); do printf '%s|' "${tests[$t]}"; done | sed 's/|$//'))\$"
		done
		;;
	esac
	local guard=
	if [ -n "${FERMI_FAR_SECONDS:-}" ]; then
		(trap 'kill $! && exit' TERM; sleep "$FERMI_FAR_SECONDS" & wait $! && kill "${pids[@]}") >/dev/null 2>&1 &
		guard=$!
	fi
	for p in "${!pids[@]}"; do
		wait "${pids[$p]}" || { status=1 && echo "${names[$p]} FAILED: $out/${names[$p]}.log"; }
	done
	[ -z "$guard" ] || kill "$guard" 2>/dev/null || true
	cat "$out"/*.log >"$out/all.txt"
	awk '/^=== RUN / { name = $3; sub(/^[^\/]*\//, "", name) }
		/: [0-9]+ of [0-9]+: found after|kills of .* over/ { line = $0; sub(/.*_test.go:[0-9]+: /, "", line); print name ": " line }' "$out/all.txt" | sort -n
	grep -hoE '[0-9]+: (paused|killed|six busy).*' "$out"/calm-*.log 2>/dev/null | sort -n || true
	grep -hE -B14 '^ *--- FAIL' "$out/all.txt" | tail -200 || true
	awk '/^ *--- (PASS|FAIL|SKIP): / { one = $3; sub(/\/.*/, "", one); n[one " " ($3 ~ /\// ? "parts " : "") substr($2, 1, 4)]++ } END { for (k in n) print k ": " n[k] }' "$out/all.txt" | sort
	grep -hB1 '^ *--- SKIP' "$out/all.txt" | grep -h '_test.go' | sort | uniq -c || true
	[ "$suite" != curves ] || cat "$out/all.txt"
	[ "$suite" != silence ] || echo "disturbances without a false loss: $(for f in "$out"/calm-*.log; do
		if grep -q '^--- PASS: TestNoFalseLoss' "$f"; then grep -E '[0-9]+: (paused|killed|six busy)' "$f"; fi
	done | wc -l)"
	echo "logs: $out"
	[ -z "${OUT:-}" ] || gzip -c "$out/all.txt" >"$OUT/$suite.log.gz"
	rm -rf "$work"
	return $status
}

case ${1:-} in
pack | run) "$@" ;;
*) sed -n '2,18s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
