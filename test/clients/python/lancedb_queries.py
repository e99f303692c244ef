"""Every method of the query builders of the LanceDB SDK, tried by reflection, and searches that use several at once."""
import pyarrow as pa
from lancedb.query import (
    BooleanQuery,
    BoostQuery,
    ColumnOrdering,
    FullTextOperator,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)
from lancedb.rerankers import LinearCombinationReranker
from lancedb.rerankers.base import Reranker

from harness import Failure, expect, fails, methods_of
from lancedb_sides import ASYNC, SYNC, vector

TEXT = "river lamp"
DESCENDING = [
    ColumnOrdering(column_name="score", ascending=False, nulls_first=False),
    ColumnOrdering(column_name="id", ascending=True, nulls_first=False),
]


class ByName(Reranker):
    """Of any search the rows in the order of their names, so that what it was given is what it returns."""

    def rerank_hybrid(self, query, vector_results, fts_results):
        return self.scored(self.merge_results(vector_results, fts_results))

    def rerank_vector(self, query, vector_results):
        return self.scored(vector_results)

    def rerank_fts(self, query, fts_results):
        return self.scored(fts_results)

    def scored(self, found):
        found = found.sort_by("name")
        scores = pa.array([1 / (1 + index) for index in range(len(found))], pa.float32())
        return found.append_column("_relevance_score", scores)


def start(side, kind, table=None):
    """A builder of this kind, not yet limited."""
    opened = side.shared(table or ("searchable" if kind in ("FtsQuery", "HybridQuery") else "plain"))
    if kind == "TakeQuery":
        return opened.take_offsets([3, 1, 200])
    if side.is_async:
        asked = opened.query()
        if kind in ("VectorQuery", "HybridQuery"):
            asked = asked.nearest_to(vector(3))
        if kind in ("FtsQuery", "HybridQuery"):
            asked = asked.nearest_to_text(TEXT)
        return asked
    if kind == "Query":
        return opened.search()
    if kind == "VectorQuery":
        return opened.search(vector(3))
    if kind == "FtsQuery":
        return opened.search(TEXT, query_type="fts")
    return opened.search(query_type="hybrid").vector(vector(3)).text(TEXT)


def in_order(kind, rows):
    """A plain scan has no order; ties of a full-text search have none."""
    if kind in ("Query", "TakeQuery"):
        return sorted(rows, key=lambda row: row["id"])
    if kind == "FtsQuery":
        return sorted(rows, key=lambda row: (-round(row.get("_score", 0), 4), row["id"]))
    return rows


def limited(kind, asked):
    return asked if kind == "TakeQuery" else asked.limit(300 if kind in ("Query", "FtsQuery") else 20)


def options(is_async):
    """How each method that changes a query is called."""
    return {
        "limit": (7,),
        "offset": (2,),
        "select": (["id", "name"],),
        "where": ("id < 100 AND score IS NOT NULL",),
        "with_row_id": () if is_async else (True,),
        "order_by": (DESCENDING,),
        "fast_search": (),
        "use_lsm": (False,),
        "phrase_query": (True,),
        "distance_type": ("cosine",),
        "metric": ("cosine",),
        "nprobes": (4,),
        "minimum_nprobes": (4,),
        "maximum_nprobes": (30,),
        "ef": (200,),
        "refine_factor": (10,),
        "bypass_vector_index": (),
        "distance_range": (0.5, 12.0),
        "postfilter": (),
        "column": ("vector",),
        "rerank": (ByName(),),
        "text": (TEXT,),
        "vector": (vector(3),),
        "nearest_to": (vector(3),),
        "nearest_to_text": (TEXT,),
    }


# What the protocol has no field for.
FORGOTTEN = {"HybridQuery.minimum_nprobes", "HybridQuery.maximum_nprobes", "HybridQuery.output_schema"}
FRAGMENTS = {"with_row_address": (), "fragment_ids": ([0],), "with_fragments": ([],)}


def query_cases(cases, is_async):
    for kind, classes in cases.watched.items():
        if not kind.endswith("Query"):
            continue
        for name in sorted(methods_of(*classes)):
            one_method(cases, kind, name, is_async)
    searches(cases, is_async)


