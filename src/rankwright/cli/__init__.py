"""The command line: one file per command, each loaded only when it runs."""
