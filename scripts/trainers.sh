#!/usr/bin/env bash
# trainers.sh [sample]: ordinary scripts with Transformers, Lightning and Accelerate as tasks that are killed at random (test/trainers). The
# libraries are put once where seen.sh says (5.4 GB: PyTorch 2 brings CUDA along). `sample`: Accelerate
# alone, with Debian's PyTorch (20 MB).
set -euo pipefail

cd "$(dirname "$0")/.."
home=$(scripts/seen.sh trainers)
python=/usr/bin/python3
scripts/install-deps.sh /usr/share/doc/python3-venv:python3-venv
if [ "${1:-}" = sample ]; then
	home=$(scripts/seen.sh trainers-sample)
	export FERMI_TRAINERS_SAMPLE=1
	scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch "/usr/lib/$(uname -m)-linux-gnu/openblas-pthread:libopenblas0-pthread"
	if [ ! -e "$home/ready" ]; then
		"$python" -m venv --clear --system-site-packages "$home"
		"$home/bin/python3" -m pip install -q --no-cache-dir --disable-pip-version-check huggingface_hub==0.26.5 safetensors==0.4.5 psutil==6.1.0 pyyaml==6.0.2 packaging==24.2
		"$home/bin/python3" -m pip install -q --no-cache-dir --disable-pip-version-check --no-deps accelerate==0.30.1 # it would bring a PyTorch
		touch "$home/ready"
	fi
elif [ ! -e "$home/ready" ]; then
	"$python" -m venv --clear "$home"
	"$home/bin/python3" -m pip install -q --no-cache-dir --disable-pip-version-check torch==2.15.0 transformers==5.23.0 lightning==2.6.6 accelerate==1.15.0 numpy
	touch "$home/ready"
fi
export FERMI_TRAINERS=$home
go test -v -count=1 -timeout 120m ./test/trainers
