# Developer commands. `make run` and `make test` are all that a new user needs: on Debian and Ubuntu they install what is
# missing.

.DEFAULT_GOAL := help
.PHONY: help setup run test check check-arm miri bare bare-walks walks soak bench guest deb static site looks clean
NEARFAR = target/release/nearfar
CARGO ?= cargo
# All optional features but MPI, and the dependencies of these features without their code (crates/nearfar/Cargo.toml): the
# crates with features, store and nearfar, are checked with both.
CHECKED = nearfar/s3,nearfar/postgres
DEPENDENCIES = nearfar/dependencies
# The command of `make guest`; exported, so that it may contain quotes.
export CMD ?= nearfar map

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 10

setup: ## install what is missing (system packages, a Rust toolchain)
	@scripts/setup

run: setup ## measure this machine: the quick experiment as a table and a report
	@[ -e $(NEARFAR) ] || echo "Building nearfar. The first build takes about five minutes on two cores."
	@$(CARGO) build --release --bin nearfar
	@$(NEARFAR) run quick
	@$(NEARFAR) report

test: ## all tests; those that need what this machine lacks are skipped and counted
	@scripts/setup test
	@scripts/test

check: ## formatting, lints, documentation, external crates, wording, spelling, names, commit messages
	@scripts/setup check
	@$(CARGO) fmt --all --check
	@rustfmt --check --edition 2024 crates/workloads/src/kernels/unixbench/program/*.rs
	@$(CARGO) clippy --workspace --all-targets --features $(CHECKED) --quiet -- -D warnings
	@$(CARGO) clippy -p store -p nearfar --all-targets --features $(DEPENDENCIES) --quiet -- -D warnings
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --features $(CHECKED) --no-deps --quiet --document-private-items
	@scripts/check-house
	@scripts/check-crates
	@scripts/check-words
	@scripts/check-commits
	@scripts/check-docs
	@"$${XDG_CACHE_HOME:-$$HOME/.cache}/nearfar-tools/typos/bin/typos"

check-arm: setup ## build for 64-bit ARM and run the tests there, emulated
	@scripts/setup arm
	@scripts/check-arm --all

miri: setup ## run the tests of unsafe code that Miri can execute (nightly toolchain)
	@scripts/check-miri

bare: ## the README's commands in a bare Debian, with and without network (40 minutes, root)
	@scripts/bare

bare-walks: ## the walks at small size in a bare Debian with the Debian package (10 minutes, root)
	@scripts/bare walks

walks: setup ## the first hour of five kinds of users, timed (ten minutes; needs a quiet machine): scripts/walks
	@$(CARGO) build --release --bin nearfar
	@set -e; for walk in newcomer kernel hpc reviewer database; do scripts/walks/$$walk; done

soak: setup ## stress programs with less DRAM than they need, for an hour and a half: they must not lose data
	@NEARFAR_SOAK=720 $(CARGO) test --package nearfar --test expand stress -- --nocapture
	@NEARFAR_SOAK=600 $(CARGO) test --package nearfar --test operations -- --nocapture
	@NEARFAR_SOAK=300 $(CARGO) test --package nearfar --test graph_out_of_core -- --nocapture
	@NEARFAR_FUZZ=100000 $(CARGO) test --package nearfar --test fuzz -- --nocapture
	@$(CARGO) build --bin nearfar
	@scripts/kill --kills 1000

bench: setup ## measure the targets, in alternation with other benchmark programs (needs a quiet machine)
	@$(CARGO) build --release --bin nearfar
	@scripts/bench

guest: setup ## run a command on an emulated machine with two sockets: make guest CMD='nearfar map'
	@scripts/setup guest
	@$(CARGO) build --release --bin nearfar
	@scripts/guest "$$CMD"

deb: setup ## build a Debian package: target/debian/nearfar_*.deb
	@scripts/setup deb
	@scripts/deb

static: setup ## build a program that does not need libhwloc: target/static/nearfar
	@scripts/setup static
	@scripts/static

site: setup ## build the documentation as HTML with a search: target/site/index.html
	@scripts/setup site
	@$(CARGO) build --release --bin nearfar
	@scripts/site

looks: setup ## check the report in Chromium and take screenshots: target/looks/*.png
	@$(CARGO) test --quiet --package nearfar --test looks

clean: ## delete everything that was built
	@$(CARGO) clean
