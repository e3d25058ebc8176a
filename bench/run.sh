#!/usr/bin/env bash
# Haulier beside other job queues, in one run on one machine.
#
#   make build && bench/run.sh DIR -sys haulier,river,beanstalkd-f0 -w w1,w2,w3,w4 -reps 3
#
# DIR (or QBENCH_SRC) is a folder with the comparison: a Go module with qbench/, whose adapters implement its
# interface System. It is copied to a temporary folder, gets Haulier's adapter, is built and run. What it
# measures is printed, and appended to results.jsonl in the current folder (-out FILE for another).
# The servers of the other systems must be installed; their data is kept in QBENCH_DIR (default: a temporary folder).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")

src=${QBENCH_SRC:-}
if [ $# -gt 0 ] && [ -d "$1" ]; then
  src=$1
  shift
fi
if [ -z "$src" ] || [ ! -d "$src/qbench" ]; then
  echo "usage: bench/run.sh DIR [options of qbench]   (DIR holds qbench/ and its go.mod; or set QBENCH_SRC)" >&2
  exit 2
fi
export HAULIER_BIN=${HAULIER_BIN:-$top/bin/haulier}
if [ ! -x "$HAULIER_BIN" ]; then
  echo "$HAULIER_BIN is not there yet; build it with: make build" >&2
  exit 1
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp -R "$src/go.mod" "$src/go.sum" "$src/qbench" "$tmp/"
chmod -R u+w "$tmp"
cp "$here/qbench/haulier.go" "$tmp/qbench/haulier.go"
(
  cd "$tmp"
  cat "$here/go.sum" "$top/go.sum" >>go.sum
  go mod edit \
    -require github.com/haulier/haulier@v0.0.0 -replace "github.com/haulier/haulier=$top" \
    -require github.com/haulier/haulier/bench@v0.0.0 -replace "github.com/haulier/haulier/bench=$here"
  go build -mod=mod -tags qbench -o qbench.bin ./qbench
)
[ $# -gt 0 ] || set -- -sys haulier -w w1,w2,w3,w4
"$tmp/qbench.bin" "$@"
