#!/usr/bin/env bash
# Builds what tests with real clients use: etcd, etcdctl and etcdutl from their Go modules, a program of ours with etcd's Go client, and two Python
# libraries. Needs Go and its module proxy; Python 3 and its package index for the latter. Takes some minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../../../../../target/etcd-clients}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$here"
go build -o "$out/etcdctl" go.etcd.io/etcd/etcdctl/v3
go build -o "$out/etcdutl" go.etcd.io/etcd/etcdutl/v3
go build -o "$out/etcd" go.etcd.io/etcd/server/v3
go build -o "$out/recipes" ./recipes
if ! python3 -m venv "$out/python" || ! "$out/python/bin/pip" install --quiet --requirement requirements.txt; then
    rm -rf "$out/python"
    echo "the Python libraries can not be installed here: their test will be skipped" >&2
fi
