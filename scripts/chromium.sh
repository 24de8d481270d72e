#!/bin/sh
# Sees that Chromium is there for the tests of the dashboard: installs Debian's package when it is not.
set -eu
browser=${FORETIDE_CHROMIUM:-/usr/bin/chromium}

stop() { echo "foretide: $1" >&2; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

[ -x "$browser" ] && exit 0
command -v apt-get >/dev/null 2>&1 ||
  stop "Chromium is needed for the tests and this is no Debian: install it, and set FORETIDE_CHROMIUM to its program."
[ "$(id -u)" = 0 ] || command -v sudo >/dev/null 2>&1 ||
  stop "Chromium is needed for the tests: run 'apt-get install chromium' as root."

echo "Installing Chromium for the tests ..."
as_root apt-get update -qq
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null
[ -x "$browser" ] || stop "Chromium was installed, but '$browser' is not there."
