"""A use from end to end: the documents of this repository, with real embeddings, are ingested by upserts from eight processes,
revised, deleted and updated, while others search by vector, text and filter. At the end a reference says what must be there."""
import datetime
import multiprocessing
import random
import re
import tempfile
import time

import numpy
import pyarrow as pa

from harness import Failure, compare, expect, said
from service import REPOSITORY

WRITERS = 8
DOCUMENTS = 128
LONGEST_SECONDS = 120
SECONDS = datetime.timedelta(seconds=60)
SHARED = 16
BATCH = 8
WIDTH = 384
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("source", pa.string()),
        pa.field("text", pa.string()),
        pa.field("words", pa.int64()),
        pa.field("revision", pa.int64()),
        pa.field("vector", pa.list_(pa.float32(), WIDTH)),
    ]
)
QUESTIONS = [
    "How do two writers of one table stay out of each other's way?",
    "What happens after a power cut?",
    "Which rights does a client need to drop a table?",
    "How large may the body of a request be?",
    "Where are API keys stored?",
    "How fast is a merge of one row?",
    "When is an old version deleted?",
    "What does an error tell about the database?",
]
WORDS = ["branch", "token", "memory", "index", "commit", "retention", "audit", "schema"]


def paragraphs():
    """Of the documents of the repository, each once."""
    found = {}
    for file in sorted((REPOSITORY / "docs").rglob("*.md")):
        for text in re.split(r"\n\s*\n", file.read_text()):
            text = " ".join(text.split())
            if 12 <= len(text.split()) <= 90 and not text.startswith(("|", "```", "#")):
                found.setdefault(text, file.name)
    return list(found.items())


