"""Programs of Lance that commit to tables through the service, since it describes them with `managed_versioning`.

Each line is one thing that such a program does, on a folder and, where there is the S3 gateway, on an object store. That a commit
passed the service shows in its metrics, and in the transactions that it knows.
"""
import contextlib
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import lance
import lance.namespace
import lancedb
import pyarrow as pa

from harness import Failure, expect
from service import Service, stream

WRITERS = 4
APPENDS = 5
ROWS = 3


def rows(*ids, name="past the gate"):
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [name] * len(ids)})


class Managed:
    """A service, and pylance and LanceDB as its clients."""

    def __init__(self, service, options):
        self.service = service
        self.options = options
        self.namespace = namespace_at(service.url, service.token)
        self.tables = 0

    def post(self, path, body=None):
        is_rows = isinstance(body, pa.Table)
        content = stream(body) if is_rows else json.dumps(body or {}).encode()
        kind = "application/vnd.apache.arrow.stream" if is_rows else "application/json"
        headers = {"authorization": f"Bearer {self.service.token}", "content-type": kind}
        with urllib.request.urlopen(urllib.request.Request(self.service.url + path, content, headers)) as answer:
            return json.loads(answer.read() or b"null")

    def table(self, *ids):
        self.tables += 1
        name = f"managed_{self.tables}"
        self.post(f"/v1/table/{name}/create", rows(*ids))
        return name

    def open(self, name):
        return lance.dataset(namespace_client=self.namespace, table_id=[name], storage_options=self.options)

    def append(self, name, *ids, mode="append"):
        return lance.write_dataset(rows(*ids), namespace_client=self.namespace, table_id=[name], mode=mode, storage_options=self.options)

    def upsert(self, name, *ids):
        return self.post(f"/v1/table/{name}/merge_insert?on=id", rows(*ids, name="gate"))

    def ids(self, name):
        return sorted(self.open(name).to_table(["id"])["id"].to_pylist())

    def count(self, name, **body):
        return self.post(f"/v1/table/{name}/count_rows", body)

    def created(self):
        """How many versions were made through `version/create`."""
        headers = {"authorization": f"Bearer {self.service.token}"}
        with urllib.request.urlopen(urllib.request.Request(self.service.url + "/metrics", headers=headers)) as answer:
            text = answer.read().decode()
        counts = re.findall(r'_duration_seconds_count\{[^}]*route="/v1/table/:id/version/create",status="200"\} (\d+)', text)
        return sum(map(int, counts))


def namespace_at(url, token):
    return lance.namespace.RestNamespace(uri=url, **{"header.authorization": f"Bearer {token}"})


def one_by_one(managed):
    """Every kind of change of pylance is a commit of the service, and upserts come between."""
    name = managed.table(1, 2, 3)
    before = managed.created()
    managed.append(name, 4, 5)
    managed.upsert(name, 5, 6)
    dataset = managed.open(name)
    dataset.update({"name": "'new'"}, where="id = 1")
    dataset.delete("id = 2")
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(3, 7))
    dataset.add_columns({"twice": "id * 2"})
    dataset.alter_columns({"path": "twice", "name": "double"})
    dataset.drop_columns(["double"])
    dataset.create_scalar_index("id", "BTREE")
    made = managed.created() - before
    expect(made == 8, f"the service made {made} of 8 commits")
    answer = managed.upsert(name, 3, 7, 8)
    counts = answer["num_updated_rows"], answer["num_inserted_rows"]
    expect(counts == (2, 1), f"the upsert counts {counts}")
    expect(managed.ids(name) == [1, 3, 4, 5, 6, 7, 8], f"there are {managed.ids(name)}")
    dataset.checkout_latest()
    dataset.optimize.compact_files()
    managed.open(name).checkout_version(1).restore()
    expect(managed.ids(name) == [1, 2, 3], f"restored are {managed.ids(name)}")
    managed.append(name, 100, mode="overwrite")
    managed.upsert(name, 100, 101)
    expect(managed.ids(name) == [100, 101], f"overwritten are {managed.ids(name)}")
    versions = [each["version"] for each in managed.open(name).versions()]
    expect(versions == list(range(1, len(versions) + 1)), f"there are versions {versions}")


def on_a_branch(managed):
    """A branch that the service made, after pylance could not."""
    name = managed.table(1)
    try:
        managed.open(name).create_branch("dev")
    except OSError as error:
        expect("Commit result for version 1 is unknown" in str(error), f"it says {error}")
    else:
        raise Failure("pylance creates branches, and clients.md says that it cannot")
    listed = managed.post(f"/v1/table/{name}/branches/list")["branches"]
    expect(not listed, f"it left {listed}")
    managed.post(f"/v1/table/{name}/branches/create", {"name": "dev"})
    before = managed.created()
    branch = managed.open(name).checkout_version(("dev", None))
    branch.insert(rows(2))
    counts = managed.count(name), managed.count(name, branch="dev"), managed.created() - before
    expect(counts == (1, 2, 1), f"rows of main and the branch, and commits: {counts}")


