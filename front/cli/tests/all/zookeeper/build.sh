#!/usr/bin/env bash
# Builds what tests with ZooKeeper's clients use: the jars of zkCli, of the Java client and of Curator, a program of ours with Curator's
# recipes, and kazoo. Needs a JDK and Maven with its repository; Python 3 and its package index for the latter. Takes some minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../../../../../target/zookeeper-clients}
mkdir -p "$out"
out=$(cd "$out" && pwd)
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$out/jars"
mkdir -p "$out/classes"
javac -nowarn -cp "$out/jars/*" -d "$out/classes" "$here/recipes/Recipes.java"
if ! python3 -m venv "$out/python" || ! "$out/python/bin/pip" install --quiet --requirement "$here/requirements.txt"; then
    rm -rf "$out/python"
    echo "kazoo can not be installed here: its tests will be skipped" >&2
    exit 0
fi
# The ways in which kazoo waits. The tests look for these files.
touch "$out/python/threads"
for way in gevent==26.9.0 eventlet==0.41.3; do
    if "$out/python/bin/pip" install --quiet "$way"; then
        touch "$out/python/${way%%==*}"
    else
        echo "$way can not be installed here: its test will be skipped" >&2
    fi
done
