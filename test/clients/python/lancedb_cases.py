"""What the connections, tables, tags, branches and merges of the LanceDB SDK can do."""
import uuid

import pyarrow as pa
from lancedb.index import BTree, Bitmap, FTS, HnswSq, IvfFlat, IvfPq, LabelList

from harness import Cases, Failure, expect, fails
from lancedb_sides import ASYNC, PEOPLE, SECONDS, SYNC, books, vector

more = pa.table({"id": pa.array([3, 4], pa.int64()), "name": ["cyd", "dan"], "score": [3.5, 4.5]})
ENTERPRISE = "it belongs to LanceDB Enterprise; the open engine has no such thing"
LSM = "the open engine has no LSM writes for a server; the service groups commits itself"


def table_cases(cases):
    case = cases.case

    @case("Table.add")
    def add(side):
        people = side.people()
        appended = people.add([{"id": 4, "name": "dan", "score": 4.5}])
        rows = side.rows(people)
        people.add(pa.table({"id": pa.array([9], pa.int64()), "name": ["zoe"], "score": [9.0]}), mode="overwrite")
        columns = side.people()
        columns.add(pa.table({"id": pa.array([5], pa.int64())}))
        return appended, rows, side.rows(people), side.rows(columns), people.count_rows()

    @case("Table.count_rows")
    def count_rows(side):
        people = side.people()
        return people.count_rows(), people.count_rows("id > 1 AND name LIKE 'b%'"), people.count_rows("score IS NULL")

    @case("Table.delete")
    def delete(side):
        people = side.people()
        deleted = people.delete("id = 2")
        nothing = people.delete("id = 99")
        wrong = fails(lambda: people.delete("no_such_column = 1"))
        expect(nothing.version <= deleted.version + 1, "a delete of nothing made versions")
        return wrong, side.rows(people)

    @case("Table.update")
    def update(side):
        people = side.people()
        by_value = side.update(people, "id = 1", values={"name": "ANN", "score": 7.25})
        by_sql = side.update(people, "id > 1", sql={"score": "coalesce(score, 0) + id", "name": "upper(name)"})
        nothing = side.update(people, "id = 99", values={"name": "nobody"})
        every = side.update(people, values={"name": "it's"})
        counts = [one.rows_updated for one in (by_value, by_sql, nothing, every)]
        return counts, side.rows(people)

    @case("Table.update")
    def update_vectors(side):
        made = side.books(5)
        return side.update(made, "id = 3", values={"vector": [0.5] * 8}), side.rows(made)

    @case("Table.schema")
    def schema(side):
        return side.people().schema, side.books(3).schema

    @case("Table.name")
    def name(side):
        return side.people().name

    @case("Table.version")
    def version(side):
        people = side.people()
        before = people.version
        people.add(more)
        return people.version - before

    @case("Table.uri", alone=True)
    def uri(side):
        people = side.people()
        expect(people.name in people.uri, f"its uri is {people.uri}")

    @case("Table.head")
    def head(side):
        return side.books().head(7).sort_by("id"), side.people().head().sort_by("id")

    @case("Table.list_versions")
    def list_versions(side):
        people = side.people()
        people.add(more)
        versions = people.list_versions()
        expect(all(one["timestamp"] is not None for one in versions), "a version lacks its time")
        return [one["version"] for one in versions]

    @case("Table.checkout", "Table.checkout_latest")
    def checkout(side):
        people = side.people()
        people.tags.create("first", 1)
        people.add(more)
        people.checkout(1)
        old = people.count_rows(), side.rows(people), people.version
        refused = fails(lambda: people.add(more))
        missing = fails(lambda: people.checkout(99), *(["not found"] if side.is_service else []))
        people.checkout_latest()
        latest = people.count_rows()
        people.checkout("first")
        return old, refused, missing, latest, people.count_rows()

    @case("Table.restore")
    def restore(side):
        people = side.people()
        people.add(more)
        people.restore(1)
        rows = side.rows(people)
        people.add(more)
        people.checkout(2)
        people.restore()
        return rows, side.rows(people), people.version

    @case("Table.stats", alone=True)
    def stats(side):
        people = side.people()
        people.add(more)
        found = people.stats()
        expect(found["num_rows"] == 5 and found["num_indices"] == 0, f"it says {found}")
        expect(found["total_bytes"] > 0, f"it says {found}")

    @case("Table.add_columns")
    def add_columns(side):
        people = side.people()
        people.add_columns({"double": "score * 2", "loud": "upper(name)"})
        people.add_columns(pa.field("note", pa.string()))
        people.add_columns([pa.field("day", pa.date32())])
        people.add_columns(pa.schema([pa.field("point", pa.list_(pa.float32(), 2))]))
        wrong = fails(lambda: people.add_columns({"bad": "no_such_column + 1"}))
        return people.schema, side.rows(people), wrong

    @case("Table.alter_columns")
    def alter_columns(side):
        people = side.people()
        people.alter_columns({"path": "name", "rename": "title"})
        people.alter_columns({"path": "score", "data_type": pa.float32(), "nullable": True})
        wrong = fails(lambda: people.alter_columns({"path": "no_such_column", "rename": "x"}))
        return people.schema, side.rows(people), wrong

    @case("Table.drop_columns")
    def drop_columns(side):
        people = side.people()
        people.drop_columns(["score"])
        wrong = fails(lambda: people.drop_columns(["no_such_column"]))
        return people.schema, side.rows(people), wrong

    @case("Table.update_field_metadata")
    def update_field_metadata(side):
        people = side.people()
        people.update_field_metadata({"path": "name", "metadata": {"unit": "person", "source": "census"}})
        first = people.schema.field("name").metadata
        people.update_field_metadata({"path": "name", "metadata": {"unit": None}})
        second = people.schema.field("name").metadata
        people.update_field_metadata({"path": "name", "metadata": {"only": "this"}, "replace": True})
        return first, second, people.schema.field("name").metadata, side.rows(people)

    @case("Table.tags")
    def tags(side):
        return side.people().tags.list()

    @case("Table.branches", "Table.current_branch")
    def branches(side):
        people = side.people()
        draft = people.branches.create("draft")
        return people.current_branch(), draft.current_branch()

    @case("Table.merge_insert")
    def merge_insert(side):
        people = side.people()
        merge = people.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return merge.execute(more), side.rows(people)

    @case("Table.take_offsets")
    def take_offsets(side):
        taken = side.shared("plain").take_offsets([5, 0, 17])
        some = side.shared("plain").take_offsets([3, 4]).select(["id", "name"])
        return taken.to_arrow().sort_by("id"), some.to_arrow().sort_by("id")

    @case("Table.take_row_ids")
    def take_row_ids(side):
        plain = side.shared("plain")
        asked = plain.query() if side.is_async else plain.search()
        found = (asked.where("id IN (3, 8)").with_row_id() if side.is_async else asked.where("id IN (3, 8)").with_row_id(True)).to_list()
        return plain.take_row_ids([row["_rowid"] for row in found]).to_arrow().sort_by("id")

    @case("Table.embedding_functions")
    def embedding_functions(side):
        return side.people().embedding_functions

    @case("Table.blob_columns")
    def blob_columns(side):
        return side.people().blob_columns()


