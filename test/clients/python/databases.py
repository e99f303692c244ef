"""Databases of the LanceDB SDK: each has tables and namespaces of its own, and a name that is none is the root."""
import lancedb
from lancedb.index import BTree

from harness import expect, fails

TITLE = "Databases of the LanceDB SDK (connect_catalog)"


def databases_lines(service):
    catalog = lancedb.connect_catalog(service.url, api_key=service.api_key)
    return [line(catalog, service, name, work) for name, work in WORKS]


def line(catalog, service, name, work):
    try:
        work(catalog, service)
        return name, "ok", ""
    except Exception as error:  # noqa: BLE001: every failure is a line
        return name, "FAILS", f"{type(error).__name__}: {error}"


def connected(service, name):
    return lancedb.connect(f"db://{name}", api_key=service.api_key, host_override=service.url)


def create_database(catalog, _service):
    for name in ("one", "two", "with space", "with/slash"):
        catalog.create_database(name)
    fails(lambda: catalog.create_database("one"), "already exists")
    catalog.create_database("one", exist_ok=True)
    expect({"one", "two", "with space", "with/slash"} <= set(catalog.list_databases().databases), "databases are missing")


def connect_database(catalog, _service):
    for count, name in enumerate(("one", "two", "with space", "with/slash"), 1):
        database = catalog.connect_database(name)
        table = database.create_table("people", [{"id": id} for id in range(count)])
        table.merge_insert("id").when_not_matched_insert_all().execute([{"id": 99}])
        table.create_index("id", config=BTree())
        expect(database.open_table("people").count_rows() == count + 1, f"{name} has other rows")
        expect(list(database.list_tables().tables) == ["people"], f"{name} lists other tables")
        expect(len(table.search().to_list()) == count + 1, f"{name} finds other rows")
    fails(lambda: catalog.connect_database("nowhere"), "not found")


def namespaces_in_it(catalog, _service):
    one, two = catalog.connect_database("one"), catalog.connect_database("two")
    one.create_namespace(["inner"])
    one.create_table("people", [{"id": 7}], namespace_path=["inner"])
    one.rename_table("people", "persons", new_namespace_path=["inner"], cur_namespace_path=["inner"])
    expect(one.open_table("persons", namespace_path=["inner"]).count_rows() == 1, "the table is not there")
    expect(list(one.list_namespaces().namespaces) == ["inner"], "the namespace is not listed")
    expect(list(two.list_namespaces().namespaces) == [], "it is in the other database")
    one.drop_table("persons", namespace_path=["inner"])
    one.drop_namespace(["inner"])


def connect_by_name(catalog, service):
    expect(connected(service, "one").open_table("people").count_rows() == 2, "db://one is another database")
    expect("people" not in connected(service, "nowhere").list_tables().tables, "db://nowhere is a database")
    fails(lambda: connected(service, "one/path").list_tables(), "x-lancedb-database-prefix")


def drop_database(catalog, service):
    fails(lambda: catalog.drop_database("one"), "409")
    for name in ("one", "two", "with space", "with/slash"):
        catalog.connect_database(name).drop_table("people")
        catalog.drop_database(name)
    fails(lambda: catalog.drop_database("one"), "not found")
    catalog.drop_database("one", ignore_missing=True)
    fails(lambda: connected(service, "one").list_tables(), "404")


WORKS = (
    ("Catalog.create_database, list_databases", create_database),
    ("Catalog.connect_database", connect_database),
    ("namespaces in a database", namespaces_in_it),
    ("connect of db://NAME", connect_by_name),
    ("Catalog.drop_database", drop_database),
)
