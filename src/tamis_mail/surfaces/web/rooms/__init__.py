"""The rooms (interactive demonstrations): each module computes one picture from the fields of a request."""
