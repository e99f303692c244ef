"""The operations of the Lance REST Namespace, as its own clients call them."""
import shutil
import tempfile
import urllib.parse
import uuid
from pathlib import Path

import lance
import lance.namespace
import pyarrow as pa
from lance_namespace_urllib3_client import models

from harness import Cases, equal, expect, fails
from namespace_sides import Generated

people = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["ann", "bob", "cid"], "score": [1.5, 2.5, None]})
more = pa.table({"id": pa.array([3, 4], pa.int64()), "name": ["cyd", "dan"], "score": [3.5, 4.5]})


def vectors(count=300):
    values = [[((i * 31 + j * 17) % 97) / 10 for j in range(8)] for i in range(count)]
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "text": [f"word{i % 7} river stone{i % 3}" for i in range(count)],
            "vector": pa.array(values, pa.list_(pa.float32(), 8)),
        }
    )


def field(answer, name):
    """pylance answers some calls with a dict."""
    return answer[name] if isinstance(answer, dict) else getattr(answer, name)


def single(values):
    return models.QueryTableRequestVector(single_vector=values)


def names(values):
    return models.QueryTableRequestColumns(column_names=values)


def proposed_version(location, rows):
    """What a program of Lance does up to its commit: files of the next version, and its manifest under a name of its own."""
    table = Path(urllib.parse.unquote(urllib.parse.urlparse(location).path))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.lance"
        shutil.copytree(table, copy)
        version = lance.write_dataset(rows, str(copy), mode="append").version
        for file in copy.glob("data/*"):
            if not (table / "data" / file.name).exists():
                shutil.copy(file, table / "data" / file.name)
        written = (copy / "_versions" / f"{2**64 - 1 - version}.manifest").read_bytes()
    staged = table / "_versions" / f"{2**64 - 1 - version}.manifest-{uuid.uuid4()}"
    staged.write_bytes(written)
    return {"version": version, "manifest_path": str(staged)[1:], "manifest_size": len(written), "naming_scheme": "V2"}


def table_cases(cases):
    case = cases.case

    @case("Namespace.create_table")
    def create_table(side):
        id = side.table(people)
        taken = fails(lambda: side.call("create_table", id, body=more, mode="create"))
        side.call("create_table", id, body=more, mode="exist_ok")
        kept = side.count(id)
        side.call("create_table", id, body=more, mode="overwrite")
        return taken, kept, side.count(id)

    @case("Namespace.describe_table")
    def describe_table(side):
        id = side.table(people)
        found = side.call("describe_table", id, load_detailed_metadata=True)
        expect(id[0] in found.location, f"its location is {found.location}")
        # The reference server names types in words of its own, which the LanceDB SDKs cannot read.
        words = {"utf8": "string", "float64": "double"}
        fields = [(one.name, words.get(one.type.type, one.type.type), one.nullable) for one in found.var_schema.fields]
        return found.version, fields

    @case("Namespace.table_exists")
    def table_exists(side):
        side.call("table_exists", side.table(people))
        return fails(lambda: side.call("table_exists", ["no_such_table"]))

    @case("Namespace.list_tables", "Namespace.list_all_tables")
    def list_tables(side):
        id = side.table(people)
        listed = side.call("list_tables", [], limit=10_000).tables
        expect(id[0] in listed, "the new table is not listed")
        expect(id[0] in side.call("list_all_tables", limit=10_000).tables, "the new table is not among all of them")

    @case("Namespace.drop_table")
    def drop_table(side):
        id = side.table(people)
        side.call("drop_table", id)
        return fails(lambda: side.call("describe_table", id)), fails(lambda: side.call("drop_table", id))

    @case("Namespace.declare_table", alone=True)
    def declare_table(side):
        id = [side.name()]
        expect(side.call("declare_table", id).location, "it has no location")
        fails(lambda: side.call("declare_table", id))
        side.call("create_table", id, body=people)
        expect(side.count(id) == 3, "rows are missing")

    @case("Namespace.deregister_table", "Namespace.register_table", alone=True)
    def deregister_table(side):
        id = side.table(people)
        location = side.call("deregister_table", id).location
        fails(lambda: side.call("describe_table", id))
        again = [side.name()]
        side.call("register_table", again, location=location.rstrip("/").rsplit("/", 1)[-1])
        expect(side.count(again) == 3, "rows are missing")

    @case("Namespace.rename_table", alone=True)
    def rename_table(side):
        id = side.table(people)
        renamed = side.name()
        side.call("rename_table", id, new_table_name=renamed)
        fails(lambda: side.call("describe_table", id))
        equal(side.rows([renamed]), people)

    @case("Namespace.get_table_stats", alone=True)
    def get_table_stats(side):
        found = side.call("get_table_stats", side.table(people))
        expect((found.num_rows, found.num_indices, found.fragment_stats.num_fragments) == (3, 0, 1), f"it says {found}")

    @case("Namespace.restore_table")
    def restore_table(side):
        id = side.table(people)
        side.call("insert_into_table", id, body=more)
        side.call("restore_table", id, version=1)
        return side.rows(id), fails(lambda: side.call("restore_table", id, version=99))

    @case("Namespace.update_table_schema_metadata")
    def update_table_schema_metadata(side):
        id = side.table(people)
        answer = side.call("update_table_schema_metadata", id, metadata={"owner": "ann", "purpose": "proof"})
        stored = answer if isinstance(answer, dict) else answer.metadata
        return {key: stored[key] for key in ("owner", "purpose")}, side.rows(id)


