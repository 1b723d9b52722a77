# The commands of this repository. `make` alone prints them. All obey CARGO_TARGET_DIR.

.DEFAULT_GOAL := help
.PHONY: help demo test test-python test-system wheels bench bench-link bench-queries bench-polars bench-daft lint fmt

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Serve the example data on this machine and query it
	cargo run --locked -p lightstream-examples --bin demo

test: ## All tests that need nothing but this repository, with cargo-nextest where it is installed
	env -u ARROW_TESTING_DATA scripts/run-tests.sh
	cargo test --locked --doc --workspace
	$(MAKE) --no-print-directory test-python

test-python: ## The tests of the Python packages alone; they are built and installed into .venv
	scripts/python-env.sh pytest -q -rs core/python/tests
	scripts/python-env.sh pytest -q -rs polars-plugin/tests
	POLARS=1.44.2 scripts/python-env.sh pytest -q -rs polars-plugin/tests
	scripts/python-env.sh pytest -q -rs daft-source/tests
	scripts/python-env.sh pytest -q -rs tests/python

wheels: ## Release wheels of every Python package, in target/wheels
	scripts/python-env.sh --wheels

test-system: ## Tests over Arrow's own files ($ARROW_TESTING_DATA), over a slow link (root) and a minute of fuzzing (nightly, cargo-fuzz)
	scripts/test-system.sh

bench: ## Measure Lightstream against Arrow Flight and raw TCP (minutes; a quiet machine)
	cargo run --release --locked -p lightstream-benchmarks --bin transport --

bench-link: ## The same over a link of 10 ms and 1 Gbit/s between two network namespaces (minutes; needs root)
	benchmarks/link/run.sh --shapes numeric,string-heavy --streams 1,4 --rounds 3 --bytes 192MiB \
		--systems raw-tcp,lightstream,flight,flight-8mib --out "$${CARGO_TARGET_DIR:-target}/bench/link"
	benchmarks/link/run.sh --flight-info --shapes numeric --streams 1 --rounds 3 --bytes 64MiB \
		--systems raw-tcp,lightstream,flight --out "$${CARGO_TARGET_DIR:-target}/bench/link/flight-info"

bench-queries: ## Time DataFusion over local tables, Lightstream and Arrow Flight (minutes; a quiet machine)
	cargo run --release --locked -p lightstream-bench-queries --bin queries --

bench-polars: ## Time Polars over Lightstream, Arrow Flight and a local Parquet file (minutes; builds release wheels)
	benchmarks/engines/run.sh bench_polars.py

bench-daft: ## Time Daft over Lightstream, Arrow Flight and its own memory (minutes; builds release wheels)
	benchmarks/engines/run.sh bench_daft.py

lint: ## Check formatting, clippy, and that the core depends on no query engine
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
	scripts/forbidden-dependencies.sh

fmt: ## Format the code
	cargo fmt --all
