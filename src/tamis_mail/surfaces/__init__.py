"""The surfaces of the filter: commands, daemons, mailbox watchers and the web page.

They are thin, and do not import each other.
"""
