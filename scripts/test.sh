#!/usr/bin/env bash
# `make test`: everything that needs no outside service. Stops at the first suite that fails.
set -euo pipefail

begin=$(date +%s)
suite=scripts/suite.sh

format() {
	local bad
	bad=$(gofmt -l $(go list -f '{{.Dir}}' ./...))
	if [ -n "$bad" ]; then
		echo "not formatted; run gofmt -w on:"
		echo "$bad"
		return 1
	fi
}
export -f format

"$suite" format bash -euo pipefail -c format
"$suite" vet go vet ./...
"$suite" staticcheck "$STATICCHECK" ./...
if command -v npm >/dev/null && [ -e web/node_modules/.package-lock.json ]; then
	"$suite" web-types npm --prefix web run --silent check
	"$suite" web-lint npm --prefix web run --silent lint
	"$suite" web-unit npm --prefix web run --silent test
else
	line="skipped web-types, web-lint, web-unit: npm is missing"
	echo "$line"
	[ -z "${FERMI_SUITES:-}" ] || echo "$line" >>"$FERMI_SUITES"
fi
"$suite" sdk scripts/sdk.sh unit
# The suites that run the shipped binary come by themselves: below, and in `make e2e`.
"$suite" unit go test -v -race -timeout 30m $(go list ./... | grep -vE '/test/(attack|cards|crash|data|disk|e2e|ha|hosts|pods|recovery|serve|silence|trainers|upgrade|workbench)$')
# Builds of images need buildah, which make e2e-crash installs.
FERMI_CRASH_ROUNDS=3 FERMI_CRASH_SEED=${FERMI_CRASH_SEED:-1} "$suite" crash-sample go test -v -count=1 -timeout 30m -run TestCrash -skip TestCrashBuilds ./test/crash/...
"$suite" recovery go test -v -count=1 -timeout 30m ./test/recovery/...

echo "test: $(($(date +%s) - begin)) s in all"
