"""Clients of the Lance REST Namespace: the generated one, and the one of pylance. Both speak to the service; the peer of the
first is the reference server of pylance on a folder, that of the second pylance's namespace on a folder."""
import inspect
import io
import tempfile

import lance.namespace
import lance_namespace_urllib3_client as generated
import pyarrow as pa
from lance_namespace_urllib3_client import models

from harness import Failure, Side
from service import stream

API_CLASSES = [owner for name, owner in inspect.getmembers(generated, inspect.isclass) if name.endswith("Api")]


def operations_of(owner):
    names = [name for name in dir(owner) if not name.startswith("_") and callable(getattr(owner, name))]
    return [name for name in names if not name.endswith(("_with_http_info", "_without_preload_content"))]


OPERATIONS = sorted({name for owner in API_CLASSES for name in operations_of(owner)})
# All operations of the generated client in one class, whichever of its classes they are in.
Generated = type("Generated", (), {name: None for name in OPERATIONS})


def request_of(operation, fields):
    name = "".join(word.capitalize() for word in operation.split("_")) + "Request"
    name = {"ListAllTablesRequest": "ListTablesRequest", "CreateTableScalarIndexRequest": "CreateTableIndexRequest"}.get(name, name)
    return getattr(models, name)(**fields)


class NamespaceSide(Side):
    """`call` makes a request of either client, and `table` a table of this case."""

    def __init__(self, client, case):
        super().__init__({})
        self.client = client
        self.is_service = client.is_service
        self.prefix = f"{client.prefix}{case.number}"
        self.made = 0

    def name(self):
        self.made += 1
        return f"{self.prefix}_{self.made}"

    def table(self, rows):
        name = self.name()
        self.call("create_table", [name], body=rows)
        return [name]

    def call(self, operation, id=None, body=None, **fields):
        self.seen.add(f"Namespace.{operation}")
        return self.client.call(operation, id, None if body is None else stream(body), fields)

    def rows(self, id, order="id", **fields):
        asked = {"k": 10_000, "vector": models.QueryTableRequestVector(single_vector=[]), **fields}
        answer = self.call("query_table", id, **asked)
        found = pa.ipc.open_file(io.BytesIO(getattr(answer, "data", answer))).read_all()
        return found if order is None else found.sort_by(order)

    def count(self, id, **fields):
        answer = self.call("count_table_rows", id, **fields)
        return answer if isinstance(answer, int) else answer.count


class GeneratedClient:
    """Its methods take the identifier, what goes into the query, and a model of the body."""

    def __init__(self, url, is_service, prefix, headers=None):
        client = generated.ApiClient(generated.Configuration(host=url, retries=False), **(headers or {}))
        self.apis = [owner(client) for owner in API_CLASSES]
        self.is_service = is_service
        self.prefix = prefix

    def call(self, operation, id, body, fields):
        method = next(getattr(api, operation) for api in self.apis if hasattr(api, operation))
        parameters = inspect.signature(method).parameters
        named = {key: fields.pop(key) for key in list(fields) if key in parameters}
        if id is not None and "id" in parameters:
            named["id"] = "$".join(id) if id else "$"
        if body is not None:
            named["body"] = body
        if "request_body" in parameters:
            named["request_body"] = fields.pop("metadata")
        request = next((name for name in parameters if name.endswith("_request")), None)
        if request is not None:
            named[request] = request_of(operation, fields)
        elif fields:
            raise Failure(f"{operation} has no {sorted(fields)}")
        return method(**named)


class PylanceClient:
    """Its methods take a model of everything, and the rows."""

    def __init__(self, client, is_service, prefix):
        self.client = client
        self.is_service = is_service
        self.prefix = prefix

    def call(self, operation, id, body, fields):
        request = request_of(operation, {"id": id, **fields})
        method = getattr(self.client, operation)
        # These take no model.
        if operation in ("batch_delete_table_versions", "describe_table_version", "create_table_version"):
            request = request.model_dump(by_alias=True, exclude_none=True)
        return method(request) if body is None else method(request, body)


def side_of(client):
    return lambda case: NamespaceSide(client, case)


def reference_server(service):
    peer = lance.namespace.RestAdapter("dir", {"root": tempfile.mkdtemp(dir=service.folder)}, port=0)
    peer.start()
    return peer


def generated_clients(service):
    peer = reference_server(service)
    bearer = {"header_name": "Authorization", "header_value": f"Bearer {service.token}"}
    ours = GeneratedClient(service.url, True, "generated_", bearer)
    theirs = GeneratedClient(f"http://127.0.0.1:{peer.port}", False, "generated_")
    theirs.server = peer  # It stops when nothing refers to it.
    return side_of(ours), side_of(theirs)


def pylance_clients(service):
    import lance_namespace

    folder = tempfile.mkdtemp(dir=service.folder)
    ours = lance_namespace.connect("rest", {"uri": service.url, "headers.Authorization": f"Bearer {service.token}"})
    theirs = lance_namespace.connect("dir", {"root": folder})
    return side_of(PylanceClient(ours, True, "pylance_")), side_of(PylanceClient(theirs, False, "pylance_"))
