#!/usr/bin/env bash
# llama.sh DIR: llama.cpp's server, built once from the source that its Python package brings (10 to 20 minutes on two cores), a small
# random model for it, and OpenAI's client.
set -euo pipefail
root=$1
version=0.3.36
mkdir -p "$root"
chmod 755 "$root"

if [ ! -e "$root/python.done" ]; then
	rm -rf "${root:?}/python"
	python3 -m venv "$root/python"
	"$root/python/bin/python3" -m pip install -q --prefer-binary gguf==0.19.0 numpy==2.3.4 openai==2.8.1
	touch "$root/python.done"
fi

if [ ! -x "$root/llama-server-$version" ]; then
	echo "building llama.cpp's server, once"
	mkdir -p "$root/source"
	[ -e "$root/source/llama_cpp_python-$version.tar.gz" ] ||
		"$root/python/bin/python3" -m pip download -q --no-deps --no-binary llama-cpp-python -d "$root/source" "llama-cpp-python==$version"
	tar xzf "$root/source/llama_cpp_python-$version.tar.gz" -C "$root/source"
	from=$root/source/llama_cpp_python-$version/vendor/llama.cpp
	# Its answers are tried, not its speed: less optimising builds sooner.
	{
		cmake -S "$from" -B "$root/source/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O1 -DNDEBUG" -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" \
			-DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
			-DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_ALL_WARNINGS=OFF
		cmake --build "$root/source/build" --target llama-server -j "$(nproc)"
	} >"$root/build.log" 2>&1 || {
		tail -20 "$root/build.log" >&2
		echo "llama.sh: llama.cpp's server can't be built; $root/build.log says why" >&2
		exit 1
	}
	install -m 755 "$root/source/build/bin/llama-server" "$root/llama-server-$version.new"
	mv "$root/llama-server-$version.new" "$root/llama-server-$version"
	ln -sfn "llama-server-$version" "$root/llama-server"
	rm -rf "${root:?}/source"
fi
