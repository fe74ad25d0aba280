#!/usr/bin/env bash
# Everything before a commit: format, lint, types, import layers, tests.
#
#   scripts/check.sh           # minutes, most of them tests
#   scripts/check.sh --all     # and the slower suites: all studies, all audits, the site, the page in a browser
#   scripts/check.sh lint      # one step alone: lint, tests or suites
#
# The slower suites skip what is not installed (pip install -e '.[docs,browser]').
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"

lint() {
    ruff format --check .
    ruff check .
    mypy
    lint-imports
}

tests() {
    python -m pytest -q
}

suites() {
    local suite
    for suite in shipped thorough browser docs; do
        echo "+ pytest -m '$suite and not slow'"
        python -m pytest -q -m "$suite and not slow"
    done
}

# Steps are separated by `;`: in `lint && tests`, bash would not stop at the first failure inside `lint`.
case "${1:-}" in
    "") lint; tests ;;
    --all) lint; tests; suites ;;
    lint | tests | suites) "$1" ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
