#!/bin/bash
# PyTriton's own functional tests and the examples they run, unmodified, over
# pytriton-compat: scripts/pytriton.sh CHECKOUT [TEST...], where CHECKOUT is a
# clone of PyTriton's repository (never committed here). Prints a line per test;
# logs lie below .tools/pytriton. The test "unit" stands for the unit tests, but for
# those in pytriton-differences.txt. What differs, and why: docs/use/pytriton.md.
set -u
checkout=$(cd "${1:?the folder of a clone of PyTriton}" && pwd) && shift
cd "$(dirname "$0")/.."
root=$PWD
# Without those that need torch, tensorflow, jax, GPUs, containers or hours.
tests=${*:-L0_example_add_sub_python L0_example_add_sub_python_with_optionals L0_example_identity_python
  L0_example_multiple_models_example L0_example_add_sub_vertex_ai L0_example_simple_python_remote_mode L0_example_use_parameters_and_headers
  L0_decoupled_mode L0_fatal_error_handling L0_inference_with_variable_io_size L0_model_error_handling L0_network_timeouts
  L0_remote_life_cycle L0_resources_released_after_signals L0_response_cache L0_run_in_thread
  L0_token_based_access_restriction L0_triton_close_on_parent_death L0_tritons_cohabitation L0_warmup_functionality
  L0_warning_on_too_verbose_level unit}
home=$root/.tools/pytriton
venv=$home/venv
if [ ! -e "$venv/.done" ]; then
  "$root/.venv/bin/python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy 'tritonclient[all]' wrapt pytest pytest-timeout \
    pytest-asyncio pytest-mock psutil requests scikit-learn && touch "$venv/.done" || exit 1
fi
mkdir -p "$home/log"
export PATH=$venv/bin:$PATH NESO_BINARY=$root/bin/neso PYTHONPATH=$root/python:$root/python/pytriton-compat
export PYTEST_ADDOPTS='-o asyncio_mode=auto -p no:cacheprovider' PYTHONDONTWRITEBYTECODE=1
# Ports 8000 to 8002 are written into the examples: in a network of their own, where that is allowed, they are free.
alone=
unshare -n true 2>/dev/null && alone='unshare -n'
status=0
unit() {
  local skip
  skip=$(sed -n 's|^\(test_[^ :]*\) .*|--ignore=tests/unit/\1|p
    s|^\(test_[^ :]*::[^ ]*\) .*|--deselect=tests/unit/\1|p' "$root/scripts/pytriton-differences.txt")
  # shellcheck disable=SC2086 # one option per line
  (cd "$work" && PYTHONPATH=$PYTHONPATH:$root/scripts timeout "${PYTRITON_TIMEOUT:-280}" "$venv/bin/python" -m pytest -q -p pytriton_unit \
    -o asyncio_default_fixture_loop_scope=function --timeout 60 --tb=short $skip tests/unit)
}
# With the checkout as the working folder its own pytriton would be imported.
work=$home/checkout
rm -rf "$work" && mkdir -p "$work" && cp -r "$checkout/tests" "$checkout/examples" "$checkout/docs" "$work" || exit 1
for t in $tests; do
  begun=$SECONDS
  if [ "$t" = unit ]; then
    unit >"$home/log/$t.log" 2>&1
    rc=$?
    word="$(tail -n 1 "$home/log/$t.log")"
    [ $rc = 0 ] || { word="FAIL ($rc, see .tools/pytriton/log/$t.log): $word"; status=1; }
    echo "$t: $word"
    continue
  fi
  # test.sh installs packages and then runs one command, with time limits of five minutes.
  (cd "$work" && $alone bash -c "
    ip link set lo up 2>/dev/null
    pip() { :; }; export -f pip
    exec timeout ${PYTRITON_TIMEOUT:-280} bash tests/functional/$t/test.sh") >"$home/log/$t.log" 2>&1
  rc=$?
  [ $rc = 0 ] && word=pass || { word="FAIL ($rc, see .tools/pytriton/log/$t.log)"; status=1; }
  echo "$t: $word, $((SECONDS - begun)) s"
done
exit $status
