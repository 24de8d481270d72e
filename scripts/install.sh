#!/bin/sh
# Runs a command that installs, such as one of pip, and says within two seconds and then from time to time how it gets on; its output only if it fails.
log=$(mktemp) || exit 1
"$@" >"$log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null; rm -f "$log"; exit 130' INT TERM
began=$(date +%s)
said=""
next=0
while kill -0 "$pid" 2>/dev/null; do
  passed=$(($(date +%s) - began))
  step=$(grep -E '^(Collecting|Building wheel|Installing)|^ *Downloading' "$log" | tail -n 1 | sed 's/^ *//' | cut -c1-60)
  if [ "$passed" -ge "$next" ] || { [ "$step" != "$said" ] && [ "$passed" -ge $((next - 5)) ]; }; then
    echo "  installing, $passed s: ${step:-preparing}"
    said="$step"
    next=$((passed + 10))
  fi
  sleep 1
done
wait "$pid"
code=$?
[ "$code" -eq 0 ] || cat "$log" >&2
rm -f "$log"
exit "$code"
