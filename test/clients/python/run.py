"""Runs clients that nobody here wrote against a service, and reports each of their methods in a line.

    python run.py [program …]      all programs, or those that are named
"""
import os

# Before the clients are loaded: their engine writes warnings that say nothing of the service.
os.environ.update(LANCE_LOG="error", LANCEDB_LOG="error", RUST_LOG="error", RUST_BACKTRACE="0")
# Many threads of numpy wait for each other where cores are few.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import subprocess
import sys
import tempfile
import time
import warnings

from service import NODE, REPOSITORY, Service

PROGRAMS = ("lancedb-sync", "lancedb-async", "lancedb-node", "generated", "pylance", "java", "managed", "databases", "documents", "frameworks", "schemathesis")


def lines_of(program, service):
    """The title of a program, and a line for each method."""
    if program == "lancedb-node":
        return "LanceDB SDK for Node", node_lines(service)
    if program == "managed":
        from managed import managed_lines

        return "Commits of pylance and LanceDB through the service (managed_versioning)", managed_lines()
    if program == "databases":
        from databases import TITLE, databases_lines

        return TITLE, databases_lines(service)
    if program == "documents":
        from documents import documents_lines

        return "Documents with real embeddings, from end to end", documents_lines(service)
    if program == "frameworks":
        from frameworks import framework_lines

        # Haystack looks for its table among the first ten names: other programs leave more.
        with Service() as own:
            return "Frameworks: haystack and dlt", framework_lines(own)
    if program == "schemathesis":
        from described import described_lines

        return "Schemathesis, by the service's own document", described_lines(service)
    cases, ours, theirs = cases_of(program, service)
    return cases.title, cases.run(ours, theirs)


def node_lines(service):
    command = [NODE, REPOSITORY / "test/clients/node/run.ts", service.url, service.api_key, tempfile.mkdtemp(dir=service.folder)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return json.loads(ran.stdout) if ran.returncode == 0 else [("the program", "FAILS", f"it ended with {ran.returncode}")]


def cases_of(program, service):
    if program.startswith("lancedb"):
        from lancedb_cases import lancedb_cases
        from lancedb_sides import databases

        is_async = program == "lancedb-async"
        ours, theirs = databases(service, is_async)
        return lancedb_cases(is_async), ours.side, theirs.side
    import namespace_cases
    import namespace_sides

    if program == "java":
        from java_client import java_clients

        ours, theirs = java_clients(service, os.environ["LANCEGATE_JAVA_CLIENT"])
        cases = namespace_cases.java_cases(ours.operations)
        return cases, namespace_sides.side_of(ours), namespace_sides.side_of(theirs)
    if program in ("generated", "pylance"):
        cases = getattr(namespace_cases, f"{program}_cases")()
        return cases, *getattr(namespace_sides, f"{program}_clients")(service)
    raise SystemExit(f"there is no program {program}")


def report(title, lines, seconds):
    """Prints a line for each method; how many there are, and how many fail."""
    print(f"\n## {title}")
    for name, state, text in lines:
        print(f"{state:8}{name}{': ' if text else ''}{text}")
    counts = {state: sum(1 for line in lines if line[1] == state) for state in ("ok", "refused", "FAILS")}
    print(f"{counts['ok']} ok, {counts['refused']} refused on purpose, {counts['FAILS']} fail ({seconds:.0f} s)", flush=True)
    return len(lines), counts["FAILS"]


def main(programs):
    warnings.simplefilter("ignore")
    counts = []
    with Service() as service:
        for program in programs:
            started = time.monotonic()
            title, lines = lines_of(program, service)
            counts.append(report(title, lines, time.monotonic() - started))
        if service.process.poll() is not None:
            print(f"the service ended: {service.words()}")
            counts.append((1, 1))
    every, failed = (sum(column) for column in zip(*counts))
    print(f"\n{every - failed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    chosen = sys.argv[1:] or [program for program in PROGRAMS if program != "java" or os.environ.get("LANCEGATE_JAVA_CLIENT")]
    sys.exit(main(chosen))
