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
    echo "kazoo can not be installed here: its test will be skipped" >&2
fi
