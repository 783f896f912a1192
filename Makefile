# Everything one does with this repository, in one word each.

.PHONY: run test soak bench bench-gateway clients lint docs sdk dist

# Broker and node in one process, data kept between starts. ARGS="--role lead --role worker".
run:
	cargo run --release -p tasuki-node -- up $(ARGS)

# All tests. Installs the programs and SDKs that they need beside Rust, or skips those that need
# what is missing and names them in the last line.
test:
	./scripts/test.sh

# The crash, power-cut, damage and storm tests with many more rounds; beside them, waits of 25
# minutes over each transport, five minutes of broken networks between machines, and fifty workers
# on 2,000 tasks.
soak:
	TASUKI_ROUNDS=200 TASUKI_TASKS=2000 TASUKI_CUTS=500 TASUKI_TRIALS=200 TASUKI_WAIT_SECS=1500 \
		TASUKI_CHAOS_SECS=300 TASUKI_THREADS=10000 \
		./scripts/test.sh --release

# Each figure beside the limit measured in the same run. ARGS="--only board" measures only boards.
bench:
	cargo build --release -p tasuki-broker -p tasuki-node --bins
	cargo run --release -p tasuki-examples --example load -- $(ARGS)

# The gateway beside mcp-proxy (PyPI), fastmcp and mcp-proxy (crates.io), which are installed first.
bench-gateway:
	./scripts/bench-gateway-setup.sh
	cargo build --release -p tasuki-broker -p tasuki-node --bins
	cargo run --release -p tasuki-examples --example load -- --only gateway-peers $(ARGS)

# Real agent CLIs against a scripted model, without a network: installs them (2 GB), takes half
# an hour, writes the tables in docs/clients.md. ARGS="--only codex --wait 5" tries one quickly.
clients:
	./scripts/clients-setup.sh
	cargo build -p tasuki-node -p tasuki-examples --bins --example clients
	./scripts/offline.sh target/debug/examples/clients --page docs/clients.md $(ARGS)

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# An archive for this machine: programs, man pages, completions, systemd units, install.sh, licences.
dist:
	./scripts/dist.sh

sdk:
	./scripts/sdk-setup.sh
