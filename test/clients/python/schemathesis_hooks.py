"""What Schemathesis cannot make of the document alone, Arrow streams, and cannot send, NDJSON. It loads this, see described.py."""
import pyarrow as pa
import schemathesis
from hypothesis import strategies

from service import stream

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"

people = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})
whole = strategies.sampled_from(
    [stream(people), stream(people.slice(0, 0)), stream(pa.table({"id": pa.array([4], pa.int64())}))]
)
cut_off = strategies.tuples(whole, strategies.integers(0, 600)).map(lambda drawn: drawn[0][: drawn[1]])
schemathesis.openapi.media_type(ARROW, strategies.one_of(whole, cut_off, strategies.binary(max_size=64)))


@schemathesis.serializer(ARROW, NDJSON)
def as_it_is(_context, value):
    return value if isinstance(value, bytes) else str(value).encode()