def data_cases(cases):
    case = cases.case

    @case("Namespace.count_table_rows")
    def count_table_rows(side):
        id = side.table(people)
        return side.count(id), side.count(id, predicate="id > 1"), fails(lambda: side.count(["no_such_table"]))

    @case("Namespace.insert_into_table")
    def insert_into_table(side):
        id = side.table(people)
        side.call("insert_into_table", id, body=more)
        appended = side.rows(id)
        side.call("insert_into_table", id, body=more, mode="overwrite")
        return appended, side.rows(id)

    @case("Namespace.merge_insert_into_table")
    def merge_insert_into_table(side):
        id = side.table(people)
        how = {"when_matched_update_all": True, "when_not_matched_insert_all": True}
        answer = side.call("merge_insert_into_table", id, body=more, on=["id"], **how)
        return answer.num_inserted_rows, answer.num_updated_rows, side.rows(id)

    @case("Namespace.update_table")
    def update_table(side):
        id = side.table(people)
        answer = side.call("update_table", id, predicate="id >= 2", updates=[["name", "upper(name)"], ["score", "cast(id AS double)"]])
        every = side.call("update_table", id, updates=[["score", "0.5"]])
        return answer.updated_rows, every.updated_rows, side.rows(id)

    @case("Namespace.delete_from_table")
    def delete_from_table(side):
        id = side.table(people)
        side.call("delete_from_table", id, predicate="id = 2")
        return side.rows(id), fails(lambda: side.call("delete_from_table", id, predicate="no_such_column = 2"))

    @case("Namespace.query_table")
    def query_table(side):
        id = side.table(vectors())
        near = side.rows(id, order=None, k=5, vector=single([1.0] * 8), columns=names(["id"]))
        filtered = side.rows(id, filter="id > 290", columns=names(["id", "text"]))
        page = side.rows(id, order=None, k=10, offset=3)
        bounded = side.rows(id, order=None, k=5, vector=single([2.0] * 8), filter="id < 50", prefilter=True, distance_type="cosine")
        old = side.rows(id, version=1)
        wrong = fails(lambda: side.rows(id, filter="no_such_column = 1"))
        return near, filtered, len(page), bounded, old, wrong

    @case("Namespace.explain_table_query_plan", alone=True)
    def explain_table_query_plan(side):
        id = side.table(people)
        query = models.QueryTableRequest(id=id, k=5, vector=single([]), filter="id > 1")
        plan = side.call("explain_table_query_plan", id, query=query, verbose=True)
        expect(isinstance(plan, str) and "LanceRead" in plan or "LanceScan" in plan, f"the plan is {plan!r}")

    @case("Namespace.analyze_table_query_plan", alone=True)
    def analyze_table_query_plan(side):
        id = side.table(people)
        plan = side.call("analyze_table_query_plan", id, k=5, vector=single([]), filter="id > 1")
        expect(isinstance(plan, str) and "metrics" in plan, f"the plan is {plan!r}")


def column_cases(cases):
    case = cases.case

    @case("Namespace.alter_table_add_columns")
    def alter_table_add_columns(side):
        id = side.table(people)
        side.call("alter_table_add_columns", id, new_columns=[models.AddColumnsEntry(name="double", expression="score * 2")])
        return side.rows(id)

    @case("Namespace.alter_table_alter_columns")
    def alter_table_alter_columns(side):
        id = side.table(people)
        side.call("alter_table_alter_columns", id, alterations=[models.AlterColumnsEntry(path="name", rename="title")])
        return side.rows(id)

    @case("Namespace.alter_table_drop_columns")
    def alter_table_drop_columns(side):
        id = side.table(people)
        side.call("alter_table_drop_columns", id, columns=["score"])
        return side.rows(id)

    def update_field_metadata(side):
        id = side.table(people)
        entry = models.UpdateFieldMetadataEntry(path="name", metadata={"unit": "person"})
        answer = side.call("update_field_metadata", id, updates=[entry])
        expect(answer.version == 2, f"it answers {answer}")
        fields = side.call("describe_table", id).var_schema.fields
        expect(fields[1].metadata.get("unit") == "person", f"the fields are {fields}")

    if cases.title.startswith("pylance"):
        reason = "this version of pylance does not send it"
        cases.refused("Namespace.update_field_metadata", reason, update_field_metadata, says=("Not supported: update_field",))
    else:
        case("Namespace.update_field_metadata", alone=True)(update_field_metadata)


