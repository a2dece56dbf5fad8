#!/usr/bin/env bash
# Runs interop.py with a Python that has torch, numpy and safetensors: LKS_TEST_PYTHON, that of
# bench/setup-peers, or python3. Exits with 77 (skipped) where there is none.
#   run.sh ARGUMENTS OF interop.py
here=$(dirname "$0")
for python in "${LKS_TEST_PYTHON:-}" \
    "${XDG_CACHE_HOME:-$HOME/.cache}/lockstep-peers/torch/bin/python" python3; do
    [ -n "$python" ] && command -v "$python" >/dev/null || continue
    "$python" -c 'import numpy, safetensors, torch' 2>/dev/null || continue
    exec "$python" "$here/interop.py" "$@"
done
echo "skipped: no Python with torch, numpy and safetensors; bench/setup-peers makes one, or name it" \
    "in LKS_TEST_PYTHON"
exit 77
