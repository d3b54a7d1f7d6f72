#!/bin/sh
# Installs the browser check into a folder of its own: install.sh FOLDER
#
# Afterwards: node FOLDER/check.mjs [--empty | --foreign] REPORT.html [SCREENSHOTS_FOLDER]
#             node FOLDER/verifier.mjs VERIFY.html CASES.json [SCREENSHOTS_FOLDER]
# The browser is Debian's Chromium, which this installs as root if it is absent; no browser is downloaded from elsewhere.
set -eu
[ $# -eq 1 ] || { echo "usage: install.sh FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -x /usr/bin/chromium ]; then
    [ "$(id -u)" -eq 0 ] || { echo "/usr/bin/chromium is absent: apt-get install chromium" >&2; exit 1; }
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
fi
mkdir -p "$1"
cd "$1"
# Copied, because Node looks for packages beside the script that imports them.
cp "$here"/*.mjs "$here/package.json" "$here/package-lock.json" .
# No install scripts: playwright-core's would be harmless, and a test should not run what it does not need.
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
