#!/usr/bin/env bash
# Builds etcd and etcdctl from their Go modules, for tests with real clients. Needs Go and its module proxy; takes some minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../../../../target/etcd-clients}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$here"
go build -o "$out/etcdctl" go.etcd.io/etcd/etcdctl/v3
go build -o "$out/etcd" go.etcd.io/etcd/server/v3
