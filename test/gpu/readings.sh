#!/usr/bin/env bash
# readings.sh [FERMI]: on a machine with NVIDIA cards. The server's readings (its /metrics) must equal what `nvidia-smi -q` says, and a drill on a
# real card goes the whole way: closed, tested for real, returned; then kept out, and returned by an operator's test.
# It needs python3, nvidia-smi and the program, which may be packed (fermi.gz, fermi.xz), and ends within three minutes. With OUT set, what was read and
# said is left there.
set -euo pipefail

if [ -z "${FERMI_READINGS:-}" ]; then # once more, with an end and a record
	export FERMI_READINGS=1
	timeout -k 5 175 "$0" "$@" 2>&1 | tee "${OUT:-/tmp}/readings.log"
	exit "${PIPESTATUS[0]}"
fi

dir=$(mktemp -d /tmp/fermi-readings.XXXXXX)
server=
leave() {
	[ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
	[ -z "${OUT:-}" ] || cp "$dir"/{ours,smi.txt,smi.xml,server.log} "$OUT" 2>/dev/null || true
	rm -rf "$dir"
}
trap leave EXIT

. "$(dirname "$0")/program.sh"
fermi=$(program "${1:-bin/fermi}" "$dir")
nvidia-smi -q >"$dir/smi.txt"
nvidia-smi -q -x >"$dir/smi.xml"

export FERMI_DATA=$dir/data FERMI_SERVER=http://127.0.0.1:${PORT:-7172} FERMI_LANG=en
"$fermi" up --listen "${FERMI_SERVER#http://}" >"$dir/server.log" 2>&1 &
server=$!

metrics() {
	python3 - "$FERMI_SERVER/metrics" "$FERMI_DATA/admin.token" <<-'PY' 2>/dev/null || true
		import sys, urllib.request
		ask = urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer " + open(sys.argv[2]).read().strip()})
		for line in urllib.request.urlopen(ask, timeout=10).read().decode().splitlines():
		    if line.startswith("fermi_device_reading{"):
		        print(line)
	PY
}
for _ in $(seq 150); do
	kill -0 "$server" 2>/dev/null || break
	metrics >"$dir/ours"
	[ -s "$dir/ours" ] && break
	sleep 0.2
done
[ -s "$dir/ours" ] || { echo "no readings"; cat "$dir/server.log"; exit 1; }

python3 - "$dir/ours" <<'PY'
import re, subprocess, sys

ours = {}
for line in open(sys.argv[1]):
    labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
    ours.setdefault(labels["uuid"], {})[labels["reading"]] = float(line.split()[-1])

def says(uuid):
    """What nvidia-smi -q says, by the path of its sections."""
    out, path = {}, []
    for line in subprocess.run(["nvidia-smi", "-q", "-i", uuid], capture_output=True, text=True, check=True).stdout.splitlines():
        if not line.strip():
            continue
        depth = (len(line) - len(line.lstrip(" "))) // 4
        name, colon, value = line.strip().partition(" : ")
        path[depth:] = [name.strip()]
        if colon:
            out["/".join(path[1:])] = value.strip()
    return out

def total(said, *names):
    known = [int(said[n]) for n in names if said.get(n, "").isdigit()]
    return sum(known) if known else None

bad = compared = 0
for uuid, got in sorted(ours.items()):
    s = says(uuid)
    want = {"lost": 0, "silent_seconds": 0}
    for ours_name, section in (("volatile", "Volatile"), ("aggregate", "Aggregate")):
        p = f"ECC Errors/{section}/"
        want[f"ecc_{ours_name}_corrected"] = total(s, p + "SRAM Correctable", p + "DRAM Correctable")
        want[f"ecc_{ours_name}_uncorrected"] = total(s, p + "SRAM Uncorrectable", p + "SRAM Uncorrectable Parity", p + "SRAM Uncorrectable SEC-DED", p + "DRAM Uncorrectable")
    want["pages_single"], want["pages_double"] = total(s, "Retired Pages/Single Bit ECC"), total(s, "Retired Pages/Double Bit ECC")
    want["rows_corrected"], want["rows_uncorrected"] = total(s, "Remapped Rows/Correctable Error"), total(s, "Remapped Rows/Uncorrectable Error")
    want["memory_repair_pending"] = int("Yes" in (s.get("Remapped Rows/Pending"), s.get("Retired Pages/Pending Page Blacklist"), s.get("ECC Errors/Channel Repair Pending"), s.get("ECC Errors/TPC Repair Pending")))
    want["memory_repair_failed"] = int("Yes" in (s.get("Remapped Rows/Remapping Failure Occurred"), s.get("ECC Errors/Unrepairable Memory")))
    want["pcie_replays"] = total(s, "PCI/Replays Since Reset")
    reasons = "Clocks Event Reasons/" if any(k.startswith("Clocks Event Reasons/") for k in s) else "Clocks Throttle Reasons/"
    want["hardware_slowdown"] = int("Active" in (s.get(reasons + "HW Slowdown"), s.get(reasons + "HW Slowdown/HW Thermal Slowdown"), s.get(reasons + "HW Slowdown/HW Power Brake Slowdown")))
    if s.get("GPU Recovery Action", "N/A") != "N/A":
        want["recovery_wanted"] = int(s["GPU Recovery Action"] != "None")
    for name, value in sorted(want.items()):
        compared += 1
        mine = got.get(name)
        if mine != (None if value is None else float(value)):
            bad += 1
            print(f"{uuid} {name}: ours is {mine}, nvidia-smi -q says {value}")
print(f"{len(ours)} cards, {compared} readings compared, {bad} differ")
sys.exit(bad > 0 or not ours)
PY

node=$("$fermi" get node -o name | sed -n 1p)
node=${node##*/}
shows() { # EXPRESSION; the whole answer is taken first: grep -q would end the pipe under it
	"$fermi" node show "$node" >"$dir/shown" && grep -qE "$1" "$dir/shown"
}
"$fermi" node fault "$node" --device 0 --kind xid-79 --heal --wait 40s
"$fermi" node fault "$node" --device 0 --kind ecc --wait 40s
shows 'kept out' || { echo "the drill did not keep the card out"; cat "$dir/shown"; exit 1; }
"$fermi" node test "$node/0"
for _ in $(seq 300); do shows '^Device 0: *open' && break; sleep 0.1; done
grep -E '^(Device|  )' "$dir/shown" | head -12 || true
shows '^Device 0: *open' || { echo "it did not return"; exit 1; }
shows 'last test: *passed \((computed|tested)\)' || { echo "it was not tested for real"; exit 1; }
echo "readings and drills on real cards: all well"
