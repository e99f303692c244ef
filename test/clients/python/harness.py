"""Runs the same small programs against the service and against a peer that needs none, and compares what they return.

A case names the methods that it is about, and fails if it does not call them. A method of a watched class that no case
names fails, so that a new version of a client shows what it added. A refusal names its reason, and fails once the
method works.
"""
import asyncio
import dataclasses
import datetime
import enum
import inspect
import math
import re
import traceback

import pyarrow as pa


def methods_of(*classes):
    """The public names of classes, those that are inherited included."""
    return {name for owner in classes for name in dir(owner) if not name.startswith("_")}


class Failure(Exception):
    """Says what is wrong in one line."""


@dataclasses.dataclass
class Case:
    number: int
    names: tuple
    act: object
    refused: str | None = None
    says: tuple = ()
    alone: bool = False


class Cases:
    """What is tried of one client. `watched` has the classes of each kind, as they are with the service."""

    def __init__(self, title, watched):
        self.title = title
        self.watched = watched
        self.cases = []

    def case(self, *names, alone=False):
        """`alone`: the peer cannot do it, so the case itself says what must come out."""

        def add(act):
            self.cases.append(Case(len(self.cases), names, act, alone=alone))
            return act

        return add

    def refused(self, name, reason, act, says=("406", "not supported")):
        """Refused on purpose: by the service (406), or by the client itself; then its error says one of these."""
        self.cases.append(Case(len(self.cases), (name,), act, refused=reason, says=says))

    def run(self, ours, theirs):
        """Lines of the report: (name, state, text). `ours` and `theirs` make a side for a case."""
        lines = []
        for case in self.cases:
            state, text = run_case(case, ours, theirs)
            lines += [(name, state, text) for name in case.names]
        tried = {name for case in self.cases for name in case.names}
        every = {f"{kind}.{name}" for kind, classes in self.watched.items() for name in methods_of(*classes)}
        lines += [(name, "FAILS", "no case tries it") for name in sorted(every - tried)]
        lines += [(name, "FAILS", "there is no such method") for name in sorted(tried - every)]
        return merged(lines)


def merged(lines):
    """One line a name: a failure hides what works."""
    worst = {}
    for name, state, text in lines:
        if name not in worst or (worst[name][0] != "FAILS" and state == "FAILS"):
            worst[name] = (state, text)
    return [(name, *worst[name]) for name in sorted(worst)]


def run_case(case, ours, theirs):
    side = ours(case)
    got, error = outcome(case, side)
    if error is None and case.refused is not None:
        return "FAILS", f"it is listed as refused ({case.refused}), and it answered {short(got)}"
    if not all(name in side.seen for name in case.names):
        return "FAILS", "the case does not call it" if error is None else said(error)
    if case.refused is not None:
        return refusal(case, error)
    if case.alone:
        return ("ok", "") if error is None else ("FAILS", said(error))
    expected, peer_error = outcome(case, theirs(case))
    if error is not None and is_unfinished(error) and type(error) is type(peer_error):
        return "refused", "the client has not implemented it for any database"
    if error is not None:
        return "FAILS", said(error)
    if peer_error is not None:
        return "FAILS", f"the peer: {said(peer_error)}"
    difference = compare(plain(got), plain(expected))
    return ("ok", "") if difference is None else ("FAILS", difference)


def outcome(case, side):
    try:
        return case.act(side), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # A panic of native code is no Exception.
        return None, error


def is_unfinished(error):
    return isinstance(error, NotImplementedError) or type(error).__name__ == "PanicException"


def refusal(case, error):
    text = str(error)
    if isinstance(error, NotImplementedError):
        return "refused", f"{case.refused} (by the client itself)"
    if not any(word.lower() in text.lower() for word in case.says):
        return "FAILS", f"it is not refused as it should be: {said(error)}"
    return "refused", f"{case.refused} ({'406' if '406' in text or 'this service' in text else 'by the client itself'})"


def said(error):
    if isinstance(error, Failure):
        return f"{error}{place(error)}"
    return f"{type(error).__name__}: {first_line(error)}{place(error)}"


ANSWER = re.compile(r'(\d{3}) [A-Z][a-zA-Z ]+: .*"instance":"([^"]*)","error":"((?:[^"\\\\]|\\\\.)*)"')


def first_line(error):
    """Of an answer of the service only what differs between answers."""
    text = " ".join(str(error).split())
    answer = ANSWER.search(text)
    if answer:
        text = f"{answer[1]} {answer[2]}: {answer[3]}"
    elif "HTTP response body: " in text:  # The generated client shows all headers before it.
        text = f"{text[:5]} {text.split('HTTP response body: ', 1)[1]}"
    return text if len(text) <= 240 else f"{text[:240]}…"


