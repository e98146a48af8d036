"""A parallel corpus of a few words, made on the spot."""

import random
from collections.abc import Callable
from pathlib import Path

from nmt.config import TrainConfig

Composer = Callable[..., TrainConfig]  # the fixture `composed`

NOUNS = {"dog": "Hund", "cat": "Kater", "man": "Mann", "bird": "Vogel", "tree": "Baum", "boy": "Junge", "car": "Wagen", "fish": "Fisch"}
VERBS = {"sees": "sieht", "hears": "hört", "finds": "findet", "likes": "mag"}
ADJECTIVES = {"big": "großen", "small": "kleinen", "old": "alten", "young": "jungen", "red": "roten"}


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs such as "the dog sees the big cat ." and their German, the same for the same seed."""
    chance = random.Random(seed)
    pairs = []
    for _ in range(count):
        (subject, subjekt), (verb, verbum), (adjective, adjektiv), (noun, nomen) = (
            chance.choice(sorted(words.items())) for words in (NOUNS, VERBS, ADJECTIVES, NOUNS)
        )
        pairs.append((f"The {subject} {verb} the {adjective} {noun}.", f"Der {subjekt} {verbum} den {adjektiv} {nomen}."))
    return pairs


def write_pairs(prefix: Path, pairs: list[tuple[str, str]]) -> str:
    """Write PREFIX.en and PREFIX.de; returns the prefix as text."""
    for side, lang in enumerate(("en", "de")):
        Path(f"{prefix}.{lang}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8", newline="\n")
    return str(prefix)
