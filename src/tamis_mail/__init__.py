"""A personal spam filter: bytes → message → tokens → bag → statistic on disk → posterior → verdict."""
