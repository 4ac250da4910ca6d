#!/usr/bin/env bash
# far.sh pack DIR, far.sh run PROCESSES [DRILLS [CALM]]: this suite by test/far.sh, which does others likewise.
set -euo pipefail
far=$(cd "$(dirname "$0")" && pwd)/../far.sh
case ${1:-} in
pack) "$far" pack "$2" silence ;;
run) shift && "$far" run silence "$@" ;;
*) "$far" ;;
esac
