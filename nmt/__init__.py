"""A toolkit to train recurrent attention translators: bidirectional GRU encoder, additive attention, GRU decoder."""

from typing import Any

__all__ = ["Translator", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # `nmt --help` must not wait for PyTorch, so the translator is imported when it is first asked for.
    if name == "Translator":
        from nmt.translator import Translator

        return Translator
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")
