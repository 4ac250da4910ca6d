#!/usr/bin/env bash
# What `make e2e-postgres` runs on the PostgreSQL that FERMI_TEST_POSTGRES names.
set -euo pipefail

go test -v -count=1 -race -timeout 10m ./internal/history/pgstore/...
go test -v -count=1 -timeout 10m -run '^TestPostgres' ./test/e2e
go test -v -count=1 -timeout 30m -run '^TestCrash' -skip TestCrashBuilds ./test/crash
