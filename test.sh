#!/usr/bin/env bash
# Builds Lockstep in every way and runs all checks; installs what is missing first (Debian packages).
# The last lines are those of the release build's tests. What the jobs are: tools/ci
set -euo pipefail
cd "$(dirname "$0")"
tools/install-packages test
exec tools/ci all
