# Fermi. `make help` lists what there is to do; `make` alone builds bin/fermi.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:

CACHE       := .cache
STATICCHECK_VERSION := v0.8.2
STATICCHECK := $(CACHE)/bin/staticcheck-$(STATICCHECK_VERSION)
VERSITYGW_VERSION := v1.8.0
VERSITYGW := $(CACHE)/bin/versitygw-$(VERSITYGW_VERSION)
PROTOC_GEN_GO      := v1.36.11
PROTOC_GEN_GO_GRPC := v1.5.1

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || true)
DATE    := $(shell git log -1 --format=%cI 2>/dev/null || true)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

# Everything the binary is made from: unchanged, `make build` does nothing.
SOURCES := web/embed.go $(shell find api client cmd internal sched sdk/python/files.go sdk/python/src -type f ! -name '*_test.go' ! -path '*/testdata/*' ! -path '*/__pycache__/*' 2>/dev/null) go.mod go.sum

# The console, where npm is there to build it; without, the binary says that it is not in it.
NPM     := $(shell command -v npm 2>/dev/null)
CONSOLE := $(if $(NPM),$(CACHE)/web.stamp)
CONSOLE_SOURCES := $(shell find web -type f ! -path 'web/node_modules/*' ! -path 'web/dist/*' ! -path 'web/e2e/*' ! -name 'playwright.config.mjs' ! -name '*.test.*' ! -name '*.go' 2>/dev/null)

DATA   ?= .run/data
LISTEN ?= 127.0.0.1:7070
FUZZTIME ?= 10s
PICTURES ?= .cache/pictures
FERMI_CRASH_ROUNDS ?= 50
FERMI_SCENARIOS ?= 1000000

# Every target with a word of help is one to make each time.
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\# .*/\1/p' Makefile)

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' Makefile

run: ## install what is missing, build, and start the platform with the demo topology
	@scripts/web.sh tools
	@$(MAKE) --no-print-directory build
	@mkdir -p $(dir $(DATA))
	@echo "starting bin/fermi up --demo --data $(DATA) --listen $(LISTEN) (Ctrl-C ends it; running tasks go on)"
	@exec bin/fermi up --demo --data $(DATA) --listen $(LISTEN)

build: bin/fermi ## build bin/fermi

