"""Figures of a stack under their public name; they are made in `vbstack.output`."""

from vbstack.output.plots import *  # noqa: F403
from vbstack.output.plots import __all__ as __all__
