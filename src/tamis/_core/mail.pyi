"""See core/mail.cpp."""

def read_fields(
    data: bytes, start: int, stop: int, room: int, longest_name: int, longest_value: int
) -> list[tuple[str, str]] | None: ...
