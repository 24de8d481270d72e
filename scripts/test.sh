#!/bin/sh
# All tests in three processes side by side: two with Spark, and with what they leave of the cores those without.
# usage: scripts/test.sh PYTHON
python=$1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"  # several processes share the cores already
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
"$python" -m pytest -m "not spark and not soak" >"$said/without" 2>&1 &
without=$!
"$python" -m pytest -m "spark and apart and not soak" >"$said/apart" 2>&1 &
apart=$!
trap 'kill $without $apart 2>/dev/null; exit 130' INT TERM
echo "With Spark (long ones, and those without Spark, run beside them):"
"$python" -m pytest -m "spark and not apart and not soak"
with_spark=$?
wait $apart
with_spark_apart=$?
echo "With Spark, in processes of their own:"
cat "$said/apart"
wait $without
without_spark=$?
echo "Without Spark:"
cat "$said/without"
[ $with_spark -eq 0 ] && [ $with_spark_apart -eq 0 ] && [ $without_spark -eq 0 ]
