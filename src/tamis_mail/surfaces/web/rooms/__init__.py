"""The rooms (interactive demonstrations): each module computes the pictures of one room from a request."""