def place(error):
    """Where in the cases it happened."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/clients/python/" in frame.filename]
    own = [frame for frame in frames if not frame.filename.endswith("harness.py")]
    return f" [{own[-1].filename.split('/')[-1]}:{own[-1].lineno}]" if own else ""


def short(value):
    text = " ".join(repr(value).split())
    return text if len(text) < 120 else f"{text[:120]}…"


def expect(truth, text):
    if not truth:
        raise Failure(text)


def equal(got, expected, what="the result"):
    difference = compare(plain(got), plain(expected))
    if difference is not None:
        raise Failure(f"{what}: {difference}")


def fails(act, *words):
    """That it fails, and says the words. Returns 'failed', so that both sides compare equal."""
    try:
        act()
    except Exception as error:
        text = str(error)
        missing = [word for word in words if word.lower() not in text.lower()]
        if missing:
            raise Failure(f"the error does not say {missing}: {first_line(error)}") from error
        return "failed"
    raise Failure("it should have failed")


class Watched:
    """Stands before an object of a client, notes what is asked of it, and waits for what is asynchronous."""

    def __init__(self, target, side):
        self.__dict__.update(_target=target, _side=side, _kind=side.kind_of(target))

    def __getattr__(self, name):
        side = self._side
        side.seen.add(f"{self._kind}.{name}")
        value = getattr(self._target, name)
        if not inspect.isroutine(value):
            return side.watch(value)

        def call(*arguments, **named):
            arguments = [unwatched(argument) for argument in arguments]
            named = {key: unwatched(argument) for key, argument in named.items()}
            return side.watch(side.wait(value(*arguments, **named)))

        return call() if f"{self._kind}.{name}" in side.read_as_values else call


def unwatched(value):
    return value._target if isinstance(value, Watched) else value


class Side:
    """One of the two databases of a case."""

    def __init__(self, kinds, loop=None, read_as_values=()):
        self.kinds = kinds
        self.loop = loop
        self.read_as_values = read_as_values
        self.seen = set()

    def kind_of(self, target):
        return next((kind for kind, classes in self.kinds.items() if type(target) in classes), None)

    def watch(self, value):
        return value if self.kind_of(value) is None else Watched(value, self)

    def wait(self, value):
        if not inspect.isawaitable(value):
            return value
        if self.loop is None:
            return asyncio.run(value)

        async def waited():
            return await value

        return self.loop.run_until_complete(waited())


def plain(value):
    """What is compared: dicts, lists and scalars."""
    if isinstance(value, Watched):
        return plain(value._target)
    if value is None or isinstance(value, (bool, int, float, str, bytes)) and not isinstance(value, enum.Enum):
        return value
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, pa.Table):
        return {"columns": plain(value.schema), "rows": plain(value.to_pylist())}
    if isinstance(value, pa.Schema):
        return [f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in value]
    if isinstance(value, dict):
        if all(isinstance(key, bytes) for key in value):
            return {key.decode(): plain(value[key]) for key in sorted(value)}
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if hasattr(value, "to_pylist"):
        return plain(value.to_pylist())
    if type(value).__name__ == "DataFrame":
        return plain(value.to_arrow() if hasattr(value, "to_arrow") else pa.Table.from_pandas(value))
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    names = [name for name in dir(value) if not name.startswith("_")]
    return {name: plain(item) for name in names if not callable(item := getattr(value, name))}


def compare(got, expected, at=""):
    """The first difference in one line; None if there is none."""
    if isinstance(got, float) and isinstance(expected, float):
        same = math.isclose(got, expected, rel_tol=1e-4, abs_tol=1e-5) or (math.isnan(got) and math.isnan(expected))
        return None if same else f"{at or 'it'} is {got}, the peer has {expected}"
    if isinstance(got, dict) and isinstance(expected, dict):
        if list(got) != list(expected):
            return f"{at or 'it'} has {list(got)}, the peer {list(expected)}"
        return first(compare(got[key], expected[key], f"{at}.{key}") for key in got)
    if isinstance(got, list) and isinstance(expected, list):
        if len(got) != len(expected):
            return f"{at or 'it'} has {len(got)} items, the peer {len(expected)}: {short(got)} / {short(expected)}"
        return first(compare(a, b, f"{at}[{index}]") for index, (a, b) in enumerate(zip(got, expected)))
    if type(got) is type(expected) and got == expected:
        return None
    return f"{at or 'it'} is {short(got)}, the peer has {short(expected)}"


def first(differences):
    return next((difference for difference in differences if difference is not None), None)


def new_loop():
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop
