#!/usr/bin/env bash
# Packs lancegate, installs the package into an empty folder as its users do, and runs it there: test/package.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir "$folder/user" "$folder/node"
npm pack --silent --pack-destination "$folder" >/dev/null
tarball=$(ls "$folder"/lancegate-*.tgz)
npx publint run --strict "$tarball"

quietly=(--silent --no-audit --no-fund --prefer-offline)
echo '{"private":true}' >"$folder/user/package.json"
npm install "${quietly[@]}" --prefix "$folder/user" "$tarball"
# The oldest Node that the package runs on. Its package puts the program of this machine in place when it is installed.
echo '{"private":true,"allowScripts":{"node":true}}' >"$folder/node/package.json"
npm install "${quietly[@]}" --prefix "$folder/node" node@22.16.0

export TEST_PACKAGE="$folder/user/node_modules/lancegate" TEST_OLDEST_NODE="$folder/node/node_modules/node/bin/node"
npx node --test test/package/*.test.ts
