"""Frameworks that keep their data in LanceDB, as people use them: what each returns and stores through the service must be what it
does on a database of files."""
import os

os.environ.update(HAYSTACK_TELEMETRY_ENABLED="False", RUNTIME__DLTHUB_TELEMETRY="false", RUNTIME__LOG_LEVEL="ERROR")
# dlt removes the rows of child tables that a load replaces by the load that wrote them.
os.environ["NORMALIZE__PARQUET_NORMALIZER__ADD_DLT_LOAD_ID"] = "true"

import contextlib
import shutil
import tempfile

import lancedb
import lancedb.query
import pyarrow as pa

from harness import compare, said


def framework_lines(service):
    remote = {"api_key": service.api_key, "host_override": service.url}
    lines = []
    for name, steps in (("haystack", haystack_steps), ("dlt", dlt_steps)):
        with tempfile.TemporaryDirectory(dir=service.folder) as folder:
            ours = list(steps("db://lancegate", remote, folder))
            lines += compared(name, ours, list(steps(os.path.join(folder, "files"), {}, folder)))
    return lines


def compared(framework, ours, theirs):
    """A line for each step; a step is its name, and what it returned or raised."""
    lines = []
    for (name, got), (_, expected) in zip(ours, theirs, strict=True):
        difference = f"the peer: {said(expected)}" if isinstance(expected, Exception) else differs(got, expected)
        lines.append((f"{framework}: {name}", "ok" if difference is None else "FAILS", difference or ""))
    return lines


def differs(got, expected):
    return said(got) if isinstance(got, Exception) else compare(got, expected)


def attempt(name, act):
    try:
        return name, act()
    except Exception as error:
        return name, error


def haystack_steps(uri, credentials, folder):
    from haystack import Document
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy
    from lancedb_haystack import LanceDBDocumentStore, LanceDBEmbeddingRetriever, LanceDBFTSRetriever

    inner = pa.struct([("z", pa.string()), ("a", pa.int64())])
    meta = pa.struct([("source", pa.string()), ("page", pa.int64()), ("inner", inner)])
    store = LanceDBDocumentStore(os.path.join(folder, "unused"), "haystack", meta, embedding_dims=3)
    store.db = lancedb.connect(uri, **credentials)

    def shown(documents):
        return sorted([d.id, d.content, sorted(map(str, d.meta.items())), d.embedding] for d in documents)

    def write(*documents, policy=DuplicatePolicy.NONE):
        return store.write_documents(list(documents), policy=policy), shown(store.filter_documents())

    def twice():
        try:
            write(Document(id="2", content="no"), policy=DuplicatePolicy.FAIL)
        except DuplicateDocumentError:
            return "refused"

    def search(retriever, top_k=1, filters=None, **query):
        return shown(retriever(document_store=store, top_k=top_k, filters=filters).run(**query)["documents"])

    first = [
        Document(id="1", content="red apple", meta={"source": "a", "page": 1}, embedding=[1, 0, 0]),
        Document(id="2", content="blue sea", meta={"page": 2}, embedding=[0, 1, 0]),
        Document(id="3", content="green tree", meta={"source": "c", "inner": {"a": 5}}, embedding=[0, 0, 1]),
    ]
    changed = [Document(id="2", content="blue sky", meta={"source": "b"}), Document(id="4", content="four")]
    known = {"field": "meta.source", "operator": "in", "value": ["a", "c"]}
    small = {"field": "meta.page", "operator": "<", "value": 3}
    yield attempt("an empty store", store.count_documents)
    yield attempt("documents with some of the metadata", lambda: write(*first))
    yield attempt("overwrite", lambda: write(*changed, policy=DuplicatePolicy.OVERWRITE))
    yield attempt("skip", lambda: write(changed[0], Document(id="5", content="five"), policy=DuplicatePolicy.SKIP))
    yield attempt("fail", twice)
    yield attempt("a filter", lambda: shown(store.filter_documents({"operator": "AND", "conditions": [known, small]})))
    yield attempt("by embedding", lambda: search(LanceDBEmbeddingRetriever, query_embedding=[0, 0, 1]))
    yield attempt("by embedding, filtered", lambda: search(LanceDBEmbeddingRetriever, 2, small, query_embedding=[0, 0, 1]))
    yield attempt("by text", lambda: search(LanceDBFTSRetriever, 3, query="apple"))
    yield attempt("delete", lambda: (store.delete_documents(["1", "5"]), shown(store.filter_documents())))


def dlt_steps(uri, credentials, folder):
    import dlt
    from dlt.destinations import lancedb as destination

    state = tempfile.mkdtemp(dir=folder)
    db = lancedb.connect(uri, **credentials)
    shop = destination(lance_uri=uri, credentials=credentials or None)

    def pipeline():
        return dlt.pipeline("p", pipelines_dir=state, destination=shop, dataset_name="shop")

    def stored():
        tables = {}
        for name in db.list_tables().tables:
            if not name.startswith("shop___") or "_dlt_" in name:
                continue
            rows = db.open_table(name).search().limit(10_000).to_arrow()
            own = [column for column in rows.column_names if not column.startswith("_dlt")]
            tables[name] = [str(rows.schema.field(column)) for column in own], sorted(map(str, rows.select(own).to_pylist()))
        return tables

    def load(data, table, disposition):
        resource = dlt.resource(data, name=table, write_disposition=disposition, primary_key="id")
        with texts_in_single_quotes():
            pipeline().run(resource)
        return stored()

    def restored():
        shutil.rmtree(state)
        again = pipeline()
        with texts_in_single_quotes():
            again.sync_destination()
        return sorted(again.schemas), again.state["_state_version"]

    order = lambda id, name, *lines, **more: {"id": id, "name": name, "lines": list(lines), **more}
    line = lambda sku, n, **more: {"sku": sku, "n": n, **more}
    many = [order(id, "x", line(f"s{id}", id)) for id in range(10, 400)]
    yield attempt("append", lambda: load([{"id": 1, "v": 1.5}, {"id": 2, "v": 2.5}], "plain", "append"))
    yield attempt("append again", lambda: load([{"id": 3, "v": 3.5}], "plain", "append"))
    yield attempt("new columns", lambda: load([{"id": 4, "v": 4.5, "extra": "e", "t": "2024-01-01T00:00:00Z"}], "plain", "append"))
    yield attempt("merge with a child table", lambda: load([order(1, "a", line("x", 1), line("y", 2)), order(2, "b", line("z", 3))], "orders", "merge"))
    yield attempt("merge again", lambda: load([order(1, "A", line("y", 9)), order(3, "c")], "orders", "merge"))
    yield attempt("merge with new columns", lambda: load([order(2, "B", line("z", 4, gift=True), note="new")], "orders", "merge"))
    yield attempt("merge of many", lambda: load(many, "orders", "merge"))
    yield attempt("insert only", lambda: load([order(1, "ignored"), order(500, "q")], "orders", {"disposition": "merge", "strategy": "insert-only"}))
    yield attempt("replace", lambda: load([{"id": 7, "v": 0.5}], "plain", "replace"))
    yield attempt("another machine takes up the state", restored)


@contextlib.contextmanager
def texts_in_single_quotes():
    """dlt 1.31 writes texts in double quotes. Since 0.38 the SDK makes names of them, also on files, so no second load works."""
    builder = lancedb.query.LanceQueryBuilder
    where = builder.where
    builder.where = lambda self, text, *more, **named: where(self, text.replace('"', "'"), *more, **named)
    try:
        yield
    finally:
        builder.where = where
