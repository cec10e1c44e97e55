"""Parse the location of a store: a file, or a server that several hosts share.

    mail.tamis                                  a file
    postgresql://user@host/database?store=name  a store of a PostgreSQL database
    redis://host:6379/0?store=name              a store of a Redis or Valkey server

Each host that uses a store on a server keeps a replica of the store, an SQLite file, in a folder on that host
(`tamis_mail.store.replica`).
"""
# The functions of os.path are used, because importing pathlib would take 5 ms of a process that judges one
# message.
# ruff: noqa: PTH111, PTH117, PTH118

from __future__ import annotations

import os
from importlib import import_module

from tamis_mail.records import record

REPLICAS = "TAMIS_REPLICAS"  # the environment variable that names the folder of replicas

# The beginnings of addresses, with one slash, because pathlib turns // into /. The schemes rediss and valkeys
# mean a connection by TLS.
_SCHEMES = ("postgresql:/", "redis:/", "rediss:/", "valkey:/", "valkeys:/", "postgres:/")
_MAX_NAME_LENGTH = 100  # characters of the name of a store
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@.+_-=")
_MAX_WEIGHT = 1000  # the largest `Address.weight`
_MAX_DIGITS = 9  # of a weight; int() raises an error of its own if there are thousands
_EXPECTED = "expected postgresql://user@host/database?store=name or redis://host:6379/0?store=name"


class LocationError(ValueError):
    """An address that names no store. The message is one line for the user."""


@record(frozen=True, slots=True)
class Address:
    """A store on a server."""

    kind: str  # postgresql, or redis, which includes Valkey
    url: str  # for the driver (psycopg or redis), without the parameters store, site and weight
    store: str  # the name of the store on that server
    site: str  # the name of the store of the whole site, whose counts are added; empty if there is none
    weight: int  # the factor of this store's counts when the counts of the site's store are added

    def __str__(self) -> str:
        return self._format(self.store, self.site and f"&site={self.site}&weight={self.weight}")

    def _format(self, store: str, further_parameters: str) -> str:
        separator = "&" if "?" in self.url else "?"
        return f"{self.url}{separator}store={store}{further_parameters}"

    @property
    def own_name(self) -> str:
        """The address of this store alone, without the parameters site and weight."""
        return self._format(self.store, "")

    @property
    def site_name(self) -> str:
        """The address of the site's store, which is on the same server."""
        return self._format(self.site, "")


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether this is the address of a store on a server, not a path.

    >>> is_address("redis://localhost/0"), is_address("mail.tamis")
    (True, False)
    """
    return os.fspath(path).startswith(_SCHEMES)


def parse_address(path: str | os.PathLike[str]) -> Address:
    """Read the address of a store on a server; raise LocationError if it is not valid.

    >>> parse_address("redis://localhost:6379/0?store=ann&site=all&weight=4")
    Address(kind='redis', url='redis://localhost:6379/0', store='ann', site='all', weight=4)
    >>> parse_address("redis://:secret@localhost/0").store
    Traceback (most recent call last):
    tamis_mail.locations.LocationError: the address redis://… has a password, which other users could read: \
put it into REDISCLI_AUTH
    """
    text = os.fspath(path)
    scheme, _, rest = text.partition(":")
    kind = "postgresql" if scheme.startswith("postgres") else "redis"
    # One slash (pathlib turns // into /) or two precede the host. Three or more mean that there is no host.
    rest = rest.lstrip("/") if not rest.startswith("///") else rest[2:]
    base, _, query = rest.partition("?")
    authority, _, database = base.partition("/")  # authority: user@host:port
    user, _, _ = authority.rpartition("@")
    if ":" in user:  # user:password
        variable = "PGPASSWORD or ~/.pgpass" if kind == "postgresql" else "REDISCLI_AUTH"
        raise LocationError(
            f"the address {scheme}://… has a password, which other users could read: put it into {variable}"
        )
    if not authority or (kind == "postgresql" and not database):
        raise LocationError(f"the address {text} names no {'database' if authority else 'host'}, {_EXPECTED}")
    if kind == "redis" and database and not (database.isascii() and database.isdigit()):
        raise LocationError(f"the address {text} has the database {database!r}, expected a number, as in /0")
    tamis_parameters = {"store": "tamis", "site": "", "weight": "1"}
    driver_parameters = []
    for parameter in filter(None, query.split("&")):
        name, _, value = parameter.partition("=")
        if name in tamis_parameters:
            tamis_parameters[name] = value.replace("%40", "@")  # the name may be a mail address
        else:
            driver_parameters.append(parameter)
    for name in ("store", "site"):
        value = tamis_parameters[name]
        if len(value) > _MAX_NAME_LENGTH or not _NAME_CHARACTERS.issuperset(value):
            raise LocationError(
                f"the address {text} has the {name} {ascii(value)[:60]}, expected a name of letters, digits "
                "and @.+_-= only"
            )
    if not tamis_parameters["store"] or tamis_parameters["store"] == tamis_parameters["site"]:
        raise LocationError(f"the address {text} must name a store that is not the site's, as in ?store=name")
    weight = tamis_parameters["weight"]
    is_integer = weight.isascii() and weight.isdigit() and len(weight) <= _MAX_DIGITS
    if not (is_integer and 1 <= int(weight) <= _MAX_WEIGHT):
        raise LocationError(f"the address {text} has the weight {weight!r}, expected 1 to {_MAX_WEIGHT}")
    ending = f"?{'&'.join(driver_parameters)}" if driver_parameters else ""
    driver_scheme = {"postgres": "postgresql", "valkey": "redis", "valkeys": "rediss"}.get(scheme, scheme)
    return Address(
        kind,
        url=f"{driver_scheme}://{base}{ending}",
        store=tamis_parameters["store"],
        site=tamis_parameters["site"],
        weight=int(weight),
    )


def name_location(path: str | os.PathLike[str]) -> str:
    """Return a path as it was given, but an address with // and with the name of the store.

    >>> name_location("redis:/localhost/0")  # as pathlib writes it
    'redis://localhost/0?store=tamis'
    """
    return str(parse_address(path)) if is_address(path) else os.fspath(path)


def replica_folder() -> str:
    """Return $TAMIS_REPLICAS, or tamis/replicas in $XDG_STATE_HOME (default: ~/.local/state)."""
    folder = os.environ.get(REPLICAS)
    if folder:
        return os.path.expanduser(folder)
    state = os.environ.get("XDG_STATE_HOME", "")
    home = state if os.path.isabs(state) else os.path.expanduser("~/.local/state")
    return os.path.join(home, "tamis", "replicas")


def find_local_path(path: str | os.PathLike[str]) -> str:
    """Return the path of a store's file, or of this host's replica if the store is on a server."""
    if not is_address(path):
        return os.path.realpath(path)
    address = parse_address(path)
    blake2b = import_module("_blake2").blake2b  # importing hashlib loads OpenSSL, which takes 4 ms
    # Stores of the same name on different servers have different hashes.
    hash_text: str = blake2b(address.own_name.encode(), digest_size=8).hexdigest()
    return os.path.join(
        os.path.realpath(replica_folder()), f"{address.kind}-{address.store}-{hash_text}.tamis"
    )
