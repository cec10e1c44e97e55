"""The compiled readers of messages; both are None where there is no core, and then Python reads all messages.

They read many messages at a time, and without the interpreter's lock, so that threads share the work. They
leave unusual messages to Python. `tests/mail/message/test_compiled_messages.py` compares the two.
"""

from tamis.charsets import ALIASES, CODECS
from tamis.compiled import core
from tamis_mail.message.volatile import VOLATILE_FIELDS

CANONICAL_FORM = None if core is None else core.mail.CanonicalForm(VOLATILE_FIELDS)
MESSAGE_READER = None if core is None else core.mail.MessageReader(ALIASES, CODECS)
