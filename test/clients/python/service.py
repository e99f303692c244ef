"""The service as users start it: a process of its own, on a free port, with data of its own and a token for everything."""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyarrow as pa

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = REPOSITORY / "bin" / "lancegate.js"
NODE = REPOSITORY / "node_modules" / ".bin" / "node"


class Service:
    """Runs from `with Service() as service` to the end of the block. Its data goes when it does. `flags` are those of `serve`, and
    `env` has further variables."""

    def __init__(self, *flags, env=None):
        self.flags = flags
        self.env = env or {}

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lancegate-clients-"))
        self.log = open(self.folder / "service.log", "wb")
        data = self.folder / "data"
        self.data = data
        self.token = self.token_of("lancegate:admin")
        key = self._say("api-key", "create", "--subject", "tester", "--scope", "lancegate:admin", "--allow-unknown", "--data", data)
        self.api_key = re.search(r"lgk_\S+", key).group(0)
        serve = [NODE, PROGRAM, "serve", "--port", "0", "--data", data, "--log-level", "warn", *self.flags]
        self.process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=self.log, env={**environment(), **self.env})
        for line in self.process.stdout:
            found = re.search(rb'listening on ([^\s\"]+)', line)
            if found:
                self.url = found.group(1).decode()
                return self
        raise RuntimeError(f"the service did not start: {self.words()}")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def token_of(self, scope):
        return self._say("token", "--subject", "tester", "--scope", scope, "--allow-unknown", "--data", self.data)

    def words(self):
        """The end of what it wrote."""
        return (self.folder / "service.log").read_text(errors="replace")[-4000:]

    def _say(self, *arguments):
        command = [NODE, PROGRAM, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment()).stdout.strip()


def environment():
    """Without the LANCEGATE_* variables of the user who runs this."""
    return {"PATH": os.environ["PATH"]}


def stream(table):
    """An Arrow IPC stream of a table, as the generated clients want it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
