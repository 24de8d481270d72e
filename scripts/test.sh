#!/bin/sh
# All tests: those with Spark, and beside them, with what they leave of the cores, those without.
# usage: scripts/test.sh PYTHON
python=$1
said=$(mktemp)
trap 'rm -f "$said"' EXIT
nice -n 10 "$python" -m pytest -m "not spark" >"$said" 2>&1 &
without=$!
trap 'kill $without 2>/dev/null; exit 130' INT TERM
echo "With Spark (those without run beside them):"
"$python" -m pytest -m spark
with_spark=$?
wait $without
without_spark=$?
echo "Without Spark:"
cat "$said"
[ $with_spark -eq 0 ] && [ $without_spark -eq 0 ]
