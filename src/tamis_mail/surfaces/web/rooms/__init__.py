"""The rooms: each module computes one picture, from the fields of a request to an answer."""