def at_once(managed):
    """Processes append beside upserts: no row is lost, none is there twice, and each version is one commit's."""
    name = managed.table(1)
    command = [sys.executable, __file__, managed.service.url, managed.service.token, json.dumps(managed.options), name]
    writers = [subprocess.Popen([*command, str(1000 * (each + 1))], stdout=subprocess.PIPE, text=True) for each in range(WRITERS)]
    upserts = []
    is_over = threading.Event()

    def upsert():
        while not is_over.wait(0.5):
            upserts.append((managed.upsert(name, 1, 100_000 + len(upserts))["version"], [100_000 + len(upserts)]))

    thread = threading.Thread(target=upsert)
    thread.start()
    said = [writer.communicate(timeout=300)[0] for writer in writers]
    is_over.set()
    thread.join()
    written = [(version, ids) for text in said for version, ids in json.loads(text)]
    versions = [version for version, _ in written + upserts]
    expect(len(written) == WRITERS * APPENDS, f"{len(written)} appends were acknowledged")
    expect(len(set(versions)) == len(versions), f"a version is of two commits: {sorted(versions)}")
    wanted = sorted([1] + [each for _, ids in written + upserts for each in ids])
    expect(managed.ids(name) == wanted, f"there are {managed.ids(name)} instead of {wanted}")


def write_rows(url, token, options, name, first):
    """One of the processes of `at_once`."""
    namespace = namespace_at(url, token)
    written = []
    for each in range(APPENDS):
        ids = [int(first) + ROWS * each + one for one in range(ROWS)]
        made = lance.write_dataset(rows(*ids), namespace_client=namespace, table_id=[name], mode="append", storage_options=json.loads(options))
        written.append((made.version, ids))
    print(json.dumps(written))


def by_lancedb(managed):
    """`lancedb.connect_namespace`."""
    name = managed.table(1, 2)
    properties = {"uri": managed.service.url, "header.authorization": f"Bearer {managed.service.token}"}
    database = lancedb.connect_namespace("rest", properties, storage_options=managed.options)
    before = managed.created()
    table = database.open_table(name, storage_options=managed.options or None)
    table.add(rows(3))
    managed.upsert(name, 3, 4)
    table.checkout_latest()
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(4, 5))
    table.delete("id = 1")
    made = managed.created() - before
    expect(made == 3, f"the service made {made} of 3 commits")
    expect(managed.ids(name) == [2, 3, 4, 5], f"there are {managed.ids(name)}")


def without_the_right(managed):
    """Who may only read reads, and commits nothing."""
    name = managed.table(1)
    reader = namespace_at(managed.service.url, managed.service.token_of("lancegate:read"))
    dataset = lance.dataset(namespace_client=reader, table_id=[name], storage_options=managed.options)
    expect(dataset.count_rows() == 1, "it cannot read")
    try:
        dataset.delete("id = 1")
    except Exception:
        expect(managed.count(name) == 1, "it deleted a row")
        return
    raise Failure("it could delete")


PROGRAMS = (one_by_one, on_a_branch, at_once, by_lancedb, without_the_right)


def lines_on(place, flags, options):
    lines = []
    with Service("--managed-versioning", "--version-retention", "1h", *flags, env={"LANCEGATE_STORAGE_OPTIONS": json.dumps(options)}) as service:
        managed = Managed(service, options)
        for program in PROGRAMS:
            title = f"{program.__name__.replace('_', ' ')}, {place}"
            try:
                program(managed)
                lines.append((title, "ok", ""))
            except Exception as error:
                lines.append((title, "FAILS", " ".join(str(error).split())[:400]))
    return lines


def managed_lines():
    lines = lines_on("on a folder", [], {})
    program = gateway_program()
    if program is None:
        return lines
    with gateway(program) as (root, options):
        return lines + lines_on("on an S3 gateway", ["--storage-root", root], options)


def gateway_program():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    built = sorted(glob.glob(f"{cache}/lancegate/versitygw-*/versitygw"))
    return shutil.which("versitygw") or (built[-1] if built else None)


@contextlib.contextmanager
def gateway(program):
    with tempfile.TemporaryDirectory() as folder:
        buckets, metadata = Path(folder, "buckets"), Path(folder, "metadata")
        (buckets / "tables").mkdir(parents=True)
        metadata.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [program, "--port", f"127.0.0.1:{port}", "--health", "/health", "--quiet", "posix", "--sidecar", metadata, buckets]
        secrets = {"ROOT_ACCESS_KEY": "gateway", "ROOT_SECRET_KEY": "gateway-secret"}
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, env={**os.environ, **secrets}, stdout=quiet, stderr=quiet)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/health")
            keys = {"access_key_id": "gateway", "secret_access_key": "gateway-secret", "region": "us-east-1"}
            yield "s3://tables/root", {"endpoint": url, "allow_http": "true", **keys}
        finally:
            process.kill()
            process.wait()


def wait_for(url):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(url):
                return
        time.sleep(0.1)
    raise Failure("the S3 gateway does not answer")


if __name__ == "__main__":
    write_rows(*sys.argv[1:])
