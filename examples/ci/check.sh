#!/bin/bash
# Checks a driver in continuous integration: check.sh DRIVER [OPTIONS OF dxgkit check...]
#   OUT       folder of the outputs (dxgkit-report): page, JSON, SARIF, JUnit
#   BASELINE  findings that are known (dxgkit-baseline.json, if there is one): other findings fail
# Exit codes: 0 nothing new, 1 findings, 2 bad input, 3 Windows would have stopped, 4 the driver did not come back.
set -euo pipefail
driver=$1
shift
out=${OUT:-dxgkit-report} baseline=${BASELINE:-dxgkit-baseline.json} known=()
[ -f "$baseline" ] && known=(--baseline "$baseline")
mkdir -p "$out"
code=0
dxgkit check "$driver" "${known[@]}" --html "$out/dxgkit.html" --json="$out/dxgkit.json" --sarif="$out/dxgkit.sarif" \
  --junit="$out/dxgkit.xml" --write-baseline "$out/dxgkit-baseline.json" "$@" || code=$?
if [ $code -ne 0 ]; then
  echo "check.sh: to take what is wrong today as known: cp $out/dxgkit-baseline.json $baseline" >&2
fi
exit $code
