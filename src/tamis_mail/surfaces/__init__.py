"""The surfaces of the filter: commands, daemons, mailbox watchers and the web page.

They do not import each other; only the commands that start a daemon, a watcher or the page load it by its
name.
"""
