# The commands of this repository. `make` alone prints them. All obey CARGO_TARGET_DIR.

.DEFAULT_GOAL := help
.PHONY: help demo test test-system bench lint fmt

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Serve the example data on this machine and query it
	cargo run --locked -p lightstream-examples --bin demo

test: ## All tests that need nothing but this repository, with cargo-nextest where it is installed
	env -u ARROW_TESTING_DATA scripts/run-tests.sh
	cargo test --locked --doc --workspace

test-system: ## Tests over Arrow's own files ($ARROW_TESTING_DATA) and a minute of fuzzing (needs nightly, cargo-fuzz)
	scripts/test-system.sh

bench: ## Measure Lightstream against Arrow Flight and raw TCP (minutes; a quiet machine)
	cargo run --release --locked -p lightstream-benchmarks --bin transport --

lint: ## Check formatting, clippy, and that the core depends on no query engine
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
	scripts/forbidden-dependencies.sh

fmt: ## Format the code
	cargo fmt --all