def one_method(cases, kind, name, is_async):
    full = f"{kind}.{name}"
    if is_async and full in FORGOTTEN:
        act = lambda side: getattr(start(side, kind), name)(*(() if name in ENDS else options(is_async)[name]))
        cases.refused(full, "the SDK forgets it below its surface, also for local tables", act, says=("has no attribute",))
    elif name in FRAGMENTS:
        cases.case(full, alone=True)(fragments(kind, name))
    elif name in ENDS:
        cases.case(full, alone=name in ALONE)(lambda side: ENDS[name](side, kind, limited(kind, start(side, kind))))
    elif name in ("create", "get_query"):
        cases.case(full, alone=True)(lambda side: getattr(start(side, kind), name))
    elif name in options(is_async):
        cases.case(full)(changed(kind, name, is_async))


def fragments(kind, name):
    """The SDK sends nothing of fragments and row addresses to a service: all rows come, with no address. Some of its builders
    say so."""

    def act(side):
        try:
            found = limited(kind, getattr(start(side, kind), name)(*FRAGMENTS[name])).to_list()
        except (NotImplementedError, ValueError) as error:
            return expect("not" in str(error), f"it says {error}")
        expect(len(found) > 2 and "_rowaddr" not in found[0], f"it finds {found[:1]}")

    return act


def changed(kind, name, is_async):
    indexed = {"nprobes", "minimum_nprobes", "maximum_nprobes", "ef", "refine_factor", "bypass_vector_index", "fast_search"}

    def act(side):
        table = "indexed" if name in indexed and kind == "VectorQuery" else None
        asked = start(side, kind, "searchable" if name == "nearest_to_text" else table)
        more = {"query_string": TEXT} if name == "rerank" and kind == "VectorQuery" else {}
        arguments = () if name == "with_row_id" and kind == "TakeQuery" else options(is_async)[name]
        asked = getattr(asked, name)(*arguments, **more)
        if name != "limit":
            asked = limited(kind, asked)
        return by_id_without_row_ids(name, kind, asked.to_list())

    return act


def by_id_without_row_ids(name, kind, rows):
    expect(name != "with_row_id" or all(isinstance(row["_rowid"], int) for row in rows), "there are no row ids")
    kept = [{key: value for key, value in row.items() if key != "_rowid"} for row in rows]
    if kind == "Query" and name in ("limit", "offset"):
        return len(kept)
    return kept if name == "order_by" else in_order(kind, kept)


def batches(side, reader):
    if not side.is_async:
        return pa.Table.from_batches(list(reader), reader.schema)

    async def read():
        return pa.Table.from_batches([batch async for batch in reader], reader.schema)

    return side.wait(read())


def in_order_with_types(kind, table):
    return table.schema, table_in_order(kind, table)


def table_in_order(kind, table):
    return in_order(kind, table.to_pylist())


def a_plan(side, kind, asked, method):
    text = getattr(asked, method)()
    expect(isinstance(text, str) and "\n" in text or "Exec" in text or "Lance" in text, f"the plan is {text!r}")
    expect("lancegate-clients-" not in text, f"the plan shows where the table is: {text!r}")
    if method == "analyze_plan":
        expect("metrics" in text or "elapsed" in text, f"nothing is measured: {text!r}")


def pydantic_rows(side, kind, asked):
    from lancedb.pydantic import LanceModel

    class Book(LanceModel):
        id: int
        name: str

    return sorted(row.id for row in asked.select(["id", "name"]).to_pydantic(Book))


ENDS = {
    "to_arrow": lambda side, kind, asked: in_order_with_types(kind, asked.to_arrow()),
    "to_list": lambda side, kind, asked: in_order(kind, asked.to_list()),
    "to_batches": lambda side, kind, asked: table_in_order(kind, batches(side, asked.to_batches())),
    "to_pandas": lambda side, kind, asked: in_order(kind, asked.to_pandas().to_dict("records")),
    "to_df": lambda side, kind, asked: in_order(kind, asked.to_df().to_dict("records")),
    "to_polars": lambda side, kind, asked: in_order(kind, asked.to_polars().to_dicts()),
    "to_pydantic": pydantic_rows,
    "to_query_object": lambda side, kind, asked: asked.to_query_object().limit,
    "output_schema": lambda side, kind, asked: asked.output_schema(),
    "explain_plan": lambda side, kind, asked: a_plan(side, kind, asked, "explain_plan"),
    "analyze_plan": lambda side, kind, asked: a_plan(side, kind, asked, "analyze_plan"),
}
# Their text is that of the plan, which may differ.
ALONE = {"explain_plan", "analyze_plan"}


