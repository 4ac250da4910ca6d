#!/usr/bin/env bash
# `make e2e-fuzz`: schemathesis, in a Python environment of its own under .cache, against bin/fermi.
# Installs Debian's python3-venv where it is missing; the versions are those of test/fuzz/requirements.txt.
set -euo pipefail

cd "$(dirname "$0")/.."
wanted=test/fuzz/requirements.txt
env=.cache/fuzz-$(sha256sum "$wanted" | cut -c1-12)

if [ ! -e "$env/ready" ]; then
	if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
		command -v apt-get >/dev/null || { echo "python3 with venv is missing, and there is no apt-get to install it with"; exit 1; }
		sudo=()
		[ "$(id -u)" -eq 0 ] || sudo=(sudo)
		echo "installing python3-venv"
		{ "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python3-venv; } >.cache/log/apt-fuzz.log 2>&1 ||
			{ cat .cache/log/apt-fuzz.log; exit 1; }
	fi
	echo "installing schemathesis into $env"
	rm -rf .cache/fuzz-*
	python3 -m venv "$env"
	"$env/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
	touch "$env/ready"
fi
exec env PYTHONDONTWRITEBYTECODE=1 "$env/bin/python" test/fuzz/run.py bin/fermi
