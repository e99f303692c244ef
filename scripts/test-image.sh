#!/usr/bin/env bash
# Builds the image of deploy/Dockerfile and runs it: an upsert, the check of health, and an end in order. Where no image can be pulled, the
# one that it is built on is made here, by debootstrap, with the Node of the clone. It needs root, buildah and debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."
export BUILDAH_ISOLATION=chroot BUILDAH_FORMAT=docker STORAGE_DRIVER=vfs
for tool in buildah debootstrap; do
  if [ "$(id -u)" != 0 ] || ! command -v "$tool" >/dev/null; then
    echo "the image is not tried: that needs root and $tool"
    exit 0
  fi
done

scratch=$(mktemp -d)
container=
service=
finish() {
  if [ -n "$service" ]; then kill "$service" 2>/dev/null || true; fi
  if [ -n "$container" ]; then buildah rm "$container" >/dev/null; fi
  rm -rf "$scratch"
}
trap finish EXIT

# What node:…-slim is: Debian with Node, npm and a user of this name. With the certificates that this machine trusts.
base=localhost/lancegate-base:$(node --version)
if ! buildah inspect "$base" >/dev/null 2>&1; then
  root="$scratch/root"
  debootstrap --variant=minbase bookworm "$root" >"$scratch/log" || { tail -20 "$scratch/log"; exit 1; }
  install -D "$(node -p process.execPath)" "$root/usr/local/bin/node"
  mkdir -p "$root/usr/local/lib/node_modules"
  cp -a "$(dirname "$(readlink -f "$(command -v npm)")")/.." "$root/usr/local/lib/node_modules/npm"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
  chroot "$root" useradd --create-home --uid 1000 node
  cp /etc/ssl/certs/ca-certificates.crt "$root/usr/local/share/machine.crt"
  container=$(buildah from scratch)
  buildah add -q "$container" "$root" / >/dev/null
  buildah config --env NODE_EXTRA_CA_CERTS=/usr/local/share/machine.crt "$container"
  buildah commit -q "$container" "$base" >/dev/null
  buildah rm "$container" >/dev/null
  container=
fi

npm pack --silent --pack-destination "$scratch" >/dev/null
buildah build --quiet --build-arg "base=$base" -f deploy/Dockerfile -t localhost/lancegate "$scratch" >/dev/null

container=$(buildah from localhost/lancegate)
config() { buildah inspect "$container" | node -p "JSON.parse(require('fs').readFileSync(0)).Docker.config.$1"; }
port=$(node -p "const s = require('net').createServer().listen(0, () => { console.log(s.address().port); s.close(); }); ''" | tr -d '\n')
export LANCEGATE_PORT=$port
install -d -o 1000 -g 1000 -m 700 "$scratch/data"
mapfile -t program < <(config 'Entrypoint.join("\n")'; config 'Cmd.join("\n")')
health=$(config 'Healthcheck.Test[1]')
buildah run --env "LANCEGATE_PORT=$port" -v "$scratch/data:/var/lib/lancegate" "$container" -- "${program[@]}" >"$scratch/service.log" 2>&1 &
service=$!
for _ in $(seq 600); do grep -q 'listening on' "$scratch/service.log" && break; sleep 0.1; done
cat "$scratch/service.log"

# The network and the data are those of this machine, so what the image would be asked inside is asked here.
sh -c "$health"
token=$(node bin/lancegate.js token --data "$scratch/data" --subject tester --scope lancegate:write)
post() { curl -fsS "http://127.0.0.1:$port/v1/table/rows/$1" -H "Authorization: Bearer $token" --json "$2"; }
post create '[{"id":1,"name":"ann"},{"id":2,"name":"bob"}]' >/dev/null
post 'merge_insert?on=id' '[{"id":2,"name":"Bob"},{"id":3,"name":"eve"}]' | grep -q '"num_updated_rows":1,"num_inserted_rows":1'
# Of the processes below this one the service is the last that serves: readers are below it.
descendants() { for child in $(pgrep --parent "$1"); do echo "$child"; descendants "$child"; done; }
for candidate in $(descendants "$service"); do
  if tr '\0' ' ' <"/proc/$candidate/cmdline" | grep -q 'lancegate.* serve *$'; then pid=$candidate; fi
done
test "$(stat -c %u "/proc/$pid")" = 1000
kill -TERM "$pid"
wait "$service"
service=
echo 'the image was built, and did an upsert: 1 passed, 0 failed'
