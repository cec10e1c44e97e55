"""The rows of a store on a Redis or Valkey server, under these keys, `name` being that of the store:

    tamis:{name}:head      its position (`version`, the number of commits, and `token`, the random id of the
                           last one), its `format`, the version before the first commit of the log (`first`),
                           and the bytes of the log (`log_bytes`)
    tamis:{name}:rows      a hash: the key of a row → its value
    tamis:{name}:log       a list of the last commits: the id of the commit before each, and its changes
    tamis:{name}:writer    the lock: the writer that holds it
    tamis:{name}:new:…     the rows of a commit while they are sent

The name in braces is the hash tag of these keys: a Redis cluster stores keys with the same tag on one server.
A commit is one Lua script, which the server runs without interruption: it checks that its client still holds
the lock, and changes rows, log and position. A client that lost the answer sends the script again. If the
commit is the last one or in the log, the script then answers "committed" and changes nothing.

The lock names the connection of its holder. If that connection was closed, the next writer takes over the
lock at once. A holder that sends no rows for a minute loses the lock, and its commit is refused.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from secrets import token_bytes, token_hex
from typing import TYPE_CHECKING, Any

from tamis_mail.locations import Address
from tamis_mail.store.database import MIGRATIONS, StoreError
from tamis_mail.store.shared_rows import (
    BUSY,
    COMMIT_ID_BYTES,
    DELETED,
    MISSING,
    NEWER,
    UNREACHABLE,
    Changes,
    Position,
    Progress,
    decode_changes,
    encode_changes,
    require_driver,
)

if TYPE_CHECKING:
    from redis import Redis

_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
_RETRIES = 6  # attempts to reconnect, with pauses of seven seconds in all: enough for a server restart
_LOCK_SECONDS = 60  # a holder that sends no rows for this long loses the lock
_STAGED_SECONDS = 3600  # rows that were sent, but not committed within this time, are deleted
_PART_BYTES = 1 << 20  # bytes of rows that are sent at once
# Largest size of the log; a replica that lacks a commit which is not in the log reads all rows. A commit of
# more than half of this size is not logged, and empties the log.
_LOG_BYTES = 32 << 20
_SCAN = 2000  # about how many rows are read at once
_FORMAT = max(MIGRATIONS)  # the name of the newest migration of the schema of stores; names sort by age

# HSETNX sets a field that is not there yet. EX (`ex`): after so many seconds, the value is deleted. With NX
# (`nx`), SET does nothing if there is a value.
_CREATE = """
    if redis.call('HSETNX', KEYS[1], 'token', ARGV[1]) == 1 then
        redis.call('HSET', KEYS[1], 'version', 0, 'first', 0, 'log_bytes', 0, 'format', ARGV[2])
        redis.call('DEL', KEYS[2], KEYS[3])
    end
    return redis.call('HMGET', KEYS[1], 'version', 'token', 'format')