def index_cases(cases):
    case = cases.case
    kinds = {
        "BTREE": ("id", BTree()),
        "BITMAP": ("name", Bitmap()),
        "LABEL_LIST": ("tags", LabelList()),
        "FTS": ("text", FTS()),
        "IVF_FLAT": ("vector", IvfFlat(num_partitions=2)),
        "IVF_PQ": ("vector", IvfPq(num_partitions=2, num_sub_vectors=4)),
        "IVF_HNSW_SQ": ("vector", HnswSq(num_partitions=1)),
    }

    def shown(found):
        return sorted((one.name, one.index_type.upper(), one.columns) for one in found)

    def one_kind(column, config):
        def create_index(side):
            made = side.books(512)
            made.create_index(column, config=config, wait_timeout=SECONDS)
            found = made.list_indices()
            return shown(found), side.rows(made)

        return create_index

    for column, config in kinds.values():
        case("Table.create_index", "Table.list_indices")(one_kind(column, config))

    @case("Table.create_index")
    def create_index_again(side):
        made = side.books(64)
        made.create_index("id", config=BTree(), name="by_id", wait_timeout=SECONDS)
        made.create_index("id", config=BTree(), name="by_id", wait_timeout=SECONDS)
        wrong = fails(lambda: made.create_index("no_such_column", config=BTree()))
        return shown(made.list_indices()), wrong

    @case("Table.create_index_async")
    def create_index_async(side):
        made = side.books(64)
        job = made.create_index_async("id", config=BTree())
        side.wait(job.wait())
        made.wait_for_index(["id_idx"])
        return shown(made.list_indices())

    @case("Table.wait_for_index")
    def wait_for_index(side):
        made = side.books(64)
        made.create_index("id", config=BTree())
        made.wait_for_index(["id_idx"], SECONDS)
        return made.count_rows("id = 7")

    @case("Table.index_stats")
    def index_stats(side):
        made = side.books(300)
        made.create_index("vector", config=IvfFlat(num_partitions=2), wait_timeout=SECONDS)
        made.create_index("id", config=BTree(), wait_timeout=SECONDS)
        found = made.index_stats("vector_idx")
        scalar = made.index_stats("id_idx")
        seen = [(one.num_indexed_rows, one.num_unindexed_rows, one.index_type) for one in (found, scalar)]
        return seen, found.distance_type, made.index_stats("no_such_index")

    @case("Table.drop_index")
    def drop_index(side):
        made = side.books(64)
        made.create_index("id", config=BTree(), wait_timeout=SECONDS)
        made.drop_index("id_idx")
        wrong = fails(lambda: made.drop_index("id_idx"))
        return shown(made.list_indices()), wrong, side.rows(made)

    @case("Table.prewarm_index")
    def prewarm_index(side):
        made = side.books(64)
        made.create_index("id", config=BTree(), wait_timeout=SECONDS)
        made.prewarm_index("id_idx")
        return made.count_rows("id = 7"), fails(lambda: made.prewarm_index("no_such_index"))

    @case("Table.tokenize")
    def tokenize(side):
        return side.shared("searchable").tokenize("The Rivers were running", column="text")


