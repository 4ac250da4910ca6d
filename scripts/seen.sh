#!/usr/bin/env bash
# seen.sh NAME: the folder for what a project's users must be able to read, as interpreters and libraries of their tasks. It is .cache/NAME; where this tree lies
# in a folder of which every replica has its own it is one below /var/cache, which has this tree's path in its name.
set -euo pipefail

cd "$(dirname "$0")/.."
case $PWD/ in
/tmp/* | /var/tmp/* | /dev/shm/*) home=/var/cache/fermi-tests$PWD/$1 ;;
*) home=$PWD/.cache/$1 ;;
esac
mkdir -p "$(dirname "$home")"
echo "$home"
