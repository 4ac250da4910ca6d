#!/usr/bin/env bash
# sdk.sh unit|torch|torch2|gpu: the tests of the Python SDK. `unit` needs Python only, `torch` Debian's own PyTorch, which it
# installs where it is missing, and its BLAS: another one gives other bits; `torch2` a newer one, which it puts under
# .cache (3 GB to fetch); `gpu` a card and a PyTorch that sees it.
set -euo pipefail

# Debian's: another python3 on the PATH has no torch.
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=$(command -v python3)

case ${1:-} in
unit)
	cd sdk/python
	PYTHONPATH=src exec "$python" -W error -m unittest discover -t . -s tests
	;;
torch)
	scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch "/usr/lib/$(uname -m)-linux-gnu/openblas-pthread:libopenblas0-pthread"
	cd sdk/python
	OMP_NUM_THREADS=1 PYTHONPATH=src exec "$python" -m unittest -v tests.torch_suite tests.convert_suite
	;;
torch2)
	home=$PWD/.cache/torch2-2.5.1
	if [ ! -e "$home/ready" ]; then
		"$python" -c 'import ensurepip' 2>/dev/null || scripts/install-deps.sh ensurepip:python3-venv
		"$python" -m venv --clear "$home"
		"$home/bin/python3" -m pip install -q --no-cache-dir torch==2.5.1 safetensors==0.8.0 'numpy<2'
		touch "$home/ready"
	fi
	cd sdk/python
	OMP_NUM_THREADS=1 PYTHONPATH=src exec "$home/bin/python3" -m unittest -v tests.torch2_suite tests.convert_suite
	;;
gpu)
	# The machine's own PyTorch, which sees its card.
	python=${PYTHON:-python3}
	cd sdk/python
	PYTHONPATH=src "$python" -m unittest -v tests.gpu_suite
	# On the processors; PyTorch's PowerSGD asks for a card wherever there is one.
	CUDA_VISIBLE_DEVICES='' OMP_NUM_THREADS=1 PYTHONPATH=src "$python" -m unittest -v tests.torch_suite
	;;
*)
	echo "sdk.sh unit|torch|torch2|gpu" >&2
	exit 2
	;;
esac