def tag_cases(cases):
    case = cases.case

    @case("Tags.create", "Tags.list", "Tags.get_version")
    def create(side):
        people = side.people()
        people.add(more)
        people.tags.create("first", 1)
        people.tags.create("second", 2)
        taken = fails(lambda: people.tags.create("first", 2))
        missing = fails(lambda: people.tags.create("third", 99))
        names = sorted((name, tag["version"]) for name, tag in people.tags.list().items())
        return names, people.tags.get_version("second"), taken, missing, fails(lambda: people.tags.get_version("none"))

    @case("Tags.update")
    def update(side):
        people = side.people()
        people.add(more)
        people.tags.create("moving", 1)
        people.tags.update("moving", 2)
        return people.tags.get_version("moving"), fails(lambda: people.tags.update("none", 1))

    @case("Tags.delete")
    def delete(side):
        people = side.people()
        people.tags.create("gone", 1)
        people.tags.delete("gone")
        return people.tags.list(), fails(lambda: people.tags.delete("gone"))


def branch_cases(cases):
    case = cases.case

    @case("Branches.create", "Branches.list", "Branches.checkout")
    def create(side):
        people = side.people()
        draft = people.branches.create("draft")
        draft.add(more)
        people.branches.create("early", from_ref="draft", from_version=draft.version)
        again = people.branches.checkout("draft")
        taken = fails(lambda: people.branches.create("draft"))
        return sorted(people.branches.list()), side.rows(again), side.rows(people), taken

    @case("Branches.delete")
    def delete(side):
        people = side.people()
        people.branches.create("gone")
        people.branches.delete("gone")
        return sorted(people.branches.list()), fails(lambda: people.branches.checkout("gone"))

    engine = "the open engine has no diff and no cherry-pick of branches"

    def of_draft(side):
        people = side.people()
        people.branches.create("draft")
        return people.branches

    cases.refused("Branches.diff", engine, lambda side: of_draft(side).diff("draft"))
    cases.refused("Branches.cherry_pick", engine, lambda side: of_draft(side).cherry_pick("draft"))

    @case("Branches.checkout", "Branches.create")
    def work_on_a_branch(side):
        people = side.people()
        people.branches.create("draft")
        draft = people.branches.checkout("draft")
        side.update(draft, "id = 1", values={"name": "changed"})
        draft.delete("id = 2")
        draft.merge_insert("id").when_not_matched_insert_all().execute(more)
        return side.rows(draft), side.rows(people), draft.count_rows("id > 1")


