#!/bin/sh
# Says in one sentence what to install when Python or Java is missing or too old.
python="$1"
stop() { echo "foretide: $1" >&2; exit 1; }

command -v "$python" >/dev/null 2>&1 ||
  stop "Python 3.11 or newer is needed and '$python' was not found: install it, or name it with 'make PYTHON=/path/to/python3.11 ...'."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  stop "Python 3.11 or newer is needed, but '$python' is $("$python" -c 'import platform; print(platform.python_version())'): install a newer one, or name it with 'make PYTHON=/path/to/python3.11 ...'."

java="java"
[ -n "$JAVA_HOME" ] && java="$JAVA_HOME/bin/java"
command -v "$java" >/dev/null 2>&1 ||
  stop "Java 17 or newer is needed and '$java' was not found: install a JDK (Debian: 'apt install openjdk-17-jre-headless'), or point JAVA_HOME at one."
major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\)\.\{0,1\}\([0-9]*\).*/\1 \2/p' | head -n 1 | { read -r a b; [ "$a" = 1 ] && echo "$b" || echo "$a"; })
[ "${major:-0}" -ge 17 ] 2>/dev/null ||
  stop "Java 17 or newer is needed, but '$java' is version ${major:-unknown}: install a newer JDK (Debian: 'apt install openjdk-17-jre-headless'), or point JAVA_HOME at one."
