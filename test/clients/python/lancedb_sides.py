"""The LanceDB SDK for Python, sync and async, against the service and on an embedded database."""
import datetime
import json
import tempfile

import lancedb
import lancedb.merge
import lancedb.query as query
import lancedb.table as table
import numpy
import pyarrow as pa
import requests
from lancedb.db import AsyncConnection, LanceDBConnection
from lancedb.remote.db import RemoteDBConnection
from lancedb.remote.table import RemoteTable

from harness import Side, new_loop

SYNC = {
    "Connection": (RemoteDBConnection,),
    "Table": (RemoteTable,),
    "Tags": (table.Tags,),
    "Branches": (table.Branches,),
    "MergeInsert": (lancedb.merge.LanceMergeInsertBuilder,),
    "Query": (query.LanceEmptyQueryBuilder,),
    "VectorQuery": (query.LanceVectorQueryBuilder,),
    "FtsQuery": (query.LanceFtsQueryBuilder,),
    "HybridQuery": (query.LanceHybridQueryBuilder,),
    "TakeQuery": (query.LanceTakeQueryBuilder,),
}
ASYNC = {
    "Connection": (AsyncConnection,),
    "Table": (table.AsyncTable,),
    "Tags": (table.AsyncTags,),
    "Branches": (table.AsyncBranches,),
    "MergeInsert": (lancedb.merge.LanceMergeInsertBuilder,),
    "Query": (query.AsyncQuery,),
    "VectorQuery": (query.AsyncVectorQuery,),
    "FtsQuery": (query.AsyncFTSQuery,),
    "HybridQuery": (query.AsyncHybridQuery,),
    "TakeQuery": (query.AsyncTakeQuery,),
}
EMBEDDED = {"Connection": (LanceDBConnection,), "Table": (table.LanceTable,)}

# In the async SDK these are methods, in the sync one properties.
READ_AS_VALUES = {f"Table.{name}" for name in ("schema", "version", "uri", "embedding_functions")}

DIMENSION = 8
SECONDS = datetime.timedelta(seconds=60)
WORDS = "river stone lamp garden winter paper engine copper silent orchard thunder velvet meadow lantern".split()


def books(first=0, count=240):
    """Rows of every common kind, the same each time."""
    random = numpy.random.default_rng(7)
    vectors = random.normal(size=(4096, DIMENSION)).astype("float32")[first : first + count]
    ids = range(first, first + count)
    values = pa.array(vectors.reshape(-1), pa.float32())
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"book {i:03d}" for i in ids]),
            "score": pa.array([None if i % 11 == 5 else (i * 37 % 101) / 4 for i in ids], pa.float64()),
            "tags": pa.array([[WORDS[i % 5], WORDS[i % 3 + 5]] for i in ids], pa.list_(pa.string())),
            "text": pa.array([" ".join(WORDS[(i * step + step) % 14] for step in range(1, 7)) for i in ids]),
            "vector": pa.FixedSizeListArray.from_arrays(values, DIMENSION),
        }
    )


def vector(index):
    return books(index, 1)["vector"][0].as_py()


PEOPLE = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["ann", "bob", "cid"], "score": [1.5, 2.5, None]})


class DatabaseSide(Side):
    """What a case works with: `db`, and tables of its own."""

    def __init__(self, database, case):
        super().__init__(database.kinds, database.loop, READ_AS_VALUES if database.is_async else ())
        self.database = database
        self.is_async = database.is_async
        self.is_service = database.is_service
        self.prefix = f"{database.prefix}{case.number}_{case.names[0].replace('.', '_').lower()}"
        self.made = 0
        self.db = self.watch(database.connection)

    def name(self):
        self.made += 1
        return f"{self.prefix}_{self.made}"

    def declared(self):
        """A table of no rows with the columns of PEOPLE: declared only, of the service."""
        name = self.name()
        if not self.is_service:
            return self.db.create_table(name, schema=PEOPLE.schema)
        self.database.declare(name, {"fields": [{"name": one.name, "type": {"type": str(one.type)}} for one in PEOPLE.schema]})
        return self.db.open_table(name)

    def people(self):
        return self.db.create_table(self.name(), PEOPLE)

    def books(self, count=240):
        return self.db.create_table(self.name(), books(0, count))

    def rows(self, opened, order="id"):
        """All rows, also of a remote table, which has no to_arrow."""
        asked = opened.query() if self.is_async else opened.search()
        return asked.limit(10_000).to_arrow().sort_by(order)

    def shared(self, name):
        """A table that many cases only read."""
        return self.watch(self.database.shared(name))

    def update(self, opened, where=None, values=None, sql=None):
        if self.is_async:
            return opened.update(values, where=where, updates_sql=sql)
        return opened.update(where=where, values=values, values_sql=sql)

    def names(self, **options):
        """The tables of this case only, since all of them share a database."""
        return [name for name in self.db.table_names(limit=10_000, **options) if name.startswith(self.prefix)]


class Database:
    """One connection for all cases of a program."""

    def __init__(self, connect, loop, service, prefix):
        self.connect = connect
        self.is_async = loop is not None
        self.kinds = {kind: (*classes, *EMBEDDED.get(kind, ())) for kind, classes in (ASYNC if loop else SYNC).items()}
        self.connection = connect()
        self.loop = loop
        self.service = service
        self.is_service = service is not None
        self.prefix = prefix
        self.tables = {}

    def side(self, case):
        return DatabaseSide(self, case)

    def declare(self, name, schema):
        properties = {"lancegate.schema": json.dumps(schema)}
        headers = {"x-api-key": self.service.api_key}
        requests.post(f"{self.service.url}/v1/table/{name}/declare", json={"properties": properties}, headers=headers).raise_for_status()

    def shared(self, name):
        """Made once; what went wrong is told to each case that asks."""
        if name not in self.tables:
            try:
                self.tables[name] = SHARED[name](self)
            except Exception as error:
                self.tables[name] = error
        made = self.tables[name]
        if isinstance(made, Exception):
            raise RuntimeError(f"the table of these cases cannot be made: {made}")
        return made

    def wait(self, value):
        return Side({}, self.loop).wait(value)


def plain_books(database):
    return database.wait(database.connection.create_table(f"{database.prefix}plain", books()))


def searchable_books(database):
    """With a full-text index, and no vector index: what it finds is exact."""
    from lancedb.index import FTS

    made = database.wait(database.connection.create_table(f"{database.prefix}searchable", books()))
    database.wait(made.create_index("text", config=FTS(with_position=True), wait_timeout=SECONDS))
    return made


def indexed_books(database):
    """With a vector index: to probe all of its partitions finds what an exact search finds."""
    from lancedb.index import IvfFlat

    made = database.wait(database.connection.create_table(f"{database.prefix}indexed", books(0, 1024)))
    database.wait(made.create_index("vector", config=IvfFlat(num_partitions=4), wait_timeout=SECONDS))
    return made


SHARED = {"plain": plain_books, "searchable": searchable_books, "indexed": indexed_books}


def databases(service, is_async):
    """The service and an embedded database, with the same kind of connection."""
    loop = new_loop() if is_async else None
    prefix = "async_" if is_async else "sync_"
    remote = {"uri": "db://lancegate", "api_key": service.api_key, "host_override": service.url}
    local = {"uri": tempfile.mkdtemp(dir=service.folder)}

    def connecting(options):
        if is_async:
            return lambda: loop.run_until_complete(lancedb.connect_async(**options))
        return lambda: lancedb.connect(**options)

    return Database(connecting(remote), loop, service, prefix), Database(connecting(local), loop, None, prefix)