def merge_cases(cases):
    case = cases.case

    @case("MergeInsert.when_matched_update_all")
    def when_matched_update_all(side):
        people = side.people()
        merge = people.merge_insert("id").when_matched_update_all(where="target.score < source.score OR target.score IS NULL")
        return merge.execute(more), side.rows(people)

    @case("MergeInsert.when_not_matched_insert_all", "MergeInsert.execute")
    def when_not_matched_insert_all(side):
        people = side.people()
        return people.merge_insert("id").when_not_matched_insert_all().execute(more), side.rows(people)

    @case("MergeInsert.when_not_matched_by_source_delete")
    def when_not_matched_by_source_delete(side):
        people = side.people()
        some = people.merge_insert("id").when_not_matched_by_source_delete("id < 2").when_not_matched_insert_all()
        first = some.execute(more), side.rows(people)
        every = people.merge_insert("id").when_matched_update_all().when_not_matched_by_source_delete()
        return first, every.execute(more), side.rows(people)

    @case("MergeInsert.use_index")
    def use_index(side):
        people = side.people()
        merge = people.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return merge.use_index(False).execute(more), side.rows(people)

    @case("MergeInsert.use_lsm")
    def use_lsm(side):
        people = side.people()
        merge = people.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return merge.use_lsm(False).execute(more), side.rows(people)

    @case("MergeInsert.validate_single_shard")
    def validate_single_shard(side):
        people = side.people()
        merge = people.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return merge.validate_single_shard(True).execute(more), side.rows(people)


