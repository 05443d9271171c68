#!/bin/sh
# The main job on real documents: the Go language specification and memory model of the local Go
# installation go in, the gate is calibrated on questions about them, and
# two questions are asked: one that the documents answer, one that they do not.
# Called by `make demo` after set-up and build. The store stays, so a second run only answers.
# With the argument "check" (`make demo-check`) it asks examples/gospec's forty questions instead.
set -eu
cd "$(dirname "$0")/.."
store=${SLUICE_DEMO_STORE:-build/out/demo}
docs=$(GOTOOLCHAIN=local go env GOROOT)/doc
started=${SLUICE_DEMO_STARTED:-$(date +%s)} # make passes the moment before set-up and build

if [ ! -f "$docs/go_spec.html" ]; then
	echo "demo: $docs/go_spec.html is missing: this Go installation comes without its documentation." >&2
	echo "demo: install Go from its own archive (not a toolchain fetched on demand), or set SLUICE_DEMO_DOCS." >&2
	[ -n "${SLUICE_DEMO_DOCS:-}" ] || exit 1
fi
docs=${SLUICE_DEMO_DOCS:-$docs}

bold='' plain=''
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
step() { printf '\n%s%s%s\n$ %s\n' "$bold" "$1" "$plain" "$2"; sh -c "$2"; }

mkdir -p "$(dirname "$store")"
step "1. Documents in (chunks that are stored already are not embedded again)" \
	"bin/sluice ingest --store $store $docs/go_spec.html $docs/go_mem.html"
if bin/sluice calibrate --store "$store" --show >/dev/null 2>&1; then
	printf '\n2. Calibrated before; remove %s to do it again\n' "$store"
else
	step "2. The gate is calibrated on questions about the chunks, made of their own words" \
		"bin/sluice calibrate --store $store --plot $store/calibration.svg"
fi
if [ "${1:-}" = check ]; then
	step "3. Twenty questions in scope, twenty out of scope" \
		"go run ./examples/gospec -store $store -spec $docs/go_spec.html"
else
	step "3. A question in scope: the gate opens, the documents answer in their own words" \
		"bin/sluice ask --store $store --trace 'In what order are deferred functions executed when a function returns?'"
	step "4. A question out of scope: the gate stays closed, nothing is retrieved" \
		"bin/sluice ask --store $store --trace 'What is the capital of France?'"
fi
printf '\ndemo: done in %s s, set-up and build included\n' "$(($(date +%s) - started))"
