"""Write the quick-start corpus: English–German pairs and their gold word alignment, byte for byte the same at every run.

Usage: python data/quickstart/generate.py [FOLDER]
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lexicon import NAMES
from patterns import any_sentence
from phrases import Pair, followed_by
from speaker import Speaker

SEED = 2015
COUNTS = {"test": 500, "valid": 500, "train": 20_000}
LENGTHS = range(3, 26)
PEOPLE = {*NAMES["m"], *NAMES["f"]}


class Sentence(NamedTuple):
    """A finished pair of lines with its links, 0-based pairs of an English and a German word."""

    english: str
    german: str
    links: list[tuple[int, int]]


def finish(said: Pair, sign: str) -> Sentence:
    english, german = (" ".join(word.text for word in followed_by(side, sign)) for side in said)
    links = [(i, j) for i, one in enumerate(said.english) for j, other in enumerate(said.german) if one.marks & other.marks]
    return Sentence(capital(with_articles(english)), capital(german), links)


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def with_articles(english: str) -> str:
    """Say "an" before a vowel."""
    spoken = english.split(" ")
    return " ".join(
        "an" if word == "a" and following[0] in "aeiou" else word for word, following in zip(spoken, [*spoken[1:], "."], strict=True)
    )


def sentences(seed: int = SEED) -> Iterator[Sentence]:
    """Sentences without end; no English or German line comes twice, so that any split of them is disjoint on both sides."""
    speaker = Speaker(seed)
    seen: set[str] = set()
    while True:
        sentence = finish(*any_sentence(speaker))
        english, german = sentence.english.split(), sentence.german.split()
        names = [word for word in english if word in PEOPLE]
        if seen.isdisjoint(sentence[:2]) and len(english) in LENGTHS and len(german) in LENGTHS and len(set(names)) == len(names):
            seen.update(sentence[:2])
            yield sentence


def write(folder: Path) -> None:
    source = sentences()
    for split, count in COUNTS.items():
        chosen = [next(source) for _ in range(count)]
        columns = {
            "en": [sentence.english for sentence in chosen],
            "de": [sentence.german for sentence in chosen],
            "align": [" ".join(f"{i}-{j}" for i, j in sentence.links) for sentence in chosen],
        }
        for suffix, lines in columns.items():
            (folder / f"{split}.{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