def connection_cases(cases):
    case = cases.case

    @case("Connection.create_table")
    def create_table(side):
        made = side.db.create_table(side.name(), [{"id": 1, "name": "ann"}])
        schema = made.schema
        empty = side.db.create_table(side.name(), schema=PEOPLE.schema)
        batches = side.db.create_table(side.name(), iter(PEOPLE.to_batches()), schema=PEOPLE.schema)
        over = side.db.create_table(side.prefix + "_1", PEOPLE, mode="overwrite")
        taken = fails(lambda: side.db.create_table(side.prefix + "_1", PEOPLE), "already exists")
        kept = side.db.create_table(side.prefix + "_1", schema=PEOPLE.schema, exist_ok=True)
        return schema, empty.schema, side.rows(batches), side.rows(over), taken, kept.count_rows(), empty.count_rows()

    @case("Connection.open_table")
    def open_table(side):
        people = side.people()
        people.add(more)
        opened = side.db.open_table(people.name)
        missing = fails(lambda: side.db.open_table("no_such_table"), "not found")
        return opened.count_rows(), side.rows(opened), missing

    @case("Connection.open_table")
    def open_declared(side):
        merged, added, arrow = side.declared(), side.declared(), side.declared()
        looked = merged.schema, merged.count_rows(), merged.count_rows("id > 0"), side.rows(merged), merged.list_indices()
        upsert = lambda: merged.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        first = upsert().execute([{"id": 1, "name": "ann"}, {"id": 2, "name": "bob", "score": 2.5}])
        again = upsert().execute(PEOPLE)
        counts = [(one.num_inserted_rows, one.num_updated_rows) for one in (first, again)]
        added.add([{"id": 1, "name": "ann"}])
        arrow.add(PEOPLE)
        return looked, counts, side.rows(merged), side.rows(added), side.rows(arrow), side.rows(side.db.open_table(merged.name))

    @case("Connection.table_names")
    def table_names(side):
        side.people(), side.people(), side.people()
        page = side.db.table_names(side.prefix + "_1", limit=1) if not side.is_async else side.db.table_names(start_after=side.prefix + "_1", limit=1)
        return side.names(), page

    @case("Connection.list_tables")
    def list_tables(side):
        people = side.people()
        found = side.db.list_tables(limit=10_000)
        expect(people.name in found.tables, "the new table is missing")
        return people.name

    @case("Connection.drop_table")
    def drop_table(side):
        people = side.people()
        side.db.drop_table(people.name)
        return side.names(), fails(lambda: side.db.open_table(people.name))

    @case("Connection.drop_table_async", alone=True)
    def drop_table_async(side):
        people = side.people()
        job = side.db.drop_table_async(people.name)
        side.wait(job.wait())
        expect(side.names() == [], "the table is still there")

    @case("Connection.rename_table", alone=True)
    def rename_table(side):
        people = side.people()
        renamed = side.name()
        side.db.rename_table(people.name, renamed)
        opened = side.db.open_table(renamed)
        expect(side.names() == [renamed], f"there are {side.names()}")
        expect(side.rows(opened).equals(PEOPLE), "its rows are not those it had")
        opened.add(more)
        expect(opened.count_rows() == 5, "it takes no rows under its new name")

    @case("Connection.clone_table")
    def clone_table(side):
        people = side.people()
        people.add(more)
        clone = side.db.clone_table(side.name(), people.uri)
        early = side.db.clone_table(side.name(), people.uri, source_version=1)
        clone.add(pa.table({"id": pa.array([77], pa.int64()), "name": ["only in the clone"], "score": [0.0]}))
        return side.rows(clone), side.rows(early), side.rows(people)

    @case("Connection.create_namespace", "Connection.list_namespaces", "Connection.describe_namespace", "Connection.drop_namespace", alone=True)
    def namespaces(side):
        outer = side.prefix
        side.db.create_namespace([outer], properties={"owner": "ann"})
        side.db.create_namespace([outer, "inner"])
        expect(outer in side.db.list_namespaces(limit=1000).namespaces, "the namespace is not listed")
        expect(side.db.list_namespaces([outer]).namespaces == ["inner"], "the inner namespace is not listed")
        expect(side.db.describe_namespace([outer]).properties.get("owner") == "ann", "its properties are lost")
        made = side.db.create_table("inside", PEOPLE, namespace_path=[outer, "inner"])
        made.add(more)
        expect(side.db.list_tables([outer, "inner"]).tables == ["inside"], "the table in it is not listed")
        expect(list(side.db.table_names(namespace_path=[outer, "inner"])) == ["inside"], "the table in it has no name")
        opened = side.db.open_table("inside", namespace_path=[outer, "inner"])
        expect(opened.count_rows() == 5, "the table in it cannot be read")
        fails(lambda: side.db.drop_namespace([outer]))
        side.db.drop_table("inside", namespace_path=[outer, "inner"])
        side.db.drop_namespace([outer, "inner"])
        side.db.drop_namespace([outer])
        expect(outer not in side.db.list_namespaces(limit=1000).namespaces, "the namespace is still there")

    @case("Connection.namespace_client", alone=True)
    def namespace_client(side):
        from lance_namespace_urllib3_client.models import CountTableRowsRequest

        people = side.people()
        client = side.db.namespace_client()
        count = client.count_table_rows(CountTableRowsRequest(id=[people.name]))
        expect(count.count == 3, f"it counts {count}")

    @case("Connection.list_jobs", "Connection.open_job", "Connection.cancel_job", alone=True)
    def jobs(side):
        made = side.books(64)
        made.create_index("id", config=BTree(), wait_timeout=SECONDS)
        found = [job for job in side.db.list_jobs() if job.table == made.name]
        expect([job.job_type for job in found] == ["create_index"], f"it lists {found}")
        expect(found[0].state != "" and found[0].created_at_millis > 0, f"it lists {found}")
        side.wait(side.db.open_job(found[0].job_id).wait())
        expect(side.db.cancel_job(found[0].job_id), "the job is said not to be there")
        unknown = str(uuid.UUID(int=7))
        expect(not side.db.cancel_job(unknown), "a job that nobody made is said to be there")
        fails(lambda: side.wait(side.db.open_job(unknown).wait()), "not found")


