#!/bin/sh
# Makes the data directory of a release, as a broker of that release leaves it, for the test that
# later ones open it: `make-data-directory.sh BIN 0.1.0`, where BIN has the programs of the release.
# What is in it is what the test expects; make a new one for each release and keep the old ones.
set -eu
bin=$1 version=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'kill "$up" 2>/dev/null || true; rm -rf "$work"' EXIT
export HOME="$work/home" TASUKI_DATA="$work/data"
mkdir -p "$HOME"
cd "$work"
"$bin/tasuki" up --listen 127.0.0.1:0 --broker-listen 127.0.0.1:0 \
    --role A --role B --role lead --role worker >"$work/up" 2>"$work/log" &
up=$!
until grep -q gRPC "$work/up"; do kill -0 "$up"; done
t() { "$bin/tasuki" "$@" >"$work/out"; }

t loop handover --role A --summary "the schema is written" --instruction "review it"
t mail send --role A --to B --subject "the first letter" "sent by $version"
t issue create --role lead "Build the importer"
issue=$(grep -o 'issue_[0-9]*_[0-9]*' "$work/out" | head -1)
t task create --role lead --difficulty easy --points 2 "$issue" "Read the files"
t task create --role lead --difficulty medium --points 3 "$issue" "Write the report"
t task claim --role worker "$issue/task-1"
t lock acquire --role worker --repository example.org/importer src/read.rs
echo "kept since $version" >"$work/notes"
t doc write --role lead notes "$work/notes"

kill "$up"
wait "$up" || true
tar -C "$TASUKI_DATA" --exclude=location.json --exclude=admin.json --exclude=search \
    --exclude=lock --owner=0 --group=0 --mtime=@0 --sort=name -czf "$here/data-$version.tar.gz" broker
