#!/usr/bin/env bash
# sdk.sh unit|torch|gpu: the tests of the Python SDK. `unit` needs Python only, `torch` Debian's own PyTorch, which it
# installs where it is missing, and its BLAS: another one gives other bits; `gpu` a card and a PyTorch that sees it.
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
	OMP_NUM_THREADS=1 PYTHONPATH=src exec "$python" -m unittest -v tests.torch_suite
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
	echo "sdk.sh unit|torch|gpu" >&2
	exit 2
	;;
esac