def sync_cases(cases):
    case = cases.case

    @case("Table.create_scalar_index", "Table.create_fts_index")
    def create_scalar_index(side):
        made = side.books(64)
        waiting = {"wait_timeout": SECONDS} if side.is_service else {}
        made.create_scalar_index("id", index_type="BTREE", **waiting)
        made.create_fts_index("text", **waiting)
        return sorted((one.name, one.columns) for one in made.list_indices())

    @case("Table.optimize", "Table.compact_files", "Table.cleanup_old_versions", alone=True)
    def optimize(side):
        people = side.people()
        people.optimize()
        people.compact_files()
        people.cleanup_old_versions()
        expect(people.count_rows() == 3, "rows are missing")

    @case("Table.search")
    def search(side):
        plain = side.shared("plain")
        by_vector = plain.search(vector(3)).limit(5).to_list()
        scan = plain.search().where("id BETWEEN 5 AND 8").select(["id", "name"]).to_arrow().sort_by("id")
        return by_vector, scan

    @case("Connection.serialize", alone=True)
    def serialize(side):
        import lancedb

        people = side.people()
        again = lancedb.deserialize_conn(side.db.serialize())
        expect(again.open_table(people.name).count_rows() == 3, "what it describes cannot be opened")

    @case("Connection.close", alone=True)
    def close(side):
        side.watch(side.database.connect()).close()



def async_cases(cases):
    case = cases.case

    @case("Table.query", "Table.vector_search", "Table.search")
    def query(side):
        plain = side.shared("plain")
        scan = plain.query().where("id < 4").to_arrow().sort_by("id")
        near = plain.vector_search(vector(9)).limit(4).to_list()
        return scan, near, plain.search(vector(9)).limit(4).to_list()

    @case("Table.is_open", "Table.close")
    def close(side):
        people = side.people()
        before = people.is_open()
        people.close()
        return before, people.is_open(), fails(lambda: people.count_rows())

    @case("Table.optimize", alone=True)
    def optimize(side):
        fails(lambda: side.people().optimize(), "not supported")

    @case("Table.initial_storage_options", "Table.latest_storage_options", alone=True)
    def storage_options(side):
        people = side.people()
        expect(not people.initial_storage_options(), "the service gave away options of its storage")
        expect(not people.latest_storage_options(), "the service gave away options of its storage")

    @case("Table.to_arrow", "Table.to_pandas")
    def to_arrow(side):
        people = side.people()
        return people.to_arrow().sort_by("id"), people.to_pandas().sort_values("id")

    @case("Table.replace_field_metadata")
    def replace_field_metadata(side):
        people = side.people()
        people.replace_field_metadata("name", {"unit": "person"})
        return people.schema.field("name").metadata, side.rows(people)

    @case("Table.to_lance", alone=True)
    def to_lance(side):
        people = side.people()
        expect(people.to_lance().count_rows() == 3, "the location that the service names has other rows")

    @case("Connection.is_open", "Connection.close")
    def is_open(side):
        other = side.watch(side.database.connect())
        before = other.is_open()
        other.close()
        return before, other.is_open(), fails(lambda: other.table_names())

    @case("Connection.uri", alone=True)
    def uri(side):
        expect(side.db.uri.rstrip("/") == "db://lancegate", f"its uri is {side.db.uri}")

