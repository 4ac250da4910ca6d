#!/usr/bin/env bash
# platform.sh [FERMI]: the whole platform on a machine with a card. It finds the card, tests it before the start, a task computes on it, is killed, hangs
# and is stopped in the middle, and ends with the bits of one that nobody touched.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d /tmp/fermi-gpu.XXXXXX)
. "$here/program.sh"
fermi=$(program "${1:-bin/fermi}" "$dir")
export FERMI_DATA=$dir/data FERMI_SERVER=http://127.0.0.1:${PORT:-7171} FERMI_LANG=en
steps=${STEPS:-120}
resources=${RESOURCES:-'{cpu: 8, memory: 32Gi, accelerators: {count: 1}}'} # of a machine without a card: {cpu: 1, memory: 4Gi}

mkdir -m 0777 "$dir/code"
chmod a+rx "$dir"
"$fermi" up --listen "${FERMI_SERVER#http://}" --folder "code=$dir/code" >"$dir/server.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -rf "$dir"' EXIT
for _ in $(seq 200); do "$fermi" top >/dev/null 2>&1 && break; sleep 0.05; done
"$fermi" top

cp "$here/train.py" "$dir/code"
"$fermi" get project default -o yaml | sed 's/^spec:.*/spec:\n  folders: [code]/' | "$fermi" apply -f -

run() { # NAME
	"$fermi" apply -f - <<EOF
apiVersion: fermi/v1
kind: TrainingTask
metadata: {name: $1}
spec:
  roles:
  - command: ["${PYTHON:-python3}", train.py, "$steps"]
    standby: {preload: [${PRELOAD:-torch}]}
    resources: $resources
  checkpoint: {local: {everySteps: 50}}
  code: {folder: code}
  preflight: require
  restartPolicy: {maxRestarts: 20}
EOF
}

step() { "$fermi" get trainingtask "$1" -o json | sed -n 's/^ *"step": *\([0-9]*\).*/\1/p' | head -1; }

past() { # NAME STEP: waits until it is past the step
	for _ in $(seq 1200); do [ "$(step "$1")" -gt "$2" ] 2>/dev/null && return; sleep 0.1; done
	echo "$1 never got past step $2"
	"$fermi" describe trainingtask "$1" || true
	"$fermi" logs "$1" | tail -30 || true
	exit 1
}

digest() {
	"$fermi" logs "$1" --follow >"$dir/$1.log"
	grep -a 'digest ' "$dir/$1.log" | tail -1 | grep -o '[0-9a-f]\{64\}' || { tail -30 "$dir/$1.log" >&2; "$fermi" describe trainingtask "$1" >&2; }
}

run calm
calm=$(digest calm)
grep -a ' saves, ' "$dir/calm.log" | tail -1
"$fermi" describe trainingtask calm | grep 'a test computation was right' || { echo "the preflight did not compute on the card"; "$fermi" describe trainingtask calm; exit 1; }
run hurt
past hurt 20
"$fermi" train fault hurt --rank 0 --kind kill
past hurt 60
"$fermi" train fault hurt --rank 0 --kind stop
hurt=$(digest hurt)
grep -a ' after ' "$dir/hurt.log"
"$fermi" describe trainingtask hurt | sed -n '1,60p'
echo "calm $calm"
echo "hurt $hurt"
[ "$calm" = "$hurt" ] || { echo "the bits differ"; exit 1; }
echo "the same bits"
