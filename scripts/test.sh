#!/bin/sh
# All tests but those of make soak, in two processes side by side: those that start Spark in processes of their own, and
# those that share a Spark session, followed by those without Spark.
# usage: scripts/test.sh PYTHON
python=$1
if ! "$(dirname "$0")/chromium.sh"; then
  [ "${FORETIDE_REQUIRE_CHROMIUM:-0}" != 1 ] || exit 1
  echo "foretide: the tests go on; those of the dashboard's pages are skipped" >&2
fi
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"  # several processes share the cores already
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
"$python" -m pytest -m "spark and apart and not soak" >"$output/apart" 2>&1 &
apart=$!
trap 'kill $apart 2>/dev/null; exit 130' INT TERM
echo "Tests that share a Spark session (those with Spark in processes of their own run beside them):"
"$python" -m pytest -m "spark and not apart and not soak"
shared_status=$?
echo "Tests without Spark:"
"$python" -m pytest -m "not spark and not soak"
without_status=$?
wait $apart
apart_status=$?
echo "Tests with Spark in processes of their own:"
cat "$output/apart"
[ $shared_status -eq 0 ] && [ $apart_status -eq 0 ] && [ $without_status -eq 0 ]
