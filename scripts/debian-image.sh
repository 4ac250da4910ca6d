#!/usr/bin/env bash
# Makes a small Debian as the archive of an image's one layer: scripts/debian-image.sh FILE [PACKAGE…]. Without packages it has apt and pip. Kept where it
# is there already.
set -euo pipefail

out=$1
shift
[ $# -gt 0 ] || set -- python3-pip
[ -s "$out" ] && exit 0
mkdir -p "$(dirname "$out")"
# The machine's own certificates: behind a proxy that has one of its own nothing else is believed.
mmdebstrap --quiet --variant=minbase --include="$(IFS=,; echo "$*,ca-certificates")" --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--customize-hook='mkdir -p "$1/etc/ssl/certs" && cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"' \
	bookworm "$out.new.tar"
mv "$out.new.tar" "$out"
