#!/usr/bin/env bash
# Builds an archive of both programs for the machine it runs on,
# target/dist/tasuki-VERSION-TARGET.tar.gz: binaries, man pages, completions, systemd units,
# licences and a script that installs them for one user, laid out as below /usr.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
# Both would have cargo build elsewhere than what is packed.
unset CARGO_BUILD_TARGET CARGO_BUILD_TARGET_DIR

cargo build --release --locked -p tasuki-broker -p tasuki-node --bins
bin=${CARGO_TARGET_DIR:-target}/release
version=$("$bin/tasuki" --version | cut -d' ' -f2)
name=tasuki-$version-$(rustc -vV | sed -n 's/^host: //p')
out=target/dist/$name

rm -rf "$out"
install -Dt "$out/bin" "$bin/tasuki" "$bin/tasuki-broker"
"$bin/tasuki" man-pages "$out/share/man/man1" > /dev/null
"$bin/tasuki-broker" man-pages "$out/share/man/man8"
for program in tasuki tasuki-broker; do
    for shell in bash zsh fish; do
        case $shell in
            bash) file=bash-completion/completions/$program ;;
            zsh) file=zsh/site-functions/_$program ;;
            fish) file=fish/vendor_completions.d/$program.fish ;;
        esac
        mkdir -p "$(dirname "$out/share/$file")"
        "$bin/$program" completions "$shell" > "$out/share/$file"
    done
done
install -Dm644 -t "$out/lib/systemd/system" packaging/tasuki-broker.service
install -Dm644 -t "$out/lib/systemd/user" packaging/tasuki.service packaging/tasuki-node.service
install -Dm644 -t "$out/share/tasuki" packaging/grafana-tasuki.json
install -Dm644 -t "$out/share/doc/tasuki" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT
install -Dm755 -t "$out/share/doc/tasuki" scripts/install.sh
# The crates in the binaries and their licences.
cargo tree -p tasuki-broker -p tasuki-node --locked --edges normal --prefix none --format '{p} {l}' \
    | sed 's/ (\*)$//; s/ (proc-macro)//' | grep -v ' (/' | sort -u \
    > "$out/share/doc/tasuki/THIRD-PARTY.txt"
tar -C target/dist --owner=root --group=root -czf "$out.tar.gz" "$name"
(cd target/dist && sha256sum "$name.tar.gz" > "$name.tar.gz.sha256")
echo "$out.tar.gz"
