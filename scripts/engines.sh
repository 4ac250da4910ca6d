#!/usr/bin/env bash
# engines.sh DIR: servers for models and their clients from the Python registry, each in a virtual environment, and the models that
# test/serve/engines has answered with; made once. What can't be installed says why in NAME.why.
set -euo pipefail
root=$1
mkdir -p "$root"
chmod 755 "$root"
python=/usr/bin/python3

# one NAME OPTIONS… -- PACKAGES…: a virtual environment, made once.
one() {
	local name=$1 options=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	[ ! -e "$root/$name.done" ] || return 0
	echo "installing $* for $name"
	rm -rf "${root:?}/$name" "$root/$name.why"
	if "$python" -m venv "${options[@]}" "$root/$name" >"$root/$name.log" 2>&1 && timeout 1200 "$root/$name/bin/python3" -m pip install -q --prefer-binary "$@" >>"$root/$name.log" 2>&1; then
		touch "$root/$name.done"
	else
		rm -rf "${root:?}/$name"
		why=$(grep -i error "$root/$name.log" | tail -1) || why="it took too long, see $name.log"
		echo "pip could not install $*: $why" >"$root/$name.why"
	fi
}

one client -- "tritonclient[http,grpc]==2.62.0" numpy==2.3.4
one onnx -- onnxruntime==1.23.2 numpy==2.3.4
one mlserver -- mlserver==1.7.1 onnxruntime==1.23.2
one triton -- nvidia-pytriton==0.7.0 onnxruntime==1.23.2

# Real weights: what kind of file some bytes are.
if [ ! -e "$root/magika.onnx" ]; then
	"$root/onnx/bin/python3" -m pip download -q --no-deps --only-binary :all: -d "$root/wheels" magika==1.0.1
	"$python" - "$root" <<'P'
import glob, os, sys, zipfile
root = sys.argv[1]
with zipfile.ZipFile(glob.glob(root + "/wheels/magika-*.whl")[0]) as z:
    name = next(n for n in z.namelist() if n.endswith("model.onnx"))
    with open(root + "/magika.onnx.new", "wb") as f:
        f.write(z.read(name))
os.rename(root + "/magika.onnx.new", root + "/magika.onnx")
P
fi