def refusals(cases, is_async):
    refused = cases.refused
    by_client = "the SDK offers it for local tables only"
    missing = str(uuid.UUID(int=7))

    for name in () if is_async else ("to_arrow", "to_pandas", "to_polars", "to_lance"):
        refused(f"Table.{name}", by_client, lambda side, name=name: getattr(side.people(), name)())
    for name in ("uses_v2_manifest_paths", "migrate_manifest_paths_v2" if is_async else "migrate_v2_manifest_paths"):
        act = lambda side, name=name: getattr(side.people(), name)()
        refused(f"Table.{name}", by_client, act, says=("cannot be run on a remote table",))
    if is_async:
        interval = lambda side: side.db.get_read_consistency_interval()
        refused("Connection.get_read_consistency_interval", by_client, interval)
    refused("Table.set_unenforced_primary_key", by_client, lambda side: side.people().set_unenforced_primary_key("id"))
    refused("Table.prewarm_data", "there is no page cache of the service to warm", lambda side: side.people().prewarm_data())

    blobs = "the service has no blob columns yet; a binary column is read by a query"
    refused("Table.fetch_blobs", blobs, lambda side: side.people().fetch_blobs("name", [1]))
    refused("Table.fetch_blob_files", blobs, lambda side: side.people().fetch_blob_files("name", [1]))
    refused("Table.fetch_blob_ranges", by_client, lambda side: side.people().fetch_blob_ranges("name", [(1, 0, 1)]))

    def lsm(name, *arguments):
        refused(f"Table.{name}", LSM, lambda side: getattr(side.people(), name)(*arguments))

    for name in ("flush_lsm", "compact_lsm", "checkpoint_lsm", "get_lsm_stats", "get_lsm_write_spec", "unset_lsm_write_spec"):
        lsm(name)
    from lancedb import LsmWriteSpec

    lsm("set_lsm_write_spec", LsmWriteSpec.unsharded())
    cases.case("Table.close_lsm_writers", alone=True)(lambda side: side.people().close_lsm_writers())

    backfill = "computed columns need functions, which the open engine does not run on a server"
    refused("Table.refresh_column", backfill, lambda side: side.people().refresh_column("name"))
    refused("Table.refresh_column_async", backfill, lambda side: side.people().refresh_column_async("name"))
    refused("Table.function_errors", backfill, lambda side: side.people().function_errors())

    def enterprise(name, *arguments, **named):
        refused(f"Connection.{name}", ENTERPRISE, lambda side: getattr(side.db, name)(*arguments, **named))

    enterprise("create_secret", "s", "v")
    enterprise("alter_secret", "s", "v")
    for name in ("describe_secret", "drop_secret", "describe_view", "drop_view", "drop_view_async"):
        enterprise(name, "s")
    for name in ("list_secrets", "list_views", "list_functions", "list_materialized_views"):
        enterprise(name)
    enterprise("create_view", "v", "SELECT 1")
    for name in ("create_materialized_view", "create_materialized_view_async"):
        refused(f"Connection.{name}", ENTERPRISE, lambda side, name=name: getattr(side.db, name)(side.name(), side.people().name))
    for name in ("drop_materialized_view", "drop_materialized_view_async"):
        enterprise(name, "m")
    # The SDK opens the table, and finds no view in it.
    open_view = lambda side: side.db.open_materialized_view(side.people().name)
    refused("Connection.open_materialized_view", ENTERPRISE, open_view, says=("406", "not a materialized view"))
    for name in ("get_function", "drop_function", "drop_function_async"):
        enterprise(name, "f", version="1")
    for name in ("pause_job", "resume_job"):
        enterprise(name, missing)
    # They speak Arrow Flight to a port of its own, where nothing listens.
    for name in ("execute_query", "execute_query_async"):
        refused(f"Connection.{name}", ENTERPRISE, lambda side, name=name: getattr(side.db, name)("SELECT 1"), says=("transport error",))
    refused("Connection.describe_query", ENTERPRISE, lambda side: side.db.describe_query(uuid.UUID(int=7)), says=("unknown or expired",))
    from lancedb.functions import udf

    @udf
    def double(x: int) -> int:
        return x * 2

    for name in ("create_function_async",) if is_async else ("create_function", "create_function_async"):
        enterprise(name, double)
    if not is_async:
        unknown = "the SDK has it for connections to a namespace only"
        refused("Connection.namespace_exists", unknown, lambda side: side.db.namespace_exists(["a"]))
        refused("Connection.table_exists", unknown, lambda side: side.db.table_exists(["a"]))
        refused("Connection.uri", "the SDK forgets it", lambda side: side.db.uri, says=("no attribute '_uri'",))
    for name in ("drop_all_tables", "drop_database"):
        refused(f"Connection.{name}", "the SDK offers it for local databases only", lambda side, name=name: getattr(side.db, name)())


def lancedb_cases(is_async):
    from lancedb_queries import query_cases

    kinds = ASYNC if is_async else SYNC
    cases = Cases(f"LanceDB SDK for Python, {'async' if is_async else 'sync'}", kinds)
    table_cases(cases)
    index_cases(cases)
    tag_cases(cases)
    branch_cases(cases)
    merge_cases(cases)
    connection_cases(cases)
    (async_cases if is_async else sync_cases)(cases)
    refusals(cases, is_async)
    query_cases(cases, is_async)
    return cases
