#!/bin/sh
# Installs the verifiers and readers of other projects into a folder of its own: install.sh FOLDER
#
# Afterwards each verifier takes MANIFEST BUNDLE PUBLIC_KEY_PEM and exits with 0 (accepted) or 1 (refused):
#   node FOLDER/verify.mjs             npm @sigstore/verify
#   FOLDER/venv/bin/python FOLDER/verify.py    python securesystemslib
#   sh FOLDER/verify.sh                openssl
# and FOLDER/venv/bin/python FOLDER/lake.py WAREHOUSE EXPECTED.json reads tables with deltalake, pandas and DuckDB,
# and FOLDER/venv/bin/python FOLDER/s3.py ENDPOINT CREDENTIALS RUN asks a served store as the AWS SDK does,
# and FOLDER/venv/bin/zizmor and FOLDER/venv/bin/shellcheck read workflows and their scripts,
# and FOLDER/node_modules/.bin/gitlab-ci-local runs the jobs of a `.gitlab-ci.yml` in a shell.
set -eu
[ $# -eq 1 ] || { echo "usage: install.sh FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
# Copied, because Node looks for packages beside the script that imports them.
cp "$here/verify.mjs" "$here/verify.py" "$here/verify.sh" "$here/lake.py" "$here/s3.py" "$here/package.json" "$here/package-lock.json" "$here/requirements.txt" .
# No install scripts: these packages need none, and a test should not run what it does not need.
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
[ -x venv/bin/python ] || python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: -r requirements.txt
