#!/bin/sh
# openai.sh DIR: OpenAI's Python client in a virtual environment, made once.
set -eu
dir=$1
version=2.8.1
if [ -x "$dir/bin/python" ] && "$dir/bin/python" -c "import openai, sys; sys.exit(openai.__version__ != '$version')" 2>/dev/null; then
	exit 0
fi
rm -rf "$dir"
python3 -m venv "$dir"
"$dir/bin/pip" install --quiet --disable-pip-version-check "openai==$version"
