"""The command line."""

from vbstack.cli.commands import app, main

__all__ = ["app", "main"]
