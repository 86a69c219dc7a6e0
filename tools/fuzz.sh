#!/usr/bin/env bash
# Fuzzes every target of a test binary for FUZZTIME, with one worker. `go test -exec` runs it for each package, in the
# directory of the package: fuzz.sh BINARY ARGUMENTS…
set -euo pipefail
binary=$1
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
for target in $("$binary" -test.list '^Fuzz'); do
  "$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "${FUZZTIME:?}" -test.fuzzminimizetime 10x \
    -test.parallel 1 -test.fuzzcachedir "$cache" -test.timeout 5m
done
