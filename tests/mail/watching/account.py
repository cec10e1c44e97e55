"""An account in memory, with an owner who moves mail and a filter that can be killed at every step."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tamis_mail.labels import HAM, SPAM
from tamis_mail.message import canonical, digest
from tamis_mail.watching.classifier import JudgedMessage, StoreUnusableError
from tamis_mail.watching.mailbox import Folder, ListedMessage, MailboxError, MessageError
from tamis_mail.watching.roles import Role


class KilledError(BaseException):
    """The watcher was killed: not an Exception, so that nothing catches it."""


@dataclass
class Interruption:
    """Raises an error before or after a chosen call."""

    calls_left: int | None = None
    error: type[BaseException] = KilledError

    def step(self) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                self.calls_left = None
                raise self.error("interrupted")


@dataclass
class Message:
    """A message in a folder."""

    raw: bytes
    keywords: frozenset[str] = frozenset()


ROLES = {
    "INBOX": Role.INBOX,
    "Junk": Role.JUNK,
    "Unsure": Role.UNSURE,
    "Archive": Role.ARCHIVE,
    "Work": Role.OTHER,
    "Trash": Role.TRASH,
}


@dataclass
class Account:
    """Folders of messages by uid. As in IMAP, a message that is moved gets a new uid."""

    tells_uids: bool = True  # of moved messages, as COPYUID does
    moves_in_two_steps: bool = False  # as COPY and EXPUNGE do
    interruption: Interruption = field(default_factory=Interruption)
    folders: dict[str, dict[str, Message]] = field(default_factory=lambda: {name: {} for name in ROLES})
    validity: str = "1"
    unreadable: set[str] = field(default_factory=set)  # uids
    reads: int = 0
    last_uid: int = 0
    on_move: Callable[[bytes], None] | None = None  # called after a move

    # What the owner and the world do.

    def deliver(self, raw: bytes, folder: str = "INBOX", keywords: frozenset[str] = frozenset()) -> str:
        self.last_uid += 1
        self.folders[folder][str(self.last_uid)] = Message(raw, keywords)
        return str(self.last_uid)

    def move_by_hand(self, folder: str, uid: str, target: str) -> str:
        message = self.folders[folder].pop(uid)
        return self.deliver(message.raw, target, message.keywords)

    def find(self, raw: bytes) -> list[str]:
        """Return the folders that have a message."""
        return [
            name for name, messages in self.folders.items() for one in messages.values() if one.raw == raw
        ]

    # What a mailbox does.

    def list_folders(self) -> Sequence[Folder]:
        self.interruption.step()
        return [Folder(name, role, self.validity) for name, role in ROLES.items()]

    def list_messages(self, folder: Folder) -> list[ListedMessage]:
        self.interruption.step()
        return [ListedMessage(uid, message.keywords) for uid, message in self.folders[folder.name].items()]

    def read(self, folder: Folder, uids: Sequence[str]) -> Iterator[tuple[str, bytes | MessageError]]:
        for uid in uids:
            self.interruption.step()
            self.reads += 1
            if uid in self.unreadable:
                yield uid, MessageError("it is too large")
            elif uid in self.folders[folder.name]:
                yield uid, self.folders[folder.name][uid].raw

    def move(self, folder: Folder, uid: str, target: Folder, *, copy_uid: str | None = None) -> str | None:
        self.interruption.step()
        if uid not in self.folders[folder.name]:
            raise LookupError(uid)
        message = self.folders[folder.name][uid]
        new = copy_uid
        if copy_uid is None:
            if not self.moves_in_two_steps:
                del self.folders[folder.name][uid]
            new = self.deliver(message.raw, target.name, message.keywords)
            self.interruption.step()
        else:
            assert self.folders[target.name][copy_uid].raw == message.raw
        self.folders[folder.name].pop(uid, None)
        self.interruption.step()
        if self.on_move:
            self.on_move(message.raw)
        return new if self.tells_uids else None

    def add_keywords(self, folder: Folder, uid: str, keywords: frozenset[str]) -> bool:
        self.interruption.step()
        self.folders[folder.name][uid].keywords |= keywords
        self.interruption.step()
        return True

    def wait(self, seconds: float) -> None:
        raise MailboxError("there is nothing to wait for")


@dataclass
class WordClassifier:
    """Calls a message spam if it has the word, unless it has learned otherwise; counts what it learns."""

    interruption: Interruption = field(default_factory=Interruption)
    labels: dict[bytes, str] = field(default_factory=dict)
    history: list[tuple[bytes, str]] = field(default_factory=list)  # changes only, as in a journal
    fault: str = ""

    def judge(self, messages: Sequence[bytes]) -> Sequence[JudgedMessage | MessageError]:
        self.interruption.step()
        if self.fault:
            raise StoreUnusableError(self.fault)
        return [self._judge(raw) for raw in messages]

    def _judge(self, raw: bytes) -> JudgedMessage | MessageError:
        if b"poison" in raw:
            return MessageError("unexpected ValueError")
        label = SPAM if b"pills" in raw else "unsure" if b"maybe" in raw else HAM
        return JudgedMessage(self.labels.get(digest(canonical(raw)), label), 0.5, 0.0)

    def learn(self, messages: Sequence[bytes], label: str) -> Sequence[str | MessageError]:
        self.interruption.step()
        if self.fault:
            raise StoreUnusableError(self.fault)
        for raw in messages:
            identity = digest(canonical(raw))
            if self.labels.get(identity) != label:
                self.labels[identity] = label
                self.history.append((raw, label))
        self.interruption.step()
        return ["learned"] * len(messages)

    def close(self) -> None:
        pass
