#!/usr/bin/env bash
# engines.sh DIR: servers for models and their clients from the Python registry, each in a virtual environment, and the models that
# test/serve/engines has answered with; made once. It fails, and names them, where some can't be installed.
set -euo pipefail
root=$1
mkdir -p "$root"
chmod 755 "$root"
python=/usr/bin/python3
missing=()

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
	rm -rf "${root:?}/$name"
	if "$python" -m venv "${options[@]}" "$root/$name" >"$root/$name.log" 2>&1 && timeout 1200 "$root/$name/bin/python3" -m pip install -q --prefer-binary "$@" >>"$root/$name.log" 2>&1; then
		touch "$root/$name.done"
	else
		rm -rf "${root:?}/$name"
		missing+=("$name")
		echo "$name can't be installed: $(grep -i error "$root/$name.log" | tail -1 || tail -1 "$root/$name.log")" >&2
	fi
}

one client -- "tritonclient[http,grpc]==2.62.0" numpy==2.3.4
one onnx -- onnxruntime==1.23.2 numpy==2.3.4
one mlserver -- mlserver==1.7.1 onnxruntime==1.23.2
one triton -- nvidia-pytriton==0.7.0 onnxruntime==1.23.2
one optimize -- onnxruntime==1.23.2 onnx==1.19.1 numpy==2.3.4
# Its server is Java, and its workers want torch: the system's.
one torchserve --system-site-packages -- torchserve==0.12.0 torch-model-archiver==0.12.0 pyyaml onnxruntime==1.23.2
if [ ${#missing[@]} -gt 0 ]; then
	echo "engines.sh: not installed: ${missing[*]}" >&2
	exit 1
fi

# As pytriton does when it starts: the stub for its Python stands beside the backend that runs it.
version=$("$root/triton/bin/python3" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
server=$root/triton/lib/python$version/site-packages/pytriton/tritonserver
cp "$server/python_backend_stubs/$version/triton_python_backend_stub" "$server/backends/python/"

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
