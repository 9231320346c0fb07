# The list of developer commands. `make run` and `make test` are all that a new user needs; both do the
# whole set-up themselves on a fresh Debian or Ubuntu.

.DEFAULT_GOAL := help
.PHONY: help run test check check-arm soak bench guest deb static site looks setup clean
NEARFAR = target/release/nearfar
# Debian's Rust has no default job limit; two cores build best with what cargo chooses.
CARGO ?= cargo
# What `make guest` runs there; exported, so that it may hold any quotes.
export CMD ?= nearfar map

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 10

setup: ## install what is missing (system packages, a Rust toolchain)
	@scripts/setup

run: setup ## measure this machine: the quick experiment, a table, and a report to look at
	@[ -e $(NEARFAR) ] || echo "Building nearfar. The first build takes about five minutes on two cores."
	@$(CARGO) build --release --bin nearfar
	@$(NEARFAR) run quick
	@$(NEARFAR) report

test: setup ## every test; those that need what this machine lacks are skipped, printed and counted
	@scripts/test

check: ## formatting, lints, documentation, wording, spelling, commit messages
	@scripts/setup check
	@$(CARGO) fmt --all --check
	@rustfmt --check --edition 2024 crates/workloads/src/kernels/unixbench/program/*.rs
	@$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	@$(CARGO) clippy --package store --package nearfar --features nearfar/s3,nearfar/postgres --all-targets --quiet -- -D warnings
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet --document-private-items
	@scripts/check-house
	@scripts/check-words
	@scripts/check-commits
	@"$${XDG_CACHE_HOME:-$$HOME/.cache}/nearfar-tools/typos/bin/typos"

check-arm: setup ## builds for 64-bit ARM and runs the tests there, emulated
	@scripts/setup arm
	@scripts/check-arm

soak: setup ## an hour and a half of stress on programs with less DRAM than they need: nothing of theirs may be lost
	@NEARFAR_SOAK=720 $(CARGO) test --package nearfar --test expand stress -- --nocapture
	@NEARFAR_SOAK=600 $(CARGO) test --package nearfar --test operations -- --nocapture
	@NEARFAR_SOAK=300 $(CARGO) test --package nearfar --test graph_out_of_core -- --nocapture

bench: setup ## the targets, as ratios against peers in one run each (quiet machine wanted)
	@$(CARGO) build --release --bin nearfar
	@scripts/bench

guest: setup ## a command on an emulated two-socket machine: make guest CMD='nearfar map'
	@scripts/setup guest
	@$(CARGO) build --release --bin nearfar
	@scripts/guest "$$CMD"

deb: setup ## a Debian package of the program: target/debian/nearfar_*.deb
	@scripts/setup deb
	@scripts/deb

static: setup ## a program that needs no libhwloc where it runs: target/static/nearfar
	@scripts/setup static
	@scripts/static

site: setup ## the documentation as pages, search included: target/site/index.html
	@scripts/setup site
	@$(CARGO) build --release --bin nearfar
	@scripts/site

looks: setup ## the report as a browser shows it, checked and photographed: target/looks/*.png
	@$(CARGO) test --quiet --package nearfar --test looks

clean: ## throw away what was built
	@$(CARGO) clean
