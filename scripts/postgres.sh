#!/usr/bin/env bash
# postgres.sh COMMAND...: runs a command with a PostgreSQL of its own, named by FERMI_TEST_POSTGRES:
# in a temporary folder, on a unix socket only, as an unprivileged user (it refuses root), gone
# afterwards. Installs Debian's package where there is none.
set -euo pipefail

bindir() { # of the newest PostgreSQL there is
	local dir
	dir=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
	if [ -z "$dir" ] && command -v initdb >/dev/null; then
		dir=$(dirname "$(readlink -f "$(command -v initdb)")")
	fi
	[ -n "$dir" ] && [ -x "$dir/initdb" ] && echo "$dir"
}

install_postgres() {
	if ! command -v apt-get >/dev/null; then
		echo "PostgreSQL is not installed, and there is no apt-get to install it with" >&2
		exit 1
	fi
	local sudo=() log begin=$SECONDS
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || { echo "PostgreSQL is missing. Run as root: apt-get install postgresql" >&2; exit 1; }
		sudo=(sudo)
	fi
	log=$(mktemp)
	# The package makes and starts a server of its own; nobody asked for that one here.
	if ! {
		"${sudo[@]}" apt-get update -q &&
			"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends postgresql-common &&
			"${sudo[@]}" sed -i "s/^#\?create_main_cluster *=.*/create_main_cluster = false/" /etc/postgresql-common/createcluster.conf &&
			"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends postgresql
	} >"$log" 2>&1; then
		cat "$log" >&2
		echo "Could not install postgresql." >&2
		exit 1
	fi
	rm -f "$log"
	echo "installed postgresql in $((SECONDS - begin)) s"
}

bin=$(bindir) || { install_postgres; bin=$(bindir); }

dir=$(mktemp -d /tmp/fermi-pg.XXXXXX) # short: it holds the socket
as=()
if [ "$(id -u)" -eq 0 ]; then
	user=postgres
	id "$user" >/dev/null 2>&1 || user=nobody
	chown "$user" "$dir"
	as=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups)
fi
chmod 755 "$dir" # the socket is for the tests, whoever runs them

stop() {
	status=$?
	trap - EXIT
	(cd / && "${as[@]}" "$bin/pg_ctl" -D "$dir/data" -m immediate -s stop) || true
	rm -rf "$dir"
	exit "$status"
}
trap stop EXIT
trap 'exit 130' INT TERM

begin=$SECONDS
(
	cd /
	"${as[@]}" "$bin/initdb" -D "$dir/data" -U fermi -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$dir/initdb.log" 2>&1 || { cat "$dir/initdb.log" >&2; exit 1; }
	# Members of this role need their password, for the tests of passwords.
	sed -i '1i local all +fermi_test_password scram-sha-256' "$dir/data/pg_hba.conf"
	"${as[@]}" "$bin/pg_ctl" -D "$dir/data" -s -w -l "$dir/data/log" \
		-o "-c listen_addresses='' -c unix_socket_directories='$dir' -c max_connections=200" start || { cat "$dir/data/log" >&2; exit 1; }
)
echo "PostgreSQL $("$bin/postgres" --version | awk '{print $3}') started in $((SECONDS - begin)) s"
FERMI_TEST_POSTGRES="postgres://fermi@/postgres?host=$dir" "$@"
