#!/usr/bin/env bash
# Lints the document of a running service, and generates a client of it, with which a table is made, upserted into and queried.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p node_modules/.cache
scratch=$(mktemp -d "$PWD/node_modules/.cache/openapi.XXXXXX")
service=
finish() {
  if [ -n "$service" ]; then kill "$service" 2>/dev/null || true; fi
  rm -rf "$scratch"
}
trap finish EXIT

node bin/lancegate.js serve --port 0 --data "$scratch/data" >"$scratch/log" 2>&1 &
service=$!
for _ in $(seq 600); do grep -q 'listening on' "$scratch/log" && break; sleep 0.1; done
url=$(grep -o 'listening on http://[0-9.:]*' "$scratch/log" | grep -o 'http.*')
token=$(node bin/lancegate.js token --data "$scratch/data" --subject tester --scope lancegate:write)
curl -fsS "$url/openapi.json" -o "$scratch/openapi.json"

# In a folder of their own: the generator needs the compiler that it was made with.
tools="$scratch/tools"
npm install --silent --no-audit --no-fund --prefix "$tools" typescript@6.0.3 @stoplight/spectral-cli@6.15.0 @hey-api/openapi-ts@0.95.0
echo 'extends: ["spectral:oas"]' >"$scratch/ruleset.yaml"
"$tools/node_modules/.bin/spectral" lint --ruleset "$scratch/ruleset.yaml" --fail-severity hint "$scratch/openapi.json"
"$tools/node_modules/.bin/openapi-ts" -i "$scratch/openapi.json" -o "$scratch/client" -c @hey-api/client-fetch

cat >"$scratch/program.ts" <<'PROGRAM'
import { client } from './client/client.gen';
import { createTable, mergeInsertIntoTable, queryTable } from './client/sdk.gen';

client.setConfig({ baseUrl: process.argv[2]!, auth: () => process.argv[3]!, throwOnError: true });
const path = { id: 'people' };
const headers = { Accept: 'application/json' };
await createTable({ path, body: [{ id: 1, name: 'Ada' }, { id: 2, name: 'Grace' }], throwOnError: true });
const rows = [{ id: 2, name: 'Grace Hopper' }, { id: 3, name: 'Edsger' }];
const merged = await mergeInsertIntoTable({ path, query: { on: ['id'] }, body: rows, throwOnError: true });
const { num_updated_rows: updated, num_inserted_rows: inserted } = merged.data;
if (updated !== 1 || inserted !== 1) throw new Error(`${updated} updated, ${inserted} inserted`);
const found = await queryTable({ path, headers, body: { filter: 'id > 1', k: 10 }, parseAs: 'json', throwOnError: true });
const answer = found.data as { rows: Record<string, unknown>[] };
const names = answer.rows.map(({ name }) => String(name)).sort();
if (names.join() !== 'Edsger,Grace Hopper') throw new Error(names.join());
PROGRAM
node_modules/.bin/tsc --ignoreConfig --noEmit --strict --skipLibCheck --target es2023 --module esnext --moduleResolution bundler --types node "$scratch/program.ts"
node_modules/.bin/esbuild "$scratch/program.ts" --bundle --platform=node --format=esm --log-level=warning --outfile="$scratch/program.mjs"
node "$scratch/program.mjs" "$url" "$token"
echo 'a generated client made a table, upserted and queried: 1 passed, 0 failed'