# The program of a replica's first process, which is built into bin/fermi.
INSIDE := internal/launch/inside/program/built
INSIDE_SOURCES := $(sort $(filter-out %_test.go,$(wildcard internal/launch/deed/*.go))) $(sort $(filter-out %_test.go,$(wildcard internal/launch/inside/*.go))) $(sort $(wildcard cmd/inside/*.go))

$(INSIDE)/inside: $(INSIDE_SOURCES) go.mod Makefile | deps
	@CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '-s -w' -o $@ ./cmd/inside
	@cat $(INSIDE_SOURCES) | sha256sum | cut -d' ' -f1 >$(INSIDE)/sources

bin/fermi: $(SOURCES) $(INSIDE)/inside $(CONSOLE) Makefile | deps
	@$(if $(NPM),,echo "npm is missing: the console is left out")
	@echo "building bin/fermi $(VERSION)"
	@mkdir -p bin
	@go build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/fermi

$(CACHE)/web.stamp: $(CONSOLE_SOURCES) scripts/web.sh
	@mkdir -p $(CACHE)
	@scripts/web.sh build
	@touch $@

deps: $(CACHE)/deps.stamp ## install the system packages that are missing

$(CACHE)/deps.stamp: scripts/install-deps.sh go.mod
	@mkdir -p $(CACHE)
	@scripts/install-deps.sh
	@touch $@

$(STATICCHECK): | deps
	@echo "building staticcheck $(STATICCHECK_VERSION), once"
	@mkdir -p $(CACHE)/bin
	@GOBIN=$(abspath $(CACHE)/bin) go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	@mv $(CACHE)/bin/staticcheck $@

test: build $(STATICCHECK) ## format, vet, staticcheck, all unit tests with the race detector, a few crash rounds
	@scripts/install-deps.sh /usr/bin/python3:python3
	@STATICCHECK=$(STATICCHECK) scripts/test.sh

test-sdk: ## the Python SDK's own tests, with Debian's python3 and nothing else
	@scripts/sdk.sh unit

fuzz: deps ## every fuzz target for FUZZTIME (10s)
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

$(VERSITYGW): | deps
	@echo "building the S3 server versitygw $(VERSITYGW_VERSION), once"
	@mkdir -p $(CACHE)/bin
	@GOBIN=$(abspath $(CACHE)/bin) go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)
	@mv $(CACHE)/bin/versitygw $@

e2e: build $(VERSITYGW) ## the shipped binary from the outside
	@scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch
	@FERMI_S3_SERVER=$(abspath $(VERSITYGW)) scripts/suite.sh e2e go test -v -count=1 -timeout 60m ./test/e2e/...

e2e-tls: build $(VERSITYGW) ## the same with all launchers on the link over TLS, as on far hosts; FERMI_TLS=sample: a few of the tests
	@scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch
	@FERMI_LINK=tls FERMI_S3_SERVER=$(abspath $(VERSITYGW)) scripts/suite.sh e2e-tls go test -v -count=1 -timeout 60m -run '$(if $(filter sample,$(FERMI_TLS)),TestTour|TestStop|TestGang|TestRestart|TestLink)' ./test/e2e/...

e2e-kube: build $(VERSITYGW) ## pods on a real API server of Kubernetes, built from source and kept (minutes, once)
	@test/kube/build.sh etcd kube-apiserver helm promtool kueue-crds volcano-crds >/dev/null
	@FERMI_S3_SERVER=$(abspath $(VERSITYGW)) FERMI_KUBE=$(abspath $(CACHE)/kube) scripts/suite.sh e2e-kube go test -v -count=1 -p 1 -timeout 20m ./internal/engine/kubeengine ./test/pods

parity: build ## docs/parity.md anew: the same features on one host, on hosts that joined and on Kubernetes (root)
	@test/kube/build.sh etcd kube-apiserver >/dev/null
	@mkdir -p test/parity/seen
	@FERMI_PARITY=$(abspath test/parity/seen) FERMI_KUBE=$(abspath $(CACHE)/kube) FERMI_BIN=$(abspath bin/fermi) go test -count=1 -p 1 -timeout 20m -run TestParity ./test/pods ./test/hosts
	@go test -count=1 -run TestTable ./test/parity -update

e2e-kube-node: build ## a real node, with containerd, runc and a kubelet: PyTorch, an environment and a service in real pods (root; minutes, once)
	@scripts/install-deps.sh containerd:containerd runc:runc /usr/lib/cni/bridge:containernetworking-plugins mmdebstrap:mmdebstrap /bin/busybox:busybox-static iptables:iptables ip:iproute2
	@test/kube/build.sh etcd kube-apiserver kubelet >/dev/null
	@scripts/debian-image.sh $(CACHE)/kube/torch-bookworm.tar python3-torch libopenblas0-pthread
	@CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o $(CACHE)/kube/fermi-static ./cmd/fermi
	@FERMI_KUBE=$(abspath $(CACHE)/kube) FERMI_STATIC=$(abspath $(CACHE)/kube/fermi-static) FERMI_TORCH_ROOT=$(abspath $(CACHE)/kube/torch-bookworm.tar) \
		scripts/suite.sh e2e-kube-node go test -v -count=1 -timeout 30m -run TestMachine ./test/pods

e2e-hosts: build $(VERSITYGW) ## many machines: agents that join, work on them and over several, servers that share nothing, FERMI_HOSTS_FAULTS seeded faults; needs root
	@scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch
	@FERMI_BIN=$(abspath bin/fermi) FERMI_S3_SERVER=$(abspath $(VERSITYGW)) FERMI_HOSTS_FAULTS=$${FERMI_HOSTS_FAULTS:-12} scripts/postgres.sh scripts/suite.sh e2e-hosts go test -v -count=1 -timeout 30m ./test/hosts/...
	@FERMI_STORM_WITHIN=10s scripts/suite.sh e2e-hosts-storm go test -v -count=1 -timeout 5m -run TestStorm ./internal/app/agent

e2e-s3: build $(VERSITYGW) ## the S3 store, all tests of checkpoints, and a task's, on a real S3 server
	@FERMI_S3_SERVER=$(abspath $(VERSITYGW)) FERMI_CKPT_COLLECTS=$${FERMI_CKPT_COLLECTS:-2} scripts/suite.sh e2e-s3 go test -v -count=1 -timeout 20m \
		./internal/blob/s3 ./internal/ckpt
	@FERMI_S3_SERVER=$(abspath $(VERSITYGW)) scripts/suite.sh e2e-s3-task go test -v -count=1 -timeout 20m -run TestCheckpointsInABucket ./test/e2e

e2e-images: build ## roles and environments in images of their own, from docker's registry (installed if missing) (root)
	@scripts/install-deps.sh docker-registry:docker-registry mmdebstrap:mmdebstrap buildah:buildah
	@scripts/debian-image.sh $(CACHE)/debian-image.tar
	@FERMI_REGISTRY=$$(command -v docker-registry) FERMI_DEBIAN=$(abspath $(CACHE))/debian-image.tar scripts/suite.sh e2e-images go test -v -count=1 -timeout 20m -run TestImage ./test/recovery ./test/workbench

e2e-attack: build ## a hostile member against the shipped binary (root); FERMI_SWAPS (10000) swaps of each race; FERMI_CALM= leaves the measure of the other tenant out
	@FERMI_CALM=$${FERMI_CALM-1} scripts/suite.sh e2e-attack go test -v -count=1 -timeout 40m ./test/attack

e2e-all: ## every suite of test/suites.txt in full but those of which nothing changed since they passed so; goes on where it was stopped
	@scripts/suites.sh all

e2e-shared: ## the folder store and checkpoints in it, on the mount that FERMI_SHARED_FOLDER names (NFS, Lustre, CephFS); without it they are skipped, and say so
	@scripts/suite.sh e2e-shared go test -v -count=1 -timeout 20m -run 'OnASharedFolder|OverASharedFolder' ./internal/blob/folder ./internal/ckpt

e2e-ckpt: ## checkpoints: FERMI_CKPT_KILLS (1000) kills and power cuts, FERMI_CKPT_DAMAGES (10000) damages, FERMI_CKPT_COLLECTS (200) worlds of saves beside collection
	@FERMI_CKPT_KILLS=$${FERMI_CKPT_KILLS:-1000} FERMI_CKPT_DAMAGES=$${FERMI_CKPT_DAMAGES:-10000} FERMI_CKPT_COLLECTS=$${FERMI_CKPT_COLLECTS:-200} \
		scripts/suite.sh e2e-ckpt go test -v -count=1 -timeout 60m -run 'TestKills|TestDamages|TestCollectBesideSaves' ./internal/ckpt

e2e-crash: build ## kill -9 at random moments, also of builds with buildah (installed if missing), FERMI_CRASH_ROUNDS (50) rounds
	@scripts/install-deps.sh docker-registry:docker-registry buildah:buildah
	@FERMI_REGISTRY=$$(command -v docker-registry) FERMI_CRASH_ROUNDS=$(FERMI_CRASH_ROUNDS) scripts/suite.sh e2e-crash go test -v -count=1 -timeout 60m -run TestCrash ./test/crash/...

e2e-disk: build ## full disks, file names used up, I/O errors, damaged files (root); FERMI_DAMAGES (500) flips and cuts of a data folder and as many of a backup
	@FERMI_DAMAGES=$${FERMI_DAMAGES-500} scripts/suite.sh e2e-disk go test -v -count=1 -timeout 60m ./test/disk

e2e-silence: build ## one of four replicas, or all of one zone's, frozen, killed, cut off or taken out, FERMI_SILENCE (50) drills from number FERMI_SILENCE_FROM (0) of seed FERMI_SILENCE_SEED (1) on; as many pauses and kills of the server and busy loops that lose nobody; services and environments on silent nodes (root). Side by side and elsewhere: test/far.sh
	@FERMI_SILENCE=$${FERMI_SILENCE:-50} scripts/suite.sh e2e-silence go test -v -count=1 -timeout 120m -parallel 3 ./test/silence

e2e-upgrade: build ## data folders of earlier releases, taken over by this one; their programs are built from their commits, once (root, git history); FERMI_UPGRADE=sample: the newest release, killed
	@scripts/suite.sh e2e-upgrade go test -v -count=1 -timeout 30m ./test/upgrade/...

e2e-workload: build ## a kind of work that only this suite has, beside a task of the same name: placed, restarted, drained, archived, charged (root)
	@scripts/suite.sh e2e-workload go test -v -count=1 -timeout 10m ./test/workload

e2e-serve: build ## inference services as a member uses them, with OpenAI's own Python client (installed under .cache): deploy, answer, stream, update and kills under load, keys, FERMI_COLD_STARTS (12) starts from zero, bad input (root)
	@scripts/openai.sh $(abspath $(CACHE))/openai
	@FERMI_OPENAI_PYTHON=$(abspath $(CACHE))/openai/bin/python scripts/suite.sh e2e-serve go test -v -count=1 -timeout 15m ./test/serve

e2e-engines: build ## real inference engines on CPUs with real weights (installed under .cache), each with its client over HTTP, gRPC and gRPC with TLS, and models made smaller, as a member (root)
	@scripts/install-deps.sh java:openjdk-17-jre-headless /usr/lib/python3/dist-packages/torch:python3-torch "/usr/lib/$$(uname -m)-linux-gnu/libpython3.11.so.1.0:libpython3.11"
	@scripts/engines.sh $(abspath $(CACHE))/engines
	@FERMI_ENGINES=$(abspath $(CACHE))/engines scripts/suite.sh e2e-engines go test -v -count=1 -timeout 15m -run 'TestEngines|TestOptimize' ./test/serve

e2e-llama: build ## llama.cpp's own server (built from source and kept under .cache: 10 to 20 minutes, once) with a small random model and OpenAI's client, as a member (root)
	@scripts/install-deps.sh cmake:cmake ninja:ninja-build g++:g++
	@scripts/llama.sh $(abspath $(CACHE))/llama
	@FERMI_LLAMA=$(abspath $(CACHE))/llama scripts/suite.sh e2e-llama go test -v -count=1 -timeout 15m -run TestLlama ./test/serve

e2e-data: build $(VERSITYGW) ## datasets and models as members use them: uploads and servers killed in FERMI_DATA_ROUNDS (10) rounds, folders of the machine, a real S3 server, other members, bad input
	@FERMI_S3_SERVER=$(abspath $(VERSITYGW)) scripts/suite.sh e2e-data go test -v -count=1 -timeout 20m ./test/data

e2e-workbench: build ## development environments as ordinary members: shells, homes, a killed server, other users, SSH with OpenSSH's client, ports, JupyterLab (installed under .cache), VS Code (installed in /opt/fermi/tools), repositories, volumes (root)
	@scripts/install-deps.sh ssh:openssh-client
	@scripts/jupyter.sh $(abspath $(CACHE))/jupyter
	@bin/fermi tools install vscode
	@FERMI_JUPYTER=$(abspath $(CACHE))/jupyter scripts/suite.sh e2e-workbench go test -v -count=1 -timeout 15m -skip 'TestImageRoot|TestImageBuild' ./test/workbench # those are e2e-images'

e2e-postgres: build ## history in a PostgreSQL (installed if missing): conformance, the shipped binary, crash rounds
	@FERMI_CRASH_ROUNDS=$${FERMI_CRASH_ROUNDS:-3} scripts/suite.sh e2e-postgres scripts/postgres.sh scripts/postgres-suite.sh

e2e-ha: build ## three servers on three etcd members with mutual TLS, in network namespaces: killed, paused, cut off (root)
	@scripts/install-deps.sh ip:iproute2
	@scripts/suite.sh e2e-ha scripts/postgres.sh go test -v -count=1 -timeout 60m ./test/ha/...

e2e-faults: build ## FERMI_FAULTS (200) seeded faults of many kinds, of Debian's PyTorch (installed if missing) where they need no card: the guilty rank and the action must be right
	@scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch
	@FERMI_FAULTS=$${FERMI_FAULTS:-200} scripts/suite.sh e2e-faults go test -v -count=1 -timeout 60m ./test/faults/...

e2e-cards: build ## FERMI_DRILLS (20) seeded faults of cards in the demo, from FERMI_SEED (1) on: each is closed, its task saves and moves, and it returns or is kept out
	@FERMI_DRILLS=$${FERMI_DRILLS:-20} scripts/suite.sh e2e-cards go test -v -count=1 -timeout 30m ./test/cards

e2e-torch: build ## the Python SDK with Debian's PyTorch (installed if missing): bit-exact resume, partial restart, virtual ranks; under a real server too, killed, resized, and without it for FERMI_AWAY (60) seconds
	@scripts/suite.sh e2e-torch scripts/sdk.sh torch
	@FERMI_KILLS=$${FERMI_KILLS:-20} FERMI_AWAY=$${FERMI_AWAY:-60} scripts/suite.sh e2e-torch-server go test -v -count=1 -timeout 60m -run TestTorch ./test/recovery ./internal/launch/inspect

e2e-torch2: ## the SDK with PyTorch 2.5 and the safetensors library (3 GB under .cache): DTensor, DCP folders; not part of CI
	@scripts/suite.sh e2e-torch2 scripts/sdk.sh torch2

e2e-trainers: build ## ordinary scripts with Transformers, Lightning and Accelerate (5.4 GB under .cache) as a member's tasks, killed FERMI_TRAINER_KILLS (10) times each from FERMI_SEED (1) on; TRAINERS=sample: Accelerate with Debian's PyTorch alone (root)
	@FERMI_TRAINER_KILLS=$${FERMI_TRAINER_KILLS:-10} scripts/suite.sh e2e-trainers scripts/trainers.sh $(TRAINERS)

e2e-gpu: ## the Python SDK on a CUDA card, with the machine's own PyTorch, then the whole platform (bin/fermi) there; not part of CI
	@scripts/sdk.sh gpu
	@test/gpu/platform.sh
	@test/gpu/trainers.sh
	@FERMI_CARD=1 go test -v -count=1 -run TestImageCard ./test/recovery

e2e-frameworks: build ## each framework's recipe for real, installed on CPUs where it can be; FRAMEWORKS=sample: Debian's packages only
	@scripts/suite.sh e2e-frameworks scripts/frameworks.sh $(FRAMEWORKS)

e2e-web: ## the console in a real Chromium, in both languages; pictures go to PICTURES (.cache/pictures)
	@scripts/web.sh browser
	@$(MAKE) --no-print-directory build
	@FERMI_PICTURES=$(PICTURES) scripts/suite.sh e2e-web npm --prefix web run --silent e2e

e2e-sched-safety: ## the planner against FERMI_SCENARIOS (1000000) generated scenarios from FERMI_SEED (1) on
	@FERMI_SCENARIOS=$(FERMI_SCENARIOS) scripts/suite.sh e2e-sched-safety go test -v -count=1 -timeout 120m -run TestScenarios ./sched/safety
	@FERMI_EXPLAINED=450 go test -v -count=1 -timeout 60m -run TestTheChangeAdmits ./sched/safety | grep -v '^=== '
	@grep 'scenarios from seed' .cache/log/e2e-sched-safety.log

mutate-sched: ## plants bugs in the planner one at a time; the seeded scenarios must find each
	@go run ./test/mutate

e2e-fuzz: build ## every route of the API fuzzed from its schema; FERMI_FUZZ_SEED repeats a run
	@scripts/suite.sh e2e-fuzz scripts/fuzz-api.sh

e2e-fuzz-long: build ## the same for FERMI_FUZZ_SECONDS (1800)
	@FERMI_FUZZ_SECONDS=$${FERMI_FUZZ_SECONDS:-1800} scripts/suite.sh e2e-fuzz-long scripts/fuzz-api.sh

bench-web: build ## first load of the console and time until it stands, in a real Chromium
	@scripts/web.sh browser
	@go run ./bench web

bench: bench-start bench-submit bench-archive bench-sched bench-web bench-ha ## all benchmarks, one after the other

results: ## bench/RESULTS.md, made anew from the files in bench/results
	@go run ./bench results

bench-start: build ## time to ready, memory at rest, size of the binary
	@go run ./bench start

bench-submit: build ## submit to first line; reads while writes come in
	@go run ./bench submit

bench-ssh: build ## shells, echo and sftp into an environment, beside OpenSSH's own server (root)
	@scripts/install-deps.sh ssh:openssh-client /usr/sbin/sshd:openssh-server
	@go run ./bench ssh

bench-data: build ## uploads of 2 GiB and of 100,000 small files, beside cp with fsync; starts with both cached (root)
	@go run ./bench data

bench-environments: build ## what FERMI_ENVIRONMENTS (500) running environments cost the server; 12 MB of memory for each launcher (root)
	@go run ./bench environments

bench-archive: build ## a million finished and a hundred thousand queued tasks
	@go run ./bench archive

bench-curves: build ## curves of 1,000 ranks into SQLite for FERMI_CURVES_SECONDS (600), and a series of a million points opened
	@go run ./bench curves

bench-gateway: build ## what a request and an open stream cost the gateway, beside nginx, HAProxy and Caddy (Debian's, installed if missing) and Go's bare ReverseProxy (root)
	@scripts/install-deps.sh nginx:nginx-light haproxy:haproxy caddy:caddy
	@go run ./bench gateway

bench-openb: ## packing: the published OpenB experiment against FGD; needs the traces (FERMI_TRACES)
	@go run ./bench openb

bench-sched: ## all that must hold of the planner, one JSON line: rates, backlog, chronus, openb (traces by FERMI_TRACES)
	@go run ./bench sched

bench-rates: ## the planner alone: decisions a second on 12,500 nodes, half full
	@go run ./bench rates

bench-chronus: ## waits and completion times of a recorded trace; its data by FERMI_TRACES
	@go run ./bench chronus

bench-backlog: ## what 100,000 tasks that can't start add to a decision, and turns before 100,000 that could (FERMI_SIZE=small: 5,000)
	@go run ./bench backlog

bench-mind: ## the planner on data it was not tuned on, beside its rivals; FERMI_SIZE=small takes a minute, FERMI_MIND names parts (traces by FERMI_TRACES)
	@go run ./bench mind

bench-ha: build ## how long the API is away when a server or etcd member is killed, paused or cut off (root)
	@scripts/install-deps.sh ip:iproute2
	@go run ./bench ha

bench-recovery: build ## SIGKILL of one of four PyTorch ranks → the next step, FERMI_TRIALS (20) times, against torchrun; SIGSTOP of one, FERMI_STOPS (10) times (Debian's PyTorch, installed if missing)
	@scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch
	@go run ./bench recovery

bench-overhead: build ## what Fermi costs a PyTorch training with nothing failing, against torchrun, in FERMI_PAIRS (30) pairs of FERMI_STEPS (60) steps of about FERMI_STEP_MS (200)
	@scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch
	@go run ./bench overhead

bench-saving: build ## the same with a state of 256 MiB that is saved in memory every 10 steps and on the disk every 100, against torchrun without saves
	@scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch
	@go run ./bench saving

bench-elastic: ## a step of four ranks of the sample, as fast as can be and with the same bits for any number of ranks
	@go test ./internal/sample -run '^$$' -bench Shards -benchtime 2000x -count 5

bench-checkpoint: ## a save to the local disk against the same writer without hashes, one of the SDK against a copy and torch.save; FERMI_BENCH_MIB (1024) of state
	@scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch
	@go run ./bench checkpoint

bench-rendezvous: ## a generation of 16,384 launchers; all attached again after the server is killed
	@go run ./bench rendezvous

bench-agents: build ## 200 agents with 8 launchers each attach again after the leading server is killed; what an idle agent costs (root)
	@FERMI_BIN=$(abspath bin/fermi) go run ./bench agents

bench-hosts: build ## a rank killed and a host lost over four hosts; DDP over two zones beside the preview's estimate (root; Debian's PyTorch, installed if missing)
	@scripts/install-deps.sh /usr/lib/python3/dist-packages/torch:python3-torch
	@FERMI_BIN=$(abspath bin/fermi) go run ./bench hosts

bench-kube: build ## gangs on 1,250 KWOK nodes against a plain client and kube-scheduler, FERMI_KUBE_GANGS for one smaller shape (programs built from source and kept)
	@test/kube/build.sh etcd kube-apiserver kube-scheduler kwok >/dev/null
	@FERMI_KUBE=$(abspath $(CACHE)/kube) go run ./bench kube

bench-preflight: build ## the checks before the first start of a gang on 64 nodes
	@go run ./bench preflight

# One benchmark at a time, also under make -j: they measure the machine.
.NOTPARALLEL:

generate: build ## generated code (the link protocol, the console's client)
	@command -v protoc >/dev/null || { echo "protoc is missing; on Debian: apt-get install protobuf-compiler"; exit 1; }
	@mkdir -p $(CACHE)/bin
	@GOBIN=$(abspath $(CACHE)/bin) go install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO)
	@GOBIN=$(abspath $(CACHE)/bin) go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@$(PROTOC_GEN_GO_GRPC)
	@PATH=$(abspath $(CACHE)/bin):$$PATH go generate ./...
	@scripts/web.sh generate

package: build ## a Debian package, built and looked into: bin/fermi_VERSION_ARCH.deb
	@scripts/package.sh $(VERSION)

sbom: build ## what bin/fermi is made of, as CycloneDX JSON: bin/fermi.cdx.json
	@go run ./cmd/sbom -version $(VERSION)

clean: ## remove what was built; data in .run and downloaded tools in .cache/bin stay
	@rm -rf bin $(CACHE)/log $(CACHE)/suites $(CACHE)/deps.stamp $(CACHE)/web.stamp
