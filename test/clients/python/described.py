"""Schemathesis makes requests of the service's own document, and checks every answer by it.

Each run has a time, so that all of them are done within a minute. SCHEMATHESIS_SEED repeats one.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import requests

from schemathesis_hooks import ARROW, people
from service import stream

FOLDER = Path(__file__).parent

# What a run is called, the scope of its token, whether its requests are about what there is, and its seconds.
RUNS = (
    ("anything, by an admin", "lancegate:admin", False, 11),
    ("what there is, by an admin", "lancegate:admin", True, 11),
    ("what there is, by a writer", "lancegate:write", True, 6),
    ("what there is, by a reader", "lancegate:read", True, 6),
)

# These leave nothing to ask about.
ENDING = ("DropTable", "DeregisterTable", "RenameTable", "DropTableIndex", "DeleteFromTable")


def described_lines(service):
    seed(service)
    return [line(service, *run) for run in RUNS]


def seed(service):
    """A table, and a namespace of the same name."""
    post(service, "table/people/create", data=stream(people), headers={"Content-Type": ARROW})
    post(service, "namespace/people/create")
    post(service, "table/people/create_scalar_index", json={"column": "id", "index_type": "BTREE", "name": "id_idx"})
    post(service, "table/people/tags/create", json={"tag": "first", "version": 1})
    post(service, "table/people/branches/create", json={"name": "dev"})


def post(service, path, headers=None, **body):
    credential = {"Authorization": f"Bearer {service.token}"}
    requests.post(f"{service.url}/v1/{path}", headers={**credential, **(headers or {})}, **body).raise_for_status()


def line(service, name, scope, is_about_what_there_is, seconds):
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", config(service, is_about_what_there_is)),
            *("run", f"{service.url}/openapi.json", "-H", f"Authorization: Bearer {service.token_of(scope)}"),
            *("--phases", "examples,coverage,fuzzing", "--max-time", str(seconds), "--continue-on-failure"),
            *("--seed", os.environ.get("SCHEMATHESIS_SEED", "19"), "--workers", "1", "--no-color"),
        ],
        cwd=service.folder,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(FOLDER)},
        capture_output=True,
        text=True,
    )
    cases = re.search(r"(\d+) generated", ran.stdout)
    if ran.returncode == 0 and cases is not None:
        return name, "ok", f"{cases[1]} requests"
    return name, "FAILS", f"\n{ran.stdout[-8000:]}\n{ran.stderr[-2000:]}"


def config(service, is_about_what_there_is):
    """The file of the settings: for what there is, with the names of it."""
    text = (FOLDER / "schemathesis.toml").read_text()
    if is_about_what_there_is:
        names = '"path.id" = "people"\n"path.index_name" = "id_idx"\n"query.delimiter" = "$"\n'
        text = text.replace("[parameters]\n", f"[parameters]\n{names}")
        listed = ", ".join(f'"{name}"' for name in ENDING)
        text += f'\n[[operations]]\ninclude-operation-id = [{listed}]\nparameters = {{ "path.id" = "gone" }}\n'
    file = service.folder / "schemathesis.toml"
    file.write_text(text)
    return str(file)
