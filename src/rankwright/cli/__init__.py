"""The command line: commands, each loaded only when it runs."""
