#!/usr/bin/env bash
# readings.sh [FERMI]: on a machine with NVIDIA cards. The server's readings (its /metrics) must equal what `nvidia-smi -q` says, and a drill on a
# real card goes the whole way: closed, tested for real, returned; then kept out, and returned by an operator's test.
set -euo pipefail

fermi=$(realpath "${1:-bin/fermi}")
dir=$(mktemp -d /tmp/fermi-readings.XXXXXX)
export FERMI_DATA=$dir/data FERMI_SERVER=http://127.0.0.1:${PORT:-7172} FERMI_LANG=en
"$fermi" up --listen "${FERMI_SERVER#http://}" >"$dir/server.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -rf "$dir"' EXIT

metrics() { curl -sf -H "Authorization: Bearer $(cat "$FERMI_DATA/admin.token")" "$FERMI_SERVER/metrics" | grep '^fermi_device_reading{' || true; }
for _ in $(seq 600); do [ -n "$(metrics 2>/dev/null)" ] && break; sleep 0.1; done
metrics >"$dir/ours"
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

node=$("$fermi" get node -o name | head -1)
node=${node##*/}
"$fermi" node fault "$node" --device 0 --kind xid-79 --heal
"$fermi" node fault "$node" --device 0 --kind ecc
"$fermi" node show "$node" | grep -q 'kept out' || { echo "the drill did not keep the card out"; "$fermi" node show "$node"; exit 1; }
"$fermi" node test "$node/0"
for _ in $(seq 600); do "$fermi" node show "$node" | grep -q '^Device 0: *open' && break; sleep 0.1; done
"$fermi" node show "$node" | grep -E '^(Device|  )' | head -12
"$fermi" node show "$node" | grep -q '^Device 0: *open' || { echo "it did not return"; exit 1; }
"$fermi" node show "$node" | grep -qE 'last test: *passed \((computed|tested)\)' || { echo "it was not tested for real"; exit 1; }
echo "readings and drills on real cards: all well"