def searches(cases, is_async):
    case = cases.case

    def ids(rows):
        return [row["id"] for row in rows]

    @case("Query.where", "Query.select", "Query.order_by", "Query.limit", "Query.offset")
    def pages(side):
        asked = lambda: start(side, "Query").where("score > 5").order_by(DESCENDING)
        wanted = {"half": "score / 2", "id": "id", "loud": "upper(name)"}  # The SDK sorts them.
        first = asked().select(wanted).limit(10).to_arrow()
        second = asked().select(["id"]).limit(10).offset(10).to_arrow()
        beyond = asked().limit(10).offset(100_000).to_list()
        return first, second, beyond

    @case("Query.where")
    def filters(side):
        several = [
            "name IN ('book 003', 'book 004', 'it''s none')",
            "score IS NULL AND id > 100",
            "name LIKE 'book 01%' OR id = 5",
            "array_has(tags, 'lamp') AND id < 20",
            "cast(id AS string) = '7'",
            "NOT (id BETWEEN 3 AND 236)",
        ]
        found = [sorted(ids(start(side, "Query").where(one).limit(300).to_list())) for one in several]
        return found, fails(lambda: start(side, "Query").where("no_such_column = 1").to_list())

    @case("VectorQuery.where", "VectorQuery.distance_type", "VectorQuery.limit", "VectorQuery.offset")
    def vector_search(side):
        found = []
        for metric in ("l2", "cosine", "dot"):
            found.append(start(side, "VectorQuery").distance_type(metric).where("id > 50").limit(12).offset(3).to_list())
        wrong = fails(lambda: (side.shared("plain").vector_search([1.0] * 3) if side.is_async else side.shared("plain").search([1.0] * 3)).limit(2).to_list())
        return found, wrong

    @case("VectorQuery.where")
    def postfilter(side):
        asked = start(side, "VectorQuery")
        asked = asked.where("id > 120").postfilter() if side.is_async else asked.where("id > 120", prefilter=False)
        return asked.limit(20).to_list()

    @case("VectorQuery.limit")
    def many_vectors(side):
        several = [vector(3), vector(70), vector(11)]
        plain = side.shared("plain")
        asked = plain.query().nearest_to(several) if side.is_async else plain.search(several)
        rows = asked.limit(4).select(["id"]).to_list()
        return sorted((row["query_index"], row["_distance"], row["id"]) for row in rows)

    @case("VectorQuery.nprobes", "VectorQuery.refine_factor", "VectorQuery.distance_range", "VectorQuery.bypass_vector_index")
    def through_an_index(side):
        asked = lambda: start(side, "VectorQuery", "indexed")
        probed = asked().nprobes(4).refine_factor(2).limit(10).to_list()
        bounded = asked().nprobes(4).distance_range(1.0, 9.0).limit(10).to_list()
        return probed, bounded, asked().bypass_vector_index().limit(10).to_list()

    queries = {
        "match": MatchQuery("river stone", "text"),
        "and": MatchQuery("river stone", "text", operator=FullTextOperator.AND, boost=2.0),
        "fuzzy": MatchQuery("rivver", "text", fuzziness=1),
        "phrase": PhraseQuery("river stone", "text"),
        "boost": BoostQuery(MatchQuery("river", "text"), MatchQuery("lamp", "text"), negative_boost=0.2),
        "multi": MultiMatchQuery("river", ["text"]),
        "boolean": BooleanQuery([(Occur.MUST, MatchQuery("river", "text")), (Occur.MUST_NOT, MatchQuery("copper", "text"))]),
    }
    for title, asked in queries.items():

        def structured(side, asked=asked):
            searchable = side.shared("searchable")
            found = searchable.query().nearest_to_text(asked) if side.is_async else searchable.search(asked, query_type="fts")
            return in_order("FtsQuery", found.limit(300).to_list())

        case("FtsQuery.limit")(structured)

    @case("FtsQuery.where", "FtsQuery.select")
    def filtered_text(side):
        return in_order("FtsQuery", start(side, "FtsQuery").where("id > 100").select(["id", "text"]).limit(300).to_list())

    @case("HybridQuery.rerank", "HybridQuery.where")
    def hybrid(side):
        asked = lambda: start(side, "HybridQuery").where("id < 200").limit(10)
        return ids(asked().rerank(LinearCombinationReranker(0.7)).to_list()), sorted(ids(asked().to_list()))