def index_cases(cases):
    case = cases.case

    @case("Namespace.create_table_index", "Namespace.list_table_indices", "Namespace.describe_table_index_stats", alone=True)
    def create_table_index(side):
        id = side.table(vectors())
        side.call("create_table_index", id, column="vector", index_type="IVF_FLAT", distance_type="l2", num_partitions=2)
        found = side.call("list_table_indices", id).indexes
        expect([one.columns for one in found] == [["vector"]], f"it lists {found}")
        stats = side.call("describe_table_index_stats", id, index_name=found[0].index_name)
        expect((stats.num_indexed_rows, stats.num_unindexed_rows) == (300, 0), f"it says {stats}")
        near = side.rows(id, order=None, k=3, vector=single([1.0] * 8), nprobes=2)
        equal(near["id"], side.rows(id, order=None, k=3, vector=single([1.0] * 8), bypass_vector_index=True)["id"])

    @case("Namespace.create_table_scalar_index", "Namespace.drop_table_index", alone=True)
    def create_table_scalar_index(side):
        id = side.table(vectors())
        side.call("create_table_scalar_index", id, column="id", index_type="BTREE")
        side.call("create_table_index", id, column="text", index_type="FTS")
        found = {one.columns[0]: one.index_name for one in side.call("list_table_indices", id).indexes}
        expect(sorted(found) == ["id", "text"], f"it lists {found}")
        words = models.QueryTableRequestFullTextQuery(string_query=models.StringFtsQuery(query="word3", columns=["text"]))
        expect(len(side.rows(id, full_text_query=words)) == 43, "it finds other texts")
        side.call("drop_table_index", id, index_name=found["id"])
        expect(len(side.call("list_table_indices", id).indexes) == 1, "the index is still there")


def version_cases(cases):
    case = cases.case

    @case("Namespace.list_table_versions")
    def list_table_versions(side):
        id = side.table(people)
        side.call("insert_into_table", id, body=more)
        found = side.call("list_table_versions", id, descending=True).versions
        return [one.version for one in found]

    @case("Namespace.describe_table_version", alone=True)
    def describe_table_version(side):
        id = side.table(people)
        found = side.call("describe_table_version", id, version=1)
        version = field(found, "version")
        expect(field(version, "version") == 1 and field(version, "manifest_path"), f"it says {found}")
        fails(lambda: side.call("describe_table_version", id, version=99))

    @case("Namespace.create_table_version", alone=True)
    def create_table_version(side):
        id = side.table(people)
        entry = proposed_version(side.call("describe_table", id).location, more)
        made = field(side.call("create_table_version", id, **entry), "version")
        expect(field(made, "version") == 2, f"it answers {made}")
        versions = [version.version for version in side.call("list_table_versions", id, descending=True).versions]
        expect((versions, side.count(id)) == ([2, 1], 5), f"there are {versions} with {side.count(id)} rows")
        fails(lambda: side.call("create_table_version", id, **entry))

    @case("Namespace.batch_delete_table_versions", alone=True)
    def batch_delete_table_versions(side):
        id = side.table(people)
        for _ in range(3):
            side.call("insert_into_table", id, body=more)
        one = models.VersionRange(start_version=1, end_version=3)
        answer = side.call("batch_delete_table_versions", id, ranges=[one])
        expect(field(answer, "deleted_count") in (2, 3), f"it answers {answer}")
        left = [version.version for version in side.call("list_table_versions", id).versions]
        expect(1 not in left and 2 not in left and 4 in left, f"there are {left}")
        expect(side.count(id) == 9, "rows are missing")

    @case("Namespace.create_table_tag", "Namespace.get_table_tag_version", "Namespace.list_table_tags")
    def create_table_tag(side):
        id = side.table(people)
        side.call("insert_into_table", id, body=more)
        side.call("create_table_tag", id, tag="first", version=1)
        taken = fails(lambda: side.call("create_table_tag", id, tag="first", version=2))
        tags = side.call("list_table_tags", id).tags
        version = side.call("get_table_tag_version", id, tag="first").version
        return {name: tag.version for name, tag in tags.items()}, version, taken

    @case("Namespace.update_table_tag", "Namespace.delete_table_tag")
    def update_table_tag(side):
        id = side.table(people)
        side.call("insert_into_table", id, body=more)
        side.call("create_table_tag", id, tag="moving", version=1)
        side.call("update_table_tag", id, tag="moving", version=2)
        moved = side.call("get_table_tag_version", id, tag="moving").version
        side.call("delete_table_tag", id, tag="moving")
        return moved, fails(lambda: side.call("get_table_tag_version", id, tag="moving"))

    # The reference server inserts into main whatever branch is named.
    @case("Namespace.create_table_branch", "Namespace.list_table_branches", "Namespace.delete_table_branch", alone=True)
    def create_table_branch(side):
        id = side.table(people)
        side.call("create_table_branch", id, name="draft")
        side.call("insert_into_table", id, body=more, branch="draft")
        counts = side.count(id), side.count(id, branch="draft")
        expect(counts == (3, 5), f"main and the branch have {counts} rows")
        expect(list(side.call("list_table_branches", id).branches) == ["draft"], "the branch is not listed")
        side.call("delete_table_branch", id, name="draft")
        expect(not side.call("list_table_branches", id).branches, "the branch is still there")


