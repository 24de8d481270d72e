#!/bin/sh
# Sees that PostgreSQL's programs are there for the tests: installs Debian's packages when they are not. The tests start
# a server of their own, so none is set up here.
set -eu
installed=${FORETIDE_POSTGRES_FOLDER:-/usr/lib/postgresql}

have_postgres() { command -v postgres >/dev/null 2>&1 || ls "$installed"/*/bin/postgres >/dev/null 2>&1; }
stop() { echo "foretide: $1" >&2; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$1" >/dev/null; }

have_postgres && exit 0
command -v apt-get >/dev/null 2>&1 ||
  stop "PostgreSQL is needed for the tests and this is no Debian: install its server, with initdb and postgres on the PATH."
[ "$(id -u)" = 0 ] || command -v sudo >/dev/null 2>&1 ||
  stop "PostgreSQL is needed for the tests: run 'apt-get install postgresql' as root."

echo "Installing PostgreSQL for the tests ..."
as_root apt-get update -qq
install postgresql-common
settings=/etc/postgresql-common/createcluster.conf
[ ! -f "$settings" ] || as_root sed -i 's/^#* *create_main_cluster.*/create_main_cluster = false/' "$settings"
install postgresql
have_postgres || stop "PostgreSQL was installed, but its programs are not below $installed."
