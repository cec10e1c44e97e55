"""The JSON API under /api/v1, for mail programs and scripts, and its OpenAPI document.

An operation is declared once: its schemas check requests, and are part of the document. The API has the
actions of the page; a program identifies itself by `Authorization: Bearer` (see `security`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tamis_mail.catalog import CatalogError, read_message
from tamis_mail.message import canonical, digest
from tamis_mail.store.log import EventLog
from tamis_mail.surfaces.web import actions
from tamis_mail.surfaces.web.context import Context
from tamis_mail.surfaces.web.imports import receive_import
from tamis_mail.surfaces.web.mail import describe_similar, find_page, read_json
from tamis_mail.surfaces.web.schemas import Schema, find_fault, read_parameter
from tamis_mail.surfaces.web.threads import Connections
from tamis_mail.verdict import Verdict

_ROOT = "/api/v1"
_MAX_EVIDENCE = 100  # pieces of evidence in an answer
_MAX_EVENTS = 500  # events in an answer
_MAX_EVENT = 1 << 53  # the largest number of an event; JavaScript has no larger exact integers
# The types of bodies.
_BYTES = "application/octet-stream"
_MESSAGE = "message/rfc822"
_JSON = "application/json"

_DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{32}$", "description": "identifies a message"}
_DIGESTS: Schema = {"type": "array", "items": _DIGEST, "minItems": 1, "maxItems": actions.MAX_MESSAGES}
# A number from 0 to 4 as Python writes it, such as 0.050000000000000044 or 1e-05.
_DOUBT = r"([0-3]\.[0-9]{1,20}|[0-9](\.[0-9]{1,17})?e-[0-9]{2,3})"
# A position in the list of messages: the doubt, the age and the number of a row of the catalog.
_CURSOR: Schema = {"type": "string", "pattern": f"^{_DOUBT},-?[0-9]{{1,15}},[1-9][0-9]{{0,15}}$"}
_LABEL: Schema = {"type": "string", "enum": ["spam", "ham"]}
_LABEL_OR_NONE: Schema = {"type": "string", "enum": ["spam", "ham", "none"]}
_RANGE = "[0-9]{1,15}(-[0-9]{1,15})?"
_RANGES: Schema = {"type": "string", "pattern": f"^{_RANGE}(,{_RANGE}){{0,99}}$"}
_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_INTEGER: Schema = {"type": "integer"}
_BOOLEAN: Schema = {"type": "boolean"}


def _object_schema(**properties: Schema) -> Schema:
    """Return the schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list_schema(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _nullable(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


# The schemas of answers, and of their parts.
_ERROR = _object_schema(error=_TEXT)
_COUNTS: Schema = {"type": "object", "additionalProperties": _INTEGER}  # numbers of messages by label
_STATUS = _object_schema(version=_TEXT, labels=_COUNTS, verdicts=_COUNTS)
_LISTED_MESSAGE = _object_schema(
    digest=_DIGEST,
    sender=_TEXT,
    subject=_TEXT,
    date=_INTEGER,
    size=_INTEGER,
    verdict=_TEXT,
    probability=_nullable(_NUMBER),
    stale=_BOOLEAN,  # whether there is no verdict, or something was learned after it
    label=_TEXT,
)
# The fields of `Evidence`; `spam` and `ham` are the numbers of messages that have the token.
_EVIDENCE = _object_schema(token=_TEXT, view=_TEXT, contribution=_NUMBER, spam=_NUMBER, ham=_NUMBER)
_VERDICT = _object_schema(
    digest=_DIGEST,
    label=_TEXT,
    probability=_NUMBER,
    log_odds=_NUMBER,
    probabilities={"type": "object", "additionalProperties": _NUMBER},
    listed=_nullable(_TEXT),  # the entry of a list of senders that decided the verdict
    evidence=_list_schema(_EVIDENCE),
)
_RECEIPT = _object_schema(digest=_DIGEST, action=_TEXT, before=_nullable(_TEXT))  # before: the former label
_OUTCOME = _object_schema(
    sentence=_TEXT,
    events=_TEXT,  # numbers of the events that /undo takes, such as 3-5,9
    fault=_BOOLEAN,  # whether the action failed, or some messages could not be read
)
_EVENT = _object_schema(
    number=_INTEGER,
    time=_INTEGER,
    action=_TEXT,
    digest=_TEXT,
    label=_TEXT,
    before=_TEXT,
    probability=_nullable(_NUMBER),
    sender=_TEXT,
    subject=_TEXT,
    source=_TEXT,
    undoes=_INTEGER,
)
_JOB = _object_schema(
    key=_TEXT, title=_TEXT, done=_INTEGER, total=_INTEGER, remark=_TEXT, fault=_TEXT, finished=_BOOLEAN
)
_SIMILAR = _object_schema(
    digest=_DIGEST,
    label=_TEXT,
    similarity=_NUMBER,
    listed=_BOOLEAN,  # whether /messages has it
    subject=_TEXT,
    shared=_list_schema(_TEXT),
)

Values = dict[str, Any]  # the parameters of a request, and its body under "body"
Handle = Callable[[Context, Request, Values], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the API."""

    name: str
    method: str
    path: str
    summary: str
    answer: Schema  # of the body of an answer without an error
    handle: Handle
    parameters: Mapping[str, Schema] = field(default_factory=dict)  # of the query
    required: Sequence[str] = ()  # names of the parameters that must be given
    body: Schema | None = None  # of a body of JSON
    body_type: str = _JSON
    status: int = 200
    may_be_missing: bool = False  # whether the address may name a message or job that does not exist

    @property
    def path_parameters(self) -> Mapping[str, Schema]:
        """The parameters in the path."""
        known = {"digest": _DIGEST, "key": {"type": "string", "pattern": "^[0-9a-f]{16}$"}}
        return {name: schema for name, schema in known.items() if f"{{{name}}}" in self.path}


OPERATIONS: list[Operation] = []  # `_operation` adds to it


def _operation(
    name: str, method: str, path: str, summary: str, answer: Schema, **options: Any
) -> Callable[[Handle], Handle]:
    """Declare the operation that the decorated function handles; `options` are other fields of Operation."""

    def declare(handle: Handle) -> Handle:
        OPERATIONS.append(Operation(name, method, path, summary, answer, handle, **options))
        return handle

    return declare


def _describe(value: object, schema: Schema, **others: Any) -> dict[str, Any]:
    """Return the properties of a schema: those in `others`, and the attributes of the value."""
    return {name: others[name] if name in others else getattr(value, name) for name in schema["properties"]}


@_operation("readStatus", "GET", "/status", "How much was learned and judged", _STATUS)
async def _read_status(context: Context, _: Request, __: Values) -> Any:
    def read(connections: Connections) -> Any:
        return {
            "version": version("tamis"),
            "labels": {label.name: label.messages for label in connections.sieve.store.labels()},
            "verdicts": connections.catalog.count_verdicts(),
        }

    return await context.threads.read(read)


@_operation(
    "listMessages",
    "GET",
    "/messages",
    "Messages, one page at a time",
    _object_schema(messages=_list_schema(_LISTED_MESSAGE), previous=_nullable(_TEXT), next=_nullable(_TEXT)),
    parameters={
        "text": {"type": "string", "maxLength": 200},
        "verdict": {"type": "string", "enum": ["spam", "ham", "unsure", "none"]},
        "label": _LABEL_OR_NONE,
        "source": {"type": "integer", "minimum": 1, "maximum": 999_999_999},  # its number in the catalog
        "order": {"type": "string", "enum": ["doubt", "newest"]},
        "after": _CURSOR,
        "before": _CURSOR,
        "limit": {"type": "integer", "minimum": 1, "maximum": 500},
    },
)
async def _list_messages(context: Context, request: Request, values: Values) -> Any:
    limit = values.get("limit", 50)
    page = await context.threads.read(lambda connections: find_page(connections, request.query_params, limit))
    messages = [
        _describe(row, _LISTED_MESSAGE, digest=row.digest.hex(), stale=row.is_stale) for row in page["rows"]
    ]
    return {"messages": messages, "previous": page["previous"], "next": page["next"]}


@_operation(
    "explainMessage",
    "GET",
    "/messages/{digest}",
    "The verdict on a listed message, with its evidence",
    _VERDICT,
    may_be_missing=True,
)
async def _explain_message(context: Context, _: Request, values: Values) -> Any:
    message_digest = bytes.fromhex(values["digest"])

    def judge(connections: Connections) -> Any:
        return _describe_verdict(
            message_digest, connections.sieve.sort(_read_listed(connections, message_digest))
        )

    return await context.threads.read(judge)


@_operation(
    "findSimilar",
    "GET",
    "/messages/{digest}/similar",
    "Learned messages that are similar",
    _list_schema(_SIMILAR),
    may_be_missing=True,
)
async def _read_similar(context: Context, _: Request, values: Values) -> Any:
    message_digest = bytes.fromhex(values["digest"])

    def read(connections: Connections) -> Any:
        _read_listed(connections, message_digest)
        return describe_similar(connections, message_digest)

    return await context.threads.read(read)


def _read_listed(connections: Connections, message_digest: bytes) -> bytes:
    """Read a listed message, given its digest; raise HTTPException if it is not listed or cannot be read."""
    try:
        return read_message(connections.catalog, message_digest)
    except CatalogError as error:
        raise HTTPException(404, str(error)) from None


def _describe_verdict(message_digest: bytes, verdict: Verdict) -> dict[str, Any]:
    evidence = [asdict(one) for one in verdict.evidence[:_MAX_EVIDENCE]]
    probabilities = dict(verdict.probabilities)
    return _describe(
        verdict, _VERDICT, digest=message_digest.hex(), probabilities=probabilities, evidence=evidence
    )


@_operation(
    "judgeMessage", "POST", "/verdicts", "Judge a message, and log the verdict", _VERDICT, body_type=_MESSAGE
)
async def _judge(context: Context, _: Request, values: Values) -> Any:
    raw: bytes = values["body"]

    def judge(connections: Connections) -> Any:
        verdict = connections.sieve.sort(raw)
        connections.sieve.log_verdict(raw, verdict, source="web")
        connections.sieve.flush_log()
        return _describe_verdict(digest(canonical(raw)), verdict)

    return await context.threads.read(judge)


@_operation(
    "learnMessage",
    "POST",
    "/learned",
    "Learn a message under a label",
    _RECEIPT,
    parameters={"label": _LABEL},
    required=("label",),
    body_type=_MESSAGE,
)
async def _learn(context: Context, _: Request, values: Values) -> Any:
    raw, label = values["body"], values["label"]

    def learn(connections: Connections) -> Any:
        receipt = connections.sieve.learn(raw, label, source="web")
        # The catalog applies the new events of the log.
        connections.catalog.follow(EventLog.of(connections.sieve.store.path_name))
        return _describe(receipt, _RECEIPT, digest=receipt.digest.hex())

    return await context.threads.write(learn)


async def _act(context: Context, action: Callable[[Connections], actions.Outcome]) -> Any:
    """Run an action in the writer thread, and describe its outcome."""
    outcome = await context.threads.write(action)
    return _describe(outcome, _OUTCOME, events=outcome.undo.get("events", ""), fault=outcome.is_fault)


def _read_digests(values: Values) -> list[bytes]:
    return [bytes.fromhex(text) for text in values["body"]["digests"]]


@_operation(
    "labelMessages",
    "POST",
    "/labels",
    "Learn listed messages under a label, or forget them (none)",
    _OUTCOME,
    body=_object_schema(digests=_DIGESTS, label=_LABEL_OR_NONE),
)
async def _label_messages(context: Context, _: Request, values: Values) -> Any:
    digests, label = _read_digests(values), values["body"]["label"]
    if label == "none":
        return await _act(context, partial(actions.forget, digests=digests))
    return await _act(context, partial(actions.mark, digests=digests, label=label))


@_operation(
    "setSenders",
    "POST",
    "/senders",
    "Allow or block the senders of listed messages",
    _OUTCOME,
    body=_object_schema(digests=_DIGESTS, decision={"type": "string", "enum": ["allow", "block"]}),
)
async def _set_senders(context: Context, _: Request, values: Values) -> Any:
    is_allowed = values["body"]["decision"] == "allow"
    action = partial(actions.set_senders, digests=_read_digests(values), is_allowed=is_allowed)
    return await _act(context, action)


@_operation(
    "listEvents",
    "GET",
    "/events",
    "Verdicts and learning events, newest first",
    _list_schema(_EVENT),
    parameters={
        "before": {"type": "integer", "minimum": 1, "maximum": _MAX_EVENT},
        "limit": {"type": "integer", "minimum": 1, "maximum": _MAX_EVENTS},
    },
)
async def _list_events(context: Context, _: Request, values: Values) -> Any:
    before, limit = values.get("before", _MAX_EVENT), values.get("limit", 50)

    def read(connections: Connections) -> Any:
        log = EventLog.of(connections.sieve.store.path_name)
        if not log.exists():
            return []
        newest = next(log.events(), None)
        last = min(before - 1, newest.number if newest else 0)
        events = log.find_range(max(0, last - limit + 1), last)
        return [_describe(event, _EVENT, digest=event.digest.hex()) for event in events]

    return await context.threads.read(read)


@_operation(
    "undoEvents",
    "POST",
    "/undo",
    "Undo learning events, exactly",
    _OUTCOME,
    body=_object_schema(events=_RANGES),
)
async def _undo(context: Context, _: Request, values: Values) -> Any:
    try:
        ranges = actions.read_ranges(values["body"]["events"])
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    return await _act(context, partial(actions.undo, ranges=ranges))


@_operation(
    "importMailbox",
    "POST",
    "/imports",
    "Import an mbox or a message; the answer is a job",
    _JOB,
    parameters={"name": {"type": "string", "maxLength": 200}, "label": _LABEL},
    body_type=_BYTES,
    status=202,
)
async def _import_mailbox(context: Context, request: Request, values: Values) -> Any:
    job = await receive_import(context, request, values.get("name", ""), values.get("label", ""))
    return job.describe()


@_operation("readJob", "GET", "/jobs/{key}", "The progress of a job", _JOB, may_be_missing=True)
async def _read_job(context: Context, _: Request, values: Values) -> Any:
    job = context.jobs.find(values["key"])
    if job is None:
        raise HTTPException(404, "there is no such job")
    return job.describe()


def routes(context: Context) -> list[BaseRoute]:
    """Return the routes of the API, and that of its document."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    document = make_document()

    async def read_document(_: Request) -> Response:
        return JSONResponse(document)

    return [
        Route(f"{_ROOT}/openapi.json", read_document),
        *(
            Route(_ROOT + path, partial(_answer, context, operations), methods=list(operations))
            for path, operations in by_path.items()
        ),
    ]


async def _answer(context: Context, operations: Mapping[str, Operation], request: Request) -> Response:
    """Check a request by the schemas of its operation, and answer it."""
    operation = operations.get(request.method) or operations["GET"]  # HEAD is GET without the body
    values = _read_values(operation, request)
    if operation.method == "POST" and not _has_type(request, operation.body_type):
        raise HTTPException(415, f"expected a body of the type {operation.body_type}")
    if operation.body is not None:
        values["body"] = await read_json(request)
        if fault := find_fault(values["body"], operation.body):
            raise HTTPException(400, fault)
    elif operation.body_type == _MESSAGE:
        values["body"] = await request.body()
        if not values["body"]:
            raise HTTPException(400, "the body is empty, expected a message")
    return JSONResponse(await operation.handle(context, request, values), operation.status)


def _has_type(request: Request, expected: str) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == expected


def _read_values(operation: Operation, request: Request) -> Values:
    """Read the parameters of a request from its path and its query; raise HTTPException if one is wrong."""
    values: Values = {}
    for name, schema in operation.path_parameters.items():
        values[name] = request.path_params[name]
        if find_fault(values[name], schema):
            raise HTTPException(404, f"there is no such {'message' if name == 'digest' else 'job'}")
    for name, schema in operation.parameters.items():
        texts = request.query_params.getlist(name)
        if not texts and name in operation.required:
            raise HTTPException(400, f"{name} is missing")
        if len(texts) > 1:
            raise HTTPException(400, f"{name} is given {len(texts)} times, expected once")
        if texts:
            values[name] = read_parameter(texts[0], schema)
            if fault := find_fault(values[name], schema, name):
                raise HTTPException(400, fault)
    return values


def make_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(_ROOT + operation.path, {})[operation.method.lower()] = _describe_operation(
            operation
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "tamis", "version": version("tamis"), "summary": "A personal spam filter"},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


def _describe_operation(operation: Operation) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in operation.path_parameters.items()
    ]
    parameters += [
        {"name": name, "in": "query", "required": name in operation.required, "schema": schema}
        for name, schema in operation.parameters.items()
    ]
    errors = {"400": "The request is not as described", "401": "No session and no token"}
    errors |= {"403": "A change that does not come from the page", "409": "The store cannot be used now"}
    if operation.may_be_missing:
        errors["404"] = "There is no such message or job"
    if operation.method == "POST":
        errors |= {"413": "The body is too large", "415": "The body is of another type"}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            str(operation.status): {
                "description": operation.summary,
                "content": {_JSON: {"schema": operation.answer}},
            },
            **{
                status: {"description": sentence, "content": {_JSON: {"schema": _ERROR}}}
                for status, sentence in errors.items()
            },
        },
    }
    if operation.method == "POST":
        schema = (
            operation.body
            if operation.body is not None
            else {"type": "string", "format": "binary", "minLength": 1}
        )
        described["requestBody"] = {"required": True, "content": {operation.body_type: {"schema": schema}}}
    return described
