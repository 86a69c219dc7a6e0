#!/usr/bin/env bash
# Fuzzes every target of a test binary for FUZZTIME, with one worker. `go test -exec` runs it for each package, in the
# directory of the package: fuzz.sh BINARY ARGUMENTS…
#
# The end of the time sometimes shows as a failure, "context deadline exceeded", without an
# input that fails (go.dev/issue/75804, mended in Go 1.27). Such a target is fuzzed again, at most twice.
set -euo pipefail
binary=$1
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
for target in $("$binary" -test.list '^Fuzz'); do
  for try in 1 2 3; do
    if "$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "${FUZZTIME:?}" -test.fuzzminimizetime 10x \
      -test.parallel 1 -test.fuzzcachedir "$cache" -test.timeout 5m >"$cache/said" 2>&1; then
      break
    fi
    cat "$cache/said"
    if ((try == 3)) || ! grep -q '^    context deadline exceeded$' "$cache/said" || grep -q 'Failing input' "$cache/said"; then
      exit 1
    fi
  done
done
