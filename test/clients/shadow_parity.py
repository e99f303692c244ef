"""Other versions of Lance read and write the tables of test/engine/shadow-parity.test.ts, those that the engine made and those
that were lifted from a shadow, and must do the same with both. Run by hand, once for each version of pylance:

    LANCEGATE_PARITY=FOLDER node --test test/engine/shadow-parity.test.ts
    python test/clients/shadow_parity.py FOLDER
"""
import json
import os
import shutil
import sys

import lance
import pyarrow as pa

folder = sys.argv[1]
keys = "id IN (3, 4, 5, 7, 8, 9, 11, 1500, 9000, 9001, 70000, 123456)"


def shown(table):
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist())


def opened(place, kind):
    dataset = lance.dataset(os.path.join(place, "t.lance"))
    return dataset.checkout_version(("feature/x", None)) if kind == "a branch" else dataset


def source(schema, ids):
    columns = {}
    for field in schema:
        values = ids if field.name == "id" else [1] * len(ids)
        columns[field.name] = pa.array([str(each) for each in values] if pa.types.is_string(field.type) else values).cast(field.type)
    return pa.table(columns, schema=schema)


def steps(place, kind):
    """Each is a name and what it returns; reads first, then writes on top, each followed by a read of all rows."""
    has_ids = kind == "a table with stable row ids"
    everything = lambda: shown(opened(place, kind).scanner(with_row_id=has_ids).to_table())
    yield "validate", lambda: opened(place, kind).validate()
    yield "rows", everything
    yield "with the index", lambda: shown(opened(place, kind).to_table(filter=keys))
    yield "without it", lambda: shown(opened(place, kind).scanner(filter=keys, use_scalar_index=False).to_table())
    merge = lambda dataset: dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    rows = lambda dataset: source(dataset.schema, [5, 7, 9000, 123456])
    writes = {
        "merge": lambda dataset: merge(dataset).execute(rows(dataset)),
        "delete": lambda dataset: dataset.delete("id = 5 OR id = 1501"),
        "compact": lambda dataset: dataset.optimize.compact_files(),
        "index": lambda dataset: dataset.create_scalar_index("id", "BTREE", replace=True),
        "extend the index": lambda dataset: dataset.optimize.optimize_indices(),
    }
    for name, write in writes.items():
        yield name, lambda write=write: write(opened(place, kind)) and None
        yield f"rows after {name}", everything
        yield f"found after {name}", lambda: shown(opened(place, kind).to_table(filter=keys))


def outcome(run):
    try:
        return run()
    except BaseException as error:  # a panic is none of Exception
        return f"{type(error).__name__}: {str(error)[:60]}"


def results(kind, title, who):
    place = os.path.join(folder, kind)  # a branch names its parent's folder by this path
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(os.path.join(folder, "results", kind, title, who), place)
    return {name: outcome(run) for name, run in steps(place, kind)}


different = 0
compared = 0
for kind in sorted(os.listdir(os.path.join(folder, "results"))):
    for title in sorted(os.listdir(os.path.join(folder, "results", kind))):
        by_engine, by_shadow = (results(kind, title, who) for who in ("engine", "shadow"))
        compared += 1
        names = [name for name in by_engine if by_engine[name] != by_shadow[name]]
        if names:
            different += 1
            print(f"{kind}, {title}: {names}", [str(by_engine[names[0]])[:200], str(by_shadow[names[0]])[:200]])
print(f"pylance {lance.__version__}: {compared} tables compared, {different} different")
sys.exit(1 if different else 0)