def documents(model):
    """By id both revisions of each document. The second is a cut of the first."""
    chosen = random.Random(7).sample(paragraphs(), DOCUMENTS)
    texts = [text for text, _ in chosen]
    cuts = [" ".join(text.split()[: len(text.split()) // 2]) for text in texts]
    vectors, cut_vectors = model.embed(texts), model.embed(cuts)
    made = {}
    for number, (_, source) in enumerate(chosen):
        id = f"{source}#{number}"
        made[id] = [row(id, source, texts[number], 1, vectors[number]), row(id, source, cuts[number], 2, cut_vectors[number])]
    return made


def row(id, source, text, revision, vector):
    return {"id": id, "source": source, "text": text, "words": len(text.split()), "revision": revision, "vector": vector.tolist()}


def plan(known):
    """What each writer does with its documents, and what all of that leaves."""
    ids = list(known)
    shared, own = ids[:SHARED], ids[SHARED:]
    expected = {id: known[id][0] for id in ids}
    works = []
    for writer in range(WRITERS):
        mine = own[writer::WRITERS]
        work = {"own": mine, "revised": mine[::3], "deleted": mine[4::5], "counted": mine[1::4]}
        works.append(work)
        expected |= {id: known[id][1] for id in work["revised"]}
        expected |= {id: {**expected[id], "words": expected[id]["words"] * 10 + 1} for id in work["counted"]}
        for id in work["deleted"]:
            del expected[id]
    return shared, works, expected


def connected(address):
    import lancedb

    url, api_key = address
    return lancedb.connect("db://lancegate", api_key=api_key, host_override=url)


def listed(ids):
    return ", ".join(f"'{id}'" for id in ids)


def table_of(rows):
    return pa.Table.from_pylist(rows, SCHEMA)


def write(address, known, shared, work, number):
    table = connected(address).open_table("documents")
    everything = work["own"] + shared
    random.Random(number).shuffle(everything)
    upsert = lambda rows: table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(table_of(rows))
    for first in range(0, len(everything), BATCH):
        batch = everything[first : first + BATCH]
        upsert([known[id][0] for id in batch])
    for first in range(0, len(work["revised"]), BATCH):
        batch = work["revised"][first : first + BATCH]
        upsert([known[id][1] for id in batch])
        seen = table.search().where(f"id IN ({listed(batch)})").select(["id", "revision"]).limit(100).to_list()
        expect(sorted(one["id"] for one in seen) == sorted(batch), f"of {batch} a writer reads {seen}")
        expect(all(one["revision"] == 2 for one in seen), f"a writer does not read what it wrote: {seen}")
    updated = table.update(where=f"id IN ({listed(work['counted'])})", values_sql={"words": "words * 10 + 1"})
    expect(updated.rows_updated == len(work["counted"]), f"an update changed {updated.rows_updated} rows")
    table.delete(f"id IN ({listed(work['deleted'])})")
    expect(table.count_rows(f"id IN ({listed(work['deleted'])})") == 0, "deleted documents are still counted")


def check_found(known, found, asked):
    """What a search may find while others write: each document once, whole, and in one of its revisions."""
    ids = [one["id"] for one in found]
    expect(len(set(ids)) == len(ids), f"{asked} finds a document twice: {sorted(ids)}")
    for one in found:
        revision = known[one["id"]][one["revision"] - 1]
        expect(one["text"] == revision["text"], f"{asked} finds a text of another revision of {one['id']}")
        expect(one["vector"] == revision["vector"], f"{asked} finds a vector of another revision of {one['id']}")


def search(address, known, shared, way, questions, stopped):
    """Searches until all is written; how often."""
    table = connected(address).open_table("documents")
    number = 0
    while not stopped.is_set():
        number += 1
        if way == "vector":
            found = table.search(questions[number % len(questions)]).limit(10).to_list()
            distances = [one["_distance"] for one in found]
            expect(distances == sorted(distances) and found, "a vector search is not in the order of its distances")
        elif way == "text":
            found = table.search(WORDS[number % len(WORDS)], query_type="fts").limit(20).to_list()
        else:
            found = table.search().where(f"id IN ({listed(shared)}) AND words > 0").limit(100).to_list()
            expect(len(found) == len(shared), f"a filter finds {len(found)} of {len(shared)} documents")
        check_found(known, found, f"the search by {way}")
    return number


def run_in_process(answers, name, act, arguments):
    try:
        answers.put((name, None, act(*arguments)))
    except BaseException as error:
        answers.put((name, said(error), None))


def documents_lines(service):
    """Lines of the report, one for each part of the use."""
    lines = []
    try:
        for name, text in use(service):
            lines.append((name, "ok", text))
    except Exception as error:
        lines.append(("the use from end to end", "FAILS", said(error)))
    return lines


def use(service):
    from minilm import MiniLm

    started = time.monotonic()
    model = MiniLm(64)
    known = documents(model)
    questions = model.embed(QUESTIONS)
    shared, works, expected = plan(known)
    yield "documents with real embeddings", f"{len(known)} in {time.monotonic() - started:.0f} s"

    from lancedb.index import BTree, FTS, IvfFlat

    address = (service.url, service.api_key)
    table = connected(address).create_table("documents", table_of([known[id][0] for id in shared]))
    table.create_index("text", config=FTS())
    table.create_index("id", config=BTree())
    table.wait_for_index(["text_idx", "id_idx"], SECONDS)
    yield "a full-text index and one on the key", ""

    context = multiprocessing.get_context("spawn")
    answers, stopped = context.Queue(), context.Event()
    begin = lambda name, act, *arguments: context.Process(target=run_in_process, args=(answers, name, act, arguments))
    searchers = {way: begin(way, search, address, known, shared, way, questions.tolist(), stopped) for way in ("vector", "text", "filter")}
    writers = {number: begin(number, write, address, known, shared, work, number) for number, work in enumerate(works)}
    try:
        for process in [*searchers.values(), *writers.values()]:
            process.start()
        wrong = [problem for _, problem, _ in (answers.get(timeout=LONGEST_SECONDS) for _ in writers) if problem]
        table.create_index("vector", config=IvfFlat(num_partitions=4, distance_type="l2"))
        stopped.set()
        found = {name: (problem, times) for name, problem, times in (answers.get(timeout=LONGEST_SECONDS) for _ in searchers)}
        wrong += [f"{name}: {problem}" for name, (problem, _) in found.items() if problem]
    finally:
        for process in [*searchers.values(), *writers.values()]:
            process.terminate()
    if wrong:
        raise Failure(wrong[0])
    yield "eight processes upsert, revise, update and delete", ""
    yield "three others search meanwhile", ", ".join(f"{times} by {name}" for name, (_, times) in found.items())
    yield from check_end(service, table, expected, questions)


def check_end(service, table, expected, questions):
    import lance
    import lancedb
    from lancedb.index import FTS

    table.wait_for_index(["vector_idx"], SECONDS)
    rows = [expected[id] for id in sorted(expected)]
    by_id = lambda found: sorted(found.to_pylist(), key=lambda one: one["id"])
    same = lambda found, what: raise_difference(compare(found, rows, what))
    same(by_id(table.search().limit(10_000).to_arrow()), "what the service answers")
    same(by_id(lance.dataset(table.uri).to_table()), "what is stored")
    yield "every row is as the reference says", f"{len(rows)} rows"

    vectors = numpy.array([one["vector"] for one in rows], "float32")
    for question in questions:
        nearest = numpy.argsort(((vectors - question) ** 2).sum(1))[:10]
        for asked in (table.search(question).nprobes(4), table.search(question).bypass_vector_index()):
            ids = [one["id"] for one in asked.limit(10).to_list()]
            expect(ids == [rows[index]["id"] for index in nearest], f"a vector search finds {ids}")
    yield "searches by vector find the nearest", ""

    peer = lancedb.connect(tempfile.mkdtemp(dir=service.folder)).create_table("documents", table_of(rows))
    peer.create_index("text", config=FTS())
    for word in WORDS:
        ids = [sorted(one["id"] for one in place.search(word, query_type="fts").limit(500).to_list()) for place in (table, peer)]
        expect(ids[0] == ids[1], f"a search for {word} finds {ids[0]}, the reference {ids[1]}")
    yield "searches by text find what an embedded database finds", ""

    for filter in ("words > 100", "revision = 2 AND source LIKE 'a%'", "length(text) < 200"):
        counts = table.count_rows(filter), peer.count_rows(filter)
        expect(counts[0] == counts[1], f"{filter} counts {counts}")
    hybrid = table.search(query_type="hybrid").vector(questions[0]).text("branch").limit(5).to_list()
    expect(len({one["id"] for one in hybrid}) == 5, f"a hybrid search finds {len(hybrid)}")
    yield "filters and hybrid searches too", ""


def raise_difference(difference):
    if difference is not None:
        raise Failure(difference)
