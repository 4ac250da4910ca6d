#!/bin/bash
# install.sh TOOL DIR: brings a tool into DIR/TOOL, once. What was cut off begins again; a tool counts when its file "ready" has this version.
set -euo pipefail
tool=$1 dir=$2
umask 022
export npm_config_fund=false npm_config_audit=false npm_config_update_notifier=false npm_config_loglevel=error HOME=${HOME:-/root}

need() {
	local missing=()
	for one in "$@"; do command -v "$one" >/dev/null || missing+=("$one"); done
	[ ${#missing[@]} -eq 0 ] || { echo "missing on this machine: ${missing[*]} (Debian: apt-get install npm g++ make python3 python3-venv)" >&2; exit 3; }
}

begin() { # version
	version=$1 at=$dir/$tool
	if [ "$(cat "$at/ready" 2>/dev/null)" = "$version" ]; then
		echo "$tool $version is there: $at"
		exit 0
	fi
	rm -rf "$at"
	mkdir -p "$at"
}

case $tool in
vscode)
	need npm g++ make python3
	node=24.9.0
	begin 4.139.1
	cd "$at"
	echo '{"private": true}' >package.json
	echo "node $node"
	npm install --no-save --no-package-lock "node@$node" >/dev/null
	mkdir -p node/bin
	cp -L node_modules/node/bin/node node/bin/node
	rm -rf node_modules
	export PATH="$at/node/bin:$PATH"
	echo "code-server $version"
	npm install --no-package-lock --ignore-scripts --omit=dev "code-server@$version" >/dev/null
	cd node_modules/code-server/lib/vscode
	npm ci --ignore-scripts --omit=dev >/dev/null 2>&1 || npm install --no-package-lock --ignore-scripts --omit=dev >/dev/null
	(cd extensions && { npm ci --ignore-scripts --omit=dev >/dev/null 2>&1 || npm install --no-package-lock --ignore-scripts --omit=dev >/dev/null; })
	echo "native modules"
	npm rebuild node-pty @vscode/spdlog @vscode/native-watchdog >/dev/null
	# What VS Code looks for beside itself.
	ripgrep=$(find node_modules/@vscode -path '*ripgrep*' -name rg -type f 2>/dev/null | head -1)
	[ -z "$ripgrep" ] || chmod 755 "$ripgrep"
	"$at/node/bin/node" "$at/node_modules/code-server/out/node/entry.js" --version >/dev/null
	;;
jupyter)
	need python3
	begin 4.6.6
	# With the system's own Python where there is one: tenants may not enter others. What they install with pip --user is seen.
	python=/usr/bin/python3
	[ -x "$python" ] || python=$(command -v python3)
	"$python" -m venv --system-site-packages "$at"
	echo "jupyterlab $version"
	"$at/bin/pip" install --quiet --disable-pip-version-check "jupyterlab==$version" ipykernel
	"$at/bin/jupyter-lab" --version >/dev/null
	;;
*)
	echo "no such tool: $tool" >&2
	exit 2
	;;
esac
chmod -R go-w "$at"
echo "$version" >"$at/ready"
echo "$tool $version is there: $at"
