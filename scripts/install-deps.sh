#!/usr/bin/env bash
# Installs what a bare Debian with Go lacks: a C compiler and libc headers (cgo for the device
# library and the race detector), certificates and git. Says what it does; does nothing, and needs
# no rights, when nothing is missing. Arguments are more tools that somebody needs, as TOOL:PACKAGE, or
# as PATH:PACKAGE for what is no command.
set -euo pipefail

if ! command -v go >/dev/null; then
	echo "Go is missing: install Go $(sed -n 's/^go //p' go.mod) or later and put it in PATH." >&2
	exit 1
fi

missing=()
command -v gcc >/dev/null || missing+=(gcc)
[ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
command -v git >/dev/null || missing+=(git)
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || missing+=(ca-certificates)
for more in "$@"; do
	command -v "${more%%:*}" >/dev/null || [[ ${more%%:*} == /* && -e ${more%%:*} ]] || missing+=("${more#*:}")
done

if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "Missing: ${missing[*]}. This is no Debian: install them with the system's own tool." >&2
	exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "Missing: ${missing[*]}. Run as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	sudo=(sudo)
fi
echo "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "Could not install ${missing[*]}." >&2
	exit 1
fi
