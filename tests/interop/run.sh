#!/usr/bin/env bash
# Runs a script beside this one with a Python that has what it imports: LKS_TEST_PYTHON, that of
# bench/setup-peers, or python3. Exits with 77 (skipped) where there is none.
#   run.sh interop.py|gpt2.py|hdf5.py ARGUMENTS OF IT
here=$(dirname "$0")
script=$1
shift
modules="torch, numpy, safetensors"
[ "$script" = gpt2.py ] && modules="$modules, transformers"
[ "$script" = hdf5.py ] && modules="numpy, h5py"
for python in "${LKS_TEST_PYTHON:-}" \
    "${XDG_CACHE_HOME:-$HOME/.cache}/lockstep-peers/torch/bin/python" python3; do
    [ -n "$python" ] && command -v "$python" >/dev/null || continue
    "$python" -c "import $modules" 2>/dev/null || continue
    exec "$python" "$here/$script" "$@"
done
echo "skipped: no Python with $modules; bench/setup-peers makes one, or name it in LKS_TEST_PYTHON"
exit 77
