"""The Java client, called from here: its program in test/clients/java takes a call a line."""
import base64
import json
import re
import subprocess

from lance_namespace_urllib3_client import models

from harness import Failure
from namespace_sides import reference_server, request_of


class JavaClient:
    """The Java client in a process of its own, which takes a call a line."""

    def __init__(self, folder, url, is_service, prefix, authorization):
        command = ["java", "-cp", f"{folder}:{folder}/lib/*", "Calls", url, authorization]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        self.operations = {snake(name) for name in json.loads(self.process.stdout.readline())}
        self.is_service = is_service
        self.prefix = prefix

    def call(self, operation, id, body, fields):
        arguments = [self.argument(operation, name, id, body, fields) for name in JAVA_ORDER.get(operation, ["id", "request", "delimiter"])]
        if fields and not any(name == "request" for name in JAVA_ORDER.get(operation, ["request"])):
            raise Failure(f"{operation} has no {sorted(fields)}")
        self.process.stdin.write(json.dumps([camel(operation), *arguments]) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"({answer['status']}) {answer['error']}")
        return self.typed(operation, answer["answer"])

    def argument(self, operation, name, id, body, fields):
        if name == "id":
            return "$".join(id) if id else "$"
        if name == "delimiter":
            return None
        if name == "body":
            return base64.b64encode(body).decode()
        if name == "request":
            named = {key: fields.pop(key) for key in list(fields) if key != "index_name"}
            # The client sends an empty identifier where none is given; the reference server takes that for another one.
            named |= {} if self.is_service or id is None else {"id": id}
            return request_of(operation, named).model_dump(by_alias=True, exclude_none=True)
        value = fields.pop(name, None)
        return value[0] if name == "on" else value

    def typed(self, operation, answer):
        if operation == "query_table":
            return base64.b64decode(answer)
        if not isinstance(answer, dict) or operation == "update_table_schema_metadata":
            return answer
        name = f"{''.join(word.capitalize() for word in operation.split('_'))}Response"
        name = {"ListAllTablesResponse": "ListTablesResponse"}.get(name, name)
        return getattr(models, name).from_dict(answer)


# What the methods of the Java client take, in their order, where it is not the identifier and a body.
PAGES = ["delimiter", "page_token", "limit"]
MERGE = "when_matched_update_all when_matched_update_all_filt when_not_matched_insert_all when_not_matched_by_source_delete"
JAVA_ORDER = {
    "create_table": ["id", "body", "delimiter", "mode", "properties", "storage_options"],
    "insert_into_table": ["id", "body", "delimiter", "mode"],
    "merge_insert_into_table": [
        *["id", "on", "body", "delimiter", *MERGE.split()],
        *["when_not_matched_by_source_delete_filt", "timeout", "use_index"],
    ],
    "describe_table": ["id", "request", "delimiter"],
    "list_tables": ["id", *PAGES, "include_declared"],
    "list_all_tables": [*PAGES, "include_declared"],
    "list_namespaces": ["id", *PAGES],
    "list_table_tags": ["id", *PAGES],
    "list_table_versions": ["id", *PAGES, "descending"],
    "describe_table_index_stats": ["id", "index_name", "request", "delimiter"],
    "drop_table_index": ["id", "index_name", "delimiter"],
    "drop_table": ["id", "delimiter"],
    "update_table_schema_metadata": ["id", "metadata", "delimiter"],
    "refresh_materialized_view": ["id", "delimiter", "request"],
    "batch_create_table_versions": ["request", "delimiter"],
    "batch_commit_tables": ["request", "delimiter"],
}


def snake(name):
    return re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", name)


def camel(name):
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def java_clients(service, folder):
    peer = reference_server(service)
    ours = JavaClient(folder, service.url, True, "java_", f"Bearer {service.token}")
    theirs = JavaClient(folder, f"http://127.0.0.1:{peer.port}", False, "java_", "none")
    theirs.server = peer
    return ours, theirs
