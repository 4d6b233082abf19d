# `make` lists the targets. Everything works on a fresh machine: see scripts/setup.sh.

.DEFAULT_GOAL := help
.PHONY: help demo demo-clean test mutants bench lint images setup

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

demo: ## two revisions of examples/shop side by side
	@scripts/demo.sh

demo-clean: ## remove the demo with its data
	@scripts/demo.sh clean

setup: ## make sure of Docker Engine, Compose, a C compiler and cargo
	@scripts/setup.sh

images: ## pull the images that the tests use, or make stand-ins for them
	@scripts/images.sh

test: setup images ## all tests, also those on a real Docker Engine
	cargo test --workspace --no-fail-fast

mutants: setup images ## break the program in one place at a time, and see that its test fails
	@scripts/mutants.sh

bench: setup images ## the numbers to hold, as ratios, on this machine
	cargo bench -p sidestack-tests --bench bench

lint: ## formatting, clippy, and what the repository must not contain
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	@scripts/check-repo.sh
