#!/usr/bin/env bash
# trainers.sh [FERMI]: an ordinary Transformers script with a state of 4 GB on a card, saved in memory by the platform (checkpoint.instant). The stall of a
# save is at most 1.2 times a plain copy into pinned memory in the same process; killed, it ends with the bits of the run that nobody touched, saved or
# not. What was measured goes to $OUT. FERMI_DEVICE=cpu: a small state without a card, and the stall is not judged.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d /tmp/fermi-trainers.XXXXXX)
. "$here/program.sh"
fermi=$(program "${1:-bin/fermi}" "$dir")
out=${OUT:-$dir/out}
steps=${STEPS:-60}
device=${FERMI_DEVICE:-cuda}
export FERMI_DATA=$dir/data FERMI_SERVER=http://127.0.0.1:${PORT:-7173} FERMI_LANG=en
resources='{cpu: 8, memory: 48Gi, accelerators: {count: 1}}'
[ "$device" != cpu ] || resources='{cpu: 1, memory: 8Gi}'

mkdir -p "$out"
mkdir -m 0777 "$dir/code"
chmod a+rx "$dir"
cp "$here/trainers.py" "$dir/code"
"$fermi" up --listen "${FERMI_SERVER#http://}" --folder "code=$dir/code" >"$dir/server.log" 2>&1 &
server=$!
leave() {
	for task in plain calm hurt; do "$fermi" train stop "$task" >/dev/null 2>&1 || true; done
	kill $server 2>/dev/null || true
	wait $server 2>/dev/null || true
	cp "$dir"/*.log "$out" 2>/dev/null || true
	rm -rf "$dir"
}
trap leave EXIT
for _ in $(seq 200); do "$fermi" top >/dev/null 2>&1 && break; sleep 0.05; done
"$fermi" get project default -o yaml | sed 's/^spec:.*/spec:\n  folders: [code]/' | "$fermi" apply -f -

run() { # NAME CHECKPOINT
	"$fermi" apply -f - <<YAML
apiVersion: fermi/v1
kind: TrainingTask
metadata: {name: $1}
spec:
  roles:
  - command: ["${PYTHON:-python3}", trainers.py, "$steps"]
    env: [{name: DEVICE, value: "$device"}, {name: HF_HUB_OFFLINE, value: "1"}, {name: OMP_NUM_THREADS, value: "${THREADS:-8}"}]
    resources: $resources
  checkpoint: $2
  code: {folder: code}
  restartPolicy: {maxRestarts: 20}
YAML
}

step() { "$fermi" get trainingtask "$1" -o json | sed -n 's/^ *"step": *\([0-9]*\).*/\1/p' | head -1; }

past() { # NAME STEP: waits until it is past the step
	for _ in $(seq 1200); do [ "$(step "$1")" -gt "$2" ] 2>/dev/null && return; sleep 0.1; done
	echo "$1 never got past step $2"
	"$fermi" describe trainingtask "$1" || true
	"$fermi" logs "$1" | tail -30 || true
	exit 1
}

ended() { # NAME WORD: what it printed behind the word
	grep -a "$2 " "$dir/$1.log" | tail -1 | sed "s/.*$2 //" | grep . || { tail -40 "$dir/$1.log" >&2; "$fermi" describe trainingtask "$1" >&2; exit 1; }
}

run calm '{instant: auto}'
"$fermi" logs calm --follow >"$dir/calm.log"
run hurt '{instant: auto}'
past hurt $((steps / 4))
for _ in 1 2 3 4 5; do "$fermi" train fault hurt --rank 0 --kind kill && break; done # a launcher on a busy machine may answer late
"$fermi" logs hurt --follow >"$dir/hurt.log"
"$fermi" describe trainingtask hurt >"$dir/describe.log"
grep -a 'goes on after step' "$dir/hurt.log" || { echo "it did not go on from memory"; tail -30 "$dir/hurt.log"; exit 1; }
grep 'of an instant save in memory' "$dir/describe.log" || { echo "where it went on from is not shown"; cat "$dir/describe.log"; exit 1; }
calm=$(ended calm digest)
hurt=$(ended hurt digest)
measured=$(ended calm measured)
printf '%s\n' "calm $calm" "hurt $hurt" "measured $measured" | tee "$out/trainers.txt"
[ "$calm" = "$hurt" ] || { echo "the bits differ"; exit 1; }
echo "the same bits" | tee -a "$out/trainers.txt"
"${PYTHON:-python3}" - "$measured" <<'PY' | tee -a "$out/trainers.txt"
import json, sys
m = json.loads(sys.argv[1])
print("state %.2f GiB; a save holds training up for %.2f ms (median of %d, the first %.1f ms); one plain copy %.2f ms, tensor by tensor %.2f ms; ratio %.3f (bound 1.2)" % (
    m["bytes"] / 2**30, m["stall_ms"], m["saves"] - 1, m["first_ms"], m["copy_ms"], m["copy_each_ms"], m["ratio"]))
if m["card"] and (m["bytes"] < 2**30 or m["ratio"] > 1.2):
    print("not met")
    sys.exit(1)
print("met" if m["card"] else "no card: not judged")
PY