"""
_CHANGES = """
    local head = redis.call('HMGET', KEYS[1], 'version', 'token', 'first')
    if not head[1] then return false end
    local version, first, since = tonumber(head[1]), tonumber(head[3]), tonumber(ARGV[1])
    if since > version or since < first then return false end
    if since == version then
        if head[2] ~= ARGV[2] then return false end
        return {head[1], head[2], {}}
    end
    local commits = redis.call('LRANGE', KEYS[2], since - first, -1)
    if string.sub(commits[1], 1, #ARGV[2]) ~= ARGV[2] then return false end
    return {head[1], head[2], commits}
"""
_TAKE_OVER = """
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
        return 1
    end
    return 0
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
# In Lua, integers are exact up to 2**53, and versions and sizes are far smaller. `entry` is added to the log;
# it is empty if the commit is too large. `unpack` returns at most about 8,000 values; 2000 is even, because
# keys and values alternate in `staged`.
_COMMIT = """
    local head, rows, log, lock, staged, deleted = unpack(KEYS)
    local holder, version, id, next_id, entry, format, log_bytes = unpack(ARGV)
    local present = redis.call('HMGET', head, 'version', 'token', 'format')
    if present[2] == next_id then return 'committed' end
    if redis.call('GET', lock) ~= holder then
        local index = version + 1 - redis.call('HGET', head, 'first')
        local following = index >= 0 and redis.call('LINDEX', log, index)
        if following and string.sub(following, 1, #next_id) == next_id then return 'committed' end
        return 'lock'
    end
    if present[1] ~= version or present[2] ~= id then return 'changed' end
    local size = redis.call('LLEN', staged)
    for start = 0, size - 1, 2000 do
        redis.call('HSET', rows, unpack(redis.call('LRANGE', staged, start, start + 1999)))
    end
    size = redis.call('LLEN', deleted)
    for start = 0, size - 1, 2000 do
        redis.call('HDEL', rows, unpack(redis.call('LRANGE', deleted, start, start + 1999)))
    end
    redis.call('HINCRBY', head, 'version', 1)
    redis.call('HSET', head, 'token', next_id)
    if present[3] < format then redis.call('HSET', head, 'format', format) end
    if entry == '' then
        redis.call('DEL', log)
        redis.call('HSET', head, 'first', redis.call('HGET', head, 'version'), 'log_bytes', 0)
    else
        redis.call('RPUSH', log, entry)
        local bytes = redis.call('HINCRBY', head, 'log_bytes', #entry)
        while bytes > tonumber(log_bytes) do
            bytes = redis.call('HINCRBY', head, 'log_bytes', -#redis.call('LPOP', log))
            redis.call('HINCRBY', head, 'first', 1)
        end
    end
    redis.call('DEL', lock, staged, deleted)
    return 'committed'
"""


def connect(address: Address) -> "RedisRows":
    """Connect to the server of a store."""
    require_driver("redis", address, extra="redis")
    return RedisRows(address)


class RedisRows:
    """The rows of one store on a Redis or Valkey server. `shared_rows.SharedRows` describes the methods."""

    def __init__(self, address: Address) -> None:
        self._name = address.own_name  # the address without the site's store, for error messages
        self._holder: bytes | None = None  # the value of the lock while this client holds it
        keys = [f"tamis:{{{address.store}}}:{part}" for part in ("head", "rows", "log", "writer", "new")]
        self._head, self._rows, self._log, self._lock, self._new = keys
        redis = import_module("redis")
        retry = import_module("redis.retry").Retry(
            import_module("redis.backoff").ExponentialBackoff(cap=2.0, base=0.1), _RETRIES
        )
        with self._explain_errors():
            self._client: Redis = redis.Redis.from_url(
                address.url,
                password=os.environ.get("REDISCLI_AUTH"),
                client_name="tamis",
                socket_connect_timeout=_CONNECT_SECONDS,
                socket_timeout=_ANSWER_SECONDS,
                socket_keepalive=True,
                single_connection_client=True,
                retry=retry,
                retry_on_error=[redis.ConnectionError, redis.BusyLoadingError],
            )
            register = self._client.register_script
            self._create_store, self._find_changes = register(_CREATE), register(_CHANGES)
            self._take_over, self._release = register(_TAKE_OVER), register(_RELEASE)
            self._commit_rows = register(_COMMIT)

    def close(self) -> None:
        self._client.close()

    # Reading.

    def find_position(self) -> Position | None:
        with self._explain_errors():
            return self._read_head(self._client.hmget(self._head, ["version", "token", "format"]))

    def _read_head(self, values: Any) -> Position | None:
        version, commit_id, newest = values
        if version is None:
            return None
        if newest.decode() > _FORMAT:
            raise StoreError(NEWER.format(self._name, newest.decode()))
        return Position(int(version), commit_id)

    def read_changes(self, since: Position) -> tuple[Position, list[Changes]] | None:
        with self._explain_errors():
            answer: Any = self._find_changes([self._head, self._log], [since.version, since.commit_id])
        if answer is None:
            return None
        version, commit_id, commits = answer
        changes = [decode_changes(entry[COMMIT_ID_BYTES:]) for entry in commits]
        return Position(int(version), commit_id), changes

    def read_all(self) -> Iterator[tuple[Position, list[tuple[bytes, bytes]]]]:
        position = self.find_position()
        if position is None:
            return
        cursor = 0
        while True:
            with self._explain_errors():
                answer: Any = self._client.hscan(self._rows, cursor, count=_SCAN)
            cursor, rows = answer
            yield position, list(rows.items())
            if cursor == 0:
                return

    # Writing.

    def create(self) -> Position:
        with self._explain_errors():
            keys = [self._head, self._rows, self._log]
            position = self._read_head(self._create_store(keys, [token_bytes(COMMIT_ID_BYTES), _FORMAT]))
        if position is None:
            raise StoreError(DELETED.format(self._name))
        return position

    def begin(self, seconds: float) -> Position:
        with self._explain_errors():
            self._acquire(seconds)
            try:
                position = self.find_position()
                if position is None:
                    raise StoreError(MISSING.format(self._name))
            except BaseException:
                self.roll_back()
                raise
        return position

    def _acquire(self, seconds: float) -> None:
        """Take the lock; raise StoreError if another client still holds it after so many seconds."""
        # Two values identify a connection: a random `run_id`, which the server draws when it starts, and the
        # number of the connection since then.
        pipeline = self._client.pipeline(transaction=False)
        pipeline.info("server")
        pipeline.client_id()
        information, number = pipeline.execute()
        server = str(information["run_id"])
        holder = f"{server}:{number}:{token_hex(8)}".encode()
        end = time.monotonic() + seconds
        pause = 0.001
        while not self._client.set(self._lock, holder, nx=True, ex=_LOCK_SECONDS):
            other: Any = self._client.get(self._lock)
            if other is not None and self._is_gone(other, server):
                if self._take_over([self._lock], [other, holder, _LOCK_SECONDS]):
                    break
                continue
            if time.monotonic() > end:
                raise StoreError(BUSY.format(self._name, seconds))
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        self._holder = holder

    def _is_gone(self, holder: bytes, server: str) -> bool:
        """Whether the connection of the lock's holder was closed; `server` is the run_id of the server."""
        run_id, _, rest = holder.decode("ascii", "replace").partition(":")
        number = rest.partition(":")[0]
        return run_id != server or not self._client.client_list(client_id=[number])

    def commit(
        self, base: Position, following: Position, changes: Changes, progress: Progress | None
    ) -> None:
        if self._holder is None:
            raise StoreError(f"the store {self._name} is not locked")
        staged, deleted = (f"{self._new}:{following.commit_id.hex()}:{part}" for part in ("rows", "deleted"))
        try:
            with self._explain_errors():
                self._stage(staged, changes.rows, progress)
                self._stage(deleted, [(key,) for key in changes.deleted], None)
                entry = base.commit_id + encode_changes(changes)
                keys = [self._head, self._rows, self._log, self._lock, staged, deleted]
                outcome: Any = self._commit_rows(
                    keys,
                    [
                        self._holder,
                        base.version,
                        base.commit_id,
                        following.commit_id,
                        entry if len(entry) <= _LOG_BYTES // 2 else b"",
                        _FORMAT,
                        _LOG_BYTES,
                    ],
                )
            if outcome != b"committed":
                reason = (
                    "this process lost the writer's lock, because it took too long or lost its connection"
                    if outcome == b"lock"
                    else "it was changed meanwhile"
                )
                raise StoreError(f"the store {self._name}: {reason}; nothing was written: try again")
            self._holder = None
        finally:
            self.roll_back()

    def _stage(self, key: str, items: Sequence[tuple[bytes, ...]], progress: Progress | None) -> None:
        """Append items, in parts, to a list that the script of the commit reads.

        A part has whole items (keys with values, or keys to delete). If the server's answer is lost, the part
        is sent again, and the list has it twice, which does no harm.
        """
        part: list[bytes] = []
        size = 0
        for number, item in enumerate(items):
            part += item
            size += sum(map(len, item))
            if size >= _PART_BYTES or number == len(items) - 1:
                self._push(key, part)
                part, size = [], 0
                if progress is not None:
                    progress((number + 1) / len(items))

    def _push(self, key: str, part: list[bytes]) -> None:
        """Append to a list on the server, and let the list and the lock expire later, in one transaction."""
        pipeline = self._client.pipeline(transaction=True)
        pipeline.rpush(key, *part)
        pipeline.expire(key, _STAGED_SECONDS)
        pipeline.expire(self._lock, _LOCK_SECONDS)
        pipeline.execute()

    def roll_back(self) -> None:
        holder, self._holder = self._holder, None
        if holder is not None:
            # If the server cannot be reached, the next writer takes over the lock, because the connection of
            # its holder is closed.
            with suppress(import_module("redis").RedisError):
                self._release([self._lock], [holder])

    def delete_lock(self) -> None:
        """Delete the lock of the present writer, whose commit is then refused."""
        with self._explain_errors():
            self._client.delete(self._lock)

    def delete(self) -> None:
        with self._explain_errors():
            self._client.delete(self._head, self._rows, self._log, self._lock)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turn errors of the driver, redis, into a StoreError of one line."""
        redis = import_module("redis")
        try:
            yield
        except (redis.RedisError, OSError) as error:
            text = " ".join(str(error).split())[:300] or type(error).__name__
            if isinstance(error, redis.ConnectionError | redis.TimeoutError | OSError):
                raise StoreError(UNREACHABLE.format(self._name, text)) from error
            raise StoreError(f"the store {self._name}: {text}") from error
