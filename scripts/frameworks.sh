#!/usr/bin/env bash
# frameworks.sh [sample]: runs each framework's recipe for real, on CPUs (test/frameworks). Installs them once into virtual
# environments where seen.sh says, of Debian's own Python. What can't be
# installed is listed as not verified. `sample` installs Debian's packages only.
set -euo pipefail

cd "$(dirname "$0")/.."
root=$(scripts/seen.sh frameworks)
mkdir -p "$root"
python=/usr/bin/python3

# Debian's; without them their rows are not verified.
scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch "/usr/lib/$(uname -m)-linux-gnu/openblas-pthread:libopenblas0-pthread" \
	/usr/lib/python3/dist-packages/mpi4py:python3-mpi4py mpirun:openmpi-bin || echo "Debian's packages could not be installed"

# one NAME OPTIONS… -- PACKAGES…: a virtual environment, made once; why not is in NAME.why.
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
	if "$python" -m venv "${options[@]}" "$root/$name" >"$root/$name.log" 2>&1 &&
		"$root/$name/bin/python3" -m pip install -q setuptools wheel >>"$root/$name.log" 2>&1 &&
		timeout 3600 "$root/$name/bin/python3" -m pip install -q --prefer-binary "$@" >>"$root/$name.log" 2>&1; then
		touch "$root/$name.done"
	else
		rm -rf "${root:?}/$name"
		why=$(grep -i error "$root/$name.log" | tail -1) || why="it took longer than an hour, see $name.log"
		echo "pip could not install $*: $why" >"$root/$name.why"
	fi
}

if [ "${1:-}" != sample ]; then
	scripts/install-deps.sh /usr/share/doc/python3-venv:python3-venv || true
	one jax -- jax==0.10.2
	one tensorflow -- tensorflow-cpu==2.21.0
	one paddle -- paddlepaddle==3.3.1
	one ray -- ray==2.60.0
	# Of PyTorch's own packages, since FSDP and Megatron want a newer one than Debian's: large, for they bring CUDA along.
	DS_BUILD_OPS=0 one torch2 -- torch==2.9.1 numpy megatron-core==0.15.0 deepspeed==0.18.5
	one mxnet -- mxnet==1.9.1 numpy==1.23.5
	# These two are built against Debian's PyTorch.
	DS_BUILD_OPS=0 one deepspeed --system-site-packages -- --no-build-isolation deepspeed==0.14.4
	scripts/install-deps.sh cmake:cmake g++:g++ /usr/include/torch/csrc/api/include/torch/torch.h:libtorch-dev /usr/include/python3.11/Python.h:python3-dev \
		/usr/include/pybind11/pybind11.h:pybind11-dev "/usr/lib/$(uname -m)-linux-gnu/openmpi/include/mpi.h:libopenmpi-dev" || true
	HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 \
		one horovod --system-site-packages -- --no-build-isolation horovod==0.28.1
fi

export FERMI_FRAMEWORKS=$root
go test -v -count=1 -timeout 60m ./test/frameworks
