#!/usr/bin/env bash
# The console's own steps, for the Makefile:
#   web.sh tools    install Node and npm where they are missing; goes on without, and says so
#   web.sh build    install what the lock file names and build web/dist
#   web.sh modules  only what the lock file names
#   web.sh browser  install a browser and Chinese fonts for the end-to-end suite
#   web.sh generate the types of the client, from the OpenAPI document of bin/fermi
set -euo pipefail

cd "$(dirname "$0")/.."
wanted=20

usable() {
	command -v npm >/dev/null && command -v node >/dev/null && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge "$wanted" ]
}

install() {
	command -v apt-get >/dev/null || return 1
	local sudo=()
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || return 1
		sudo=(sudo)
	fi
	echo "installing $*"
	mkdir -p .cache/log
	{ "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"; } >.cache/log/apt-web.log 2>&1
}

modules() {
	# Versions and digests are the lock file's, which is not written. npm ci would refuse it: it lists
	# the native packages of one platform only.
	if [ ! -e web/node_modules/.package-lock.json ] || [ web/package-lock.json -nt web/node_modules/.package-lock.json ]; then
		echo "installing the console's packages"
		(cd web && npm install --no-save --no-audit --no-fund --loglevel=error)
		touch web/node_modules/.package-lock.json
	fi
}

case "${1:-}" in
tools)
	if ! command -v npm >/dev/null; then
		install nodejs npm || true
	fi
	usable || echo "Node $wanted or later with npm is missing: going on without the console; the API and the command line work."
	;;
build)
	if ! usable; then
		echo "Node $wanted or later with npm is missing: the console is left out"
		exit 0
	fi
	modules
	echo "building the console"
	(cd web && npm run --silent build -- --logLevel warn)
	;;
modules)
	modules
	;;
browser)
	usable || { install nodejs npm || true; }
	usable || { echo "the console's suite needs Node $wanted or later with npm" >&2; exit 1; }
	missing=()
	command -v chromium >/dev/null || missing+=(chromium)
	[ -e /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc ] || missing+=(fonts-noto-cjk)
	[ ${#missing[@]} -eq 0 ] || install "${missing[@]}" || { echo "could not install ${missing[*]}; see .cache/log/apt-web.log" >&2; exit 1; }
	modules
	;;
generate)
	# The types of the client, from the document of the binary just built.
	usable || { echo "Node $wanted or later with npm is missing" >&2; exit 1; }
	modules
	data=$(mktemp -d)
	bin/fermi up --demo --data "$data/d" --listen 127.0.0.1:7198 >"$data/out" 2>&1 &
	pid=$!
	trap 'kill $pid; wait $pid || true; rm -rf "$data"' EXIT
	for _ in $(seq 100); do
		curl -sf http://127.0.0.1:7198/readyz >/dev/null && break
		sleep 0.1
	done
	printf 'header = "Authorization: Bearer %s"\n' "$(cat "$data/d/admin.token")" |
		curl -sf -K - http://127.0.0.1:7198/api/v1/openapi.json >"$data/openapi.json"
	(cd web && FERMI_OPENAPI="$data/openapi.json" npm run --silent generate)
	;;
*)
	sed -n 2,7p "$0"
	exit 2
	;;
esac
