#!/usr/bin/env bash
# Runs the clients that others wrote against the service: all programs of test/clients/python/run.py, or those that are named.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(.ci/install-python-clients)
LANCEGATE_JAVA_CLIENT=$(.ci/install-java-client)
export LANCEGATE_JAVA_CLIENT
if [ -n "$python" ]; then exec "$python" test/clients/python/run.py "$@"; fi