def namespace_cases_of(cases):
    case = cases.case

    @case("Namespace.create_namespace", "Namespace.describe_namespace", "Namespace.namespace_exists", "Namespace.list_namespaces", "Namespace.drop_namespace")
    def create_namespace(side):
        name = side.name()
        side.call("create_namespace", [name], properties={"owner": "ann"})
        side.call("create_namespace", [name, "inner"])
        side.call("namespace_exists", [name, "inner"])
        listed = side.call("list_namespaces", [name]).namespaces
        owner = side.call("describe_namespace", [name]).properties["owner"]
        side.call("create_table", [name, "inner", "people"], body=people)
        count = side.count([name, "inner", "people"])
        full = fails(lambda: side.call("drop_namespace", [name, "inner"]))
        side.call("drop_table", [name, "inner", "people"])
        side.call("drop_namespace", [name, "inner"])
        gone = fails(lambda: side.call("namespace_exists", [name, "inner"]))
        return listed, owner, count, full, gone

    @case("Namespace.describe_transaction", alone=True)
    def describe_transaction(side):
        id = side.table(people)
        answer = side.call("merge_insert_into_table", id, body=more, on=["id"], when_not_matched_insert_all=True)
        expect(answer.transaction_id, f"the merge answers {answer}")
        found = side.call("describe_transaction", [answer.transaction_id])
        expect(found.status.upper().startswith("SUCCEED"), f"it says {found}")


def refusals(cases):
    def refused(operation, reason, id=("people",), **fields):
        act = lambda side: side.call(operation, list(id), **fields)
        cases.refused(f"Namespace.{operation}", reason, act, says=("406", "Unsupported: this service", "Not supported: batch_"))

    entries = [models.CreateTableVersionEntry(id=[name], version=2, manifest_path="x") for name in ("one", "two")]
    refused("batch_create_table_versions", "versions of several tables cannot be made as one", entries=entries)
    refused("batch_commit_tables", "changes of several tables cannot be made as one", operations=[])
    refused("alter_transaction", "a transaction of the service is over when it is known", id=("1",), actions=[models.AlterTransactionAction()])
    engine = "the open engine runs no functions of users on a server"
    refused("alter_table_backfill_columns", engine, column="name")
    view = {"kind": "query", "source_query": "SELECT 1", "output_schema": ""}
    refused("create_materialized_view", engine, **view)
    refused("refresh_materialized_view", engine)


def all_cases(title, owner):
    cases = Cases(title, {"Namespace": (owner,)})
    for add in (table_cases, data_cases, column_cases, index_cases, version_cases, namespace_cases_of, refusals):
        add(cases)
    return cases


def generated_cases():
    return all_cases("lance-namespace-urllib3-client, generated for Python", Generated)


def java_cases(operations):
    """An older version of the specification: what it lacks is left out."""
    cases = all_cases("lance-namespace-apache-client, for Java", type("Java", (), {name: None for name in operations}))
    known = {f"Namespace.{name}" for name in operations}
    cases.cases = [case for case in cases.cases if set(case.names) <= known]
    return cases


def pylance_cases():
    cases = all_cases("pylance, lance_namespace.connect('rest')", lance.namespace.RestNamespace)
    case = cases.case

    @case("Namespace.create_empty_table", alone=True)
    def create_empty_table(side):
        side.seen.add("Namespace.create_empty_table")
        fails(lambda: side.client.client.create_empty_table(models.DeclareTableRequest(id=[side.name()])))

    @case("Namespace.namespace_id", alone=True)
    def namespace_id(side):
        side.seen.add("Namespace.namespace_id")
        expect(side.client.client.namespace_id(), "it has none")

    @case("Namespace.retrieve_ops_metrics", "Namespace.reset_ops_metrics", alone=True)
    def ops_metrics(side):
        side.seen.update(["Namespace.retrieve_ops_metrics", "Namespace.reset_ops_metrics"])
        side.client.client.retrieve_ops_metrics()
        side.client.client.reset_ops_metrics()

    return cases
