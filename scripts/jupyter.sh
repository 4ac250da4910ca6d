#!/bin/sh
# jupyter.sh DIR: JupyterLab in a virtual environment of the system's own Python, which tenants may read; made once.
set -eu
dir=$1
version=4.6.6
if [ -x "$dir/bin/jupyter-lab" ] && [ "$("$dir/bin/jupyter-lab" --version 2>/dev/null)" = "$version" ] && "$dir/bin/python" -c 'import sys; sys.exit(sys.base_prefix != "/usr")'; then
	exit 0
fi
rm -rf "$dir"
scripts/install-deps.sh /usr/share/doc/python3-venv:python3-venv || true
/usr/bin/python3 -m venv "$dir"
"$dir/bin/pip" install --quiet --disable-pip-version-check "jupyterlab==$version" nbclient ipykernel
