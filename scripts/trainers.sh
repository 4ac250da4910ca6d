#!/usr/bin/env bash
# trainers.sh [KILLS]: ordinary scripts with Transformers, Lightning and Accelerate, killed at random (test/trainers). The libraries are put
# once under .cache (5.4 GB).
set -euo pipefail

cd "$(dirname "$0")/.."
home=$PWD/.cache/trainers
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=$(command -v python3)
if [ ! -e "$home/ready" ]; then
	"$python" -c 'import ensurepip' 2>/dev/null || scripts/install-deps.sh ensurepip:python3-venv
	"$python" -m venv --clear "$home"
	"$home/bin/python3" -m pip install -q --no-cache-dir torch==2.15.0 transformers==5.23.0 lightning==2.6.6 accelerate==1.15.0 numpy
	touch "$home/ready"
fi
go test -count=1 ./internal/ckpt/form ./internal/ckpt/watch ./internal/launch/keeper
exec "$home/bin/python3" test/trainers/suite.py "${1:-${FERMI_KILLS:-10}}"
