#!/usr/bin/env bash
# A Debian package of bin/fermi, built and looked into: bin/fermi_VERSION_ARCH.deb
#   package.sh VERSION
# It has the program, its completion for bash, and the agent's service, which is neither enabled nor started: `fermi agent install` does that
# when the machine has joined.
set -euo pipefail

cd "$(dirname "$0")/.."
version=${1#v}
[[ $version == [0-9]* ]] || version=0~$version
version=${version//-/+}
arch=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"

install -D -m 755 bin/fermi "$root/usr/bin/fermi"
install -d "$root/usr/lib/systemd/system" "$root/usr/share/bash-completion/completions" "$root/usr/share/doc/fermi"
bin/fermi agent install --print | sed "s|\"$PWD/bin/fermi\"|/usr/bin/fermi|" >"$root/usr/lib/systemd/system/fermi-agent.service"
bin/fermi completion bash >"$root/usr/share/bash-completion/completions/fermi"
install -m 644 LICENSE "$root/usr/share/doc/fermi/copyright"
gzip -9n <CHANGELOG.md >"$root/usr/share/doc/fermi/changelog.gz"
chmod 644 "$root"/usr/lib/systemd/system/* "$root"/usr/share/bash-completion/completions/* "$root"/usr/share/doc/fermi/*

install -d "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: fermi
Version: $version
Architecture: $arch
Maintainer: Fermi <fermi@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: libc6 (>= 2.34)
Recommends: ca-certificates, git
Section: admin
Priority: optional
Description: AI cluster platform: environments, training, inference
 One program: control plane, console, command line, launcher and agent.
 The agent (fermi-agent.service) is started by: fermi agent install
END
cat >"$root/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	# An agent that runs goes on as the new version; what it started is not touched.
	systemctl try-restart fermi-agent.service || true
fi
END
cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl disable --now fermi-agent.service 2>/dev/null || true
fi
END
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"

file=bin/fermi_${version}_$arch.deb
dpkg-deb --root-owner-group -Zgzip -z3 --build "$root" "$file" >/dev/null

# What was built is read again by dpkg.
[ "$(dpkg-deb --field "$file" Package Version Architecture | tr '\n' ' ')" = "Package: fermi Version: $version Architecture: $arch " ] || { echo "$file: the fields are wrong"; exit 1; }
list=$(dpkg-deb --contents "$file")
for want in '-rwxr-xr-x root/root .* ./usr/bin/fermi$' '-rw-r--r-- root/root .* ./usr/lib/systemd/system/fermi-agent.service$' '-rw-r--r-- root/root .* ./usr/share/doc/fermi/copyright$'; do
	grep -qE -- "$want" <<<"$list" || { echo "$file: $want is missing"; exit 1; }
done
mkdir "$root/out"
dpkg-deb --extract "$file" "$root/out"
cmp bin/fermi "$root/out/usr/bin/fermi"
grep -q '^ExecStart=/usr/bin/fermi agent ' "$root/out/usr/lib/systemd/system/fermi-agent.service"
"$root/out/usr/bin/fermi" version >/dev/null
echo "$file $(stat -c %s "$file") bytes"
