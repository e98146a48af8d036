"""Words that know which words of the other language they stand for, and the noun phrases built from them.

Every word carries marks, one for each thing that it expresses. Phrases are made in both languages at once with the same marks; each
language then puts them into its own order, and two words are aligned where they share a mark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from lexicon import Adjective, Noun

new_mark = count().__next__


class Word(NamedTuple):
    """A word and what it expresses."""

    text: str
    marks: frozenset[int]


Words = tuple[Word, ...]


class Pair(NamedTuple):
    """A phrase in both languages."""

    english: Words
    german: Words


def words(text: str, *marks: int) -> Words:
    """The words of `text`, each with all the marks."""
    return tuple(Word(word, frozenset(marks)) for word in text.split())


def pair(english: str, german: str, links: str = "") -> Pair:
    """A fixed phrase. Without links the words pair off one by one, or all stand for the only word of the other side."""
    sides = [english.split(), german.split()]
    if not links and min(map(len, sides)) > 1 and len(sides[0]) != len(sides[1]):
        raise ValueError(f"{english!r} and {german!r} need links")
    numbers = [[int(number) for number in link.split("-")] for link in links.split()]
    if not links:
        longest = max(map(len, sides))
        numbers = [[min(i, len(sides[0]) - 1), min(i, len(sides[1]) - 1)] for i in range(longest)]
    marks: list[list[set[int]]] = [[set() for _ in side] for side in sides]
    for link in numbers:
        mark = new_mark()
        for side in (0, 1):
            marks[side][link[side]].add(mark)
    return Pair(*(tuple(Word(word, frozenset(own)) for word, own in zip(*both, strict=True)) for both in zip(sides, marks, strict=True)))


def entry(text: str) -> Pair:
    """The phrase of a lexicon entry "english:german" or "english:german:links"; an underscore is a space."""
    return pair(*text.replace("_", " ").split(":"))


def join(*phrases: Pair) -> Pair:
    """Phrases one after the other, in the same order in both languages."""
    return Pair(sum((phrase.english for phrase in phrases), ()), sum((phrase.german for phrase in phrases), ()))


def with_mark(phrase: Words, mark: int) -> Words:
    return tuple(Word(word.text, word.marks | {mark}) for word in phrase)


def followed_by(phrase: Words, sign: str) -> Words:
    """The phrase with a punctuation mark attached to its last word."""
    return (*phrase[:-1], Word(phrase[-1].text + sign, phrase[-1].marks))


# ------------------------------------------------------------------ noun phrases

# endings by case for masculine, feminine, neuter, plural
STRONG = {"nom": "er e es e", "acc": "en e es e", "dat": "em er em en"}
MIXED = {"nom": "er e es en", "acc": "en e es en", "dat": "en en en en"}
WEAK = {"nom": "e e e en", "acc": "en e e en", "dat": "en en en en"}
EIN = {"nom": "- e - e", "acc": "en e - e", "dat": "em er em en"}
THE = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den"}
RELATIVE = {**THE, "dat": "dem der dem denen"}
CASES = ("nom", "acc", "dat")

# English determiner: German stem, its own endings, the endings of adjectives after it
DETERMINERS = {
    "the": ("", THE, WEAK),
    "this": ("dies", STRONG, WEAK),
    "every": ("jed", STRONG, WEAK),
    "which": ("welch", STRONG, WEAK),
    "many": ("viel", STRONG, STRONG),
    "some": ("einig", STRONG, STRONG),
    "a": ("ein", EIN, MIXED),
    "no": ("kein", EIN, MIXED),
    "my": ("mein", EIN, MIXED),
    "your": ("dein", EIN, MIXED),
    "his": ("sein", EIN, MIXED),
    "her": ("ihr", EIN, MIXED),
    "our": ("unser", EIN, MIXED),
    "their": ("ihr", EIN, MIXED),
}
CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "an das": "ans", "zu dem": "zum", "zu der": "zur"}


def ending(table: dict[str, str], case: str, gender: str) -> str:
    return table[case].split()["mfnp".index(gender)].removeprefix("-")


@dataclass(frozen=True)
class NounPhrase:
    """A noun phrase: English as subject and as object, German by case, and what agrees with it.

    `person` is 0 ich, 1 du, 2 er/sie/es, 3 wir, 4 sie (they); `owner` the English possessive that refers back to it.
    """

    subject: Words
    object: Words
    german: dict[str, Words]
    person: int
    gender: str
    owner: str = ""
    known: bool = True
    pronoun: bool = False

    def pair(self, case: str) -> Pair:
        return Pair(self.subject if case == "nom" else self.object, self.german[case])


def noun_phrase(
    noun: Noun, determiner: Pair | str = "", plural: bool = False, adjectives: Sequence[Adjective] = (), negation: int | None = None
) -> NounPhrase:
    """A noun with its determiner ("the", "a", "my" …, or a fixed pair such as two/zwei) and adjectives.

    Args:
        negation: the mark of an English "not" that German says with "kein" in place of "ein" or of no determiner.
    """
    gender = "p" if plural else noun.gender
    plural = gender == "p"
    mark = {name: new_mark() for name in ("determiner", "noun", *(adjective.english for adjective in adjectives))}
    english = determiner.english if isinstance(determiner, Pair) else words(plural_determiner(determiner, plural), mark["determiner"])
    for adjective in adjectives:
        english += words(adjective.english, mark[adjective.english])
    english += words(noun.english_plural if plural and noun.english_plural != "-" else noun.english, mark["noun"])
    german = {}
    for case in CASES:
        stem, own, after = DETERMINERS.get("no" if negation is not None else str(determiner), ("", EIN, STRONG))
        phrase: Words = ()
        if isinstance(determiner, Pair):
            phrase, after = determiner.german, STRONG
        elif negation is not None:
            phrase = words(stem + ending(own, case, gender), negation, *([mark["determiner"]] if determiner else []))
        elif determiner:
            phrase = words(stem + ending(own, case, gender), mark["determiner"])
        for adjective in adjectives:
            phrase += words(adjective.stem.removesuffix("e") + ending(after, case, gender), mark[adjective.english])
        german[case] = phrase + words(noun_form(noun, case, plural), mark["noun"])
    person = 4 if plural else 2
    owner = "their" if plural else {"m": "his", "f": "her"}.get(gender, "")
    known = determiner.english[-1].text.endswith("'s") if isinstance(determiner, Pair) else determiner not in ("", "a", "many", "some")
    return NounPhrase(english, english, german, person, gender, owner, known)


def plural_determiner(determiner: str, plural: bool) -> str:
    return "these" if plural and determiner == "this" else determiner


def noun_form(noun: Noun, case: str, plural: bool) -> str:
    if not plural:
        return noun.german_plural if noun.weak and case != "nom" else noun.german
    return noun.german_plural + ("n" if case == "dat" and noun.german_plural[-1] not in "ns" else "")


# English subject, object, possessive; German nominative, accusative, dative, reflexive
PRONOUNS = {
    "I": ("me", "my", "ich", "mich", "mir", "mich"),
    "you": ("you", "your", "du", "dich", "dir", "dich"),
    "he": ("him", "his", "er", "ihn", "ihm", "sich"),
    "we": ("us", "our", "wir", "uns", "uns", "uns"),
    "they": ("them", "their", "sie", "sie", "ihnen", "sich"),
    "she": ("her", "her", "sie", "sie", "ihr", "sich"),
    "it": ("it", "", "es", "es", "ihm", "sich"),
}
REFLEXIVES = [forms[5] for forms in PRONOUNS.values()]  # by person


def pronoun(english: str, german: str = "") -> NounPhrase:
    """A personal pronoun; `german` replaces the nominative, as for a table, which is "it" and "er"."""
    mark = new_mark()
    objective, owner, nominative, accusative, dative, _ = PRONOUNS[english]
    forms = {case: words(form, mark) for case, form in zip(CASES, (german or nominative, accusative, dative), strict=True)}
    person = list(PRONOUNS).index(english) if english not in ("she", "it") else 2
    gender = "f" if english == "she" else "p" if person > 2 else "m"
    return NounPhrase(words(english, mark), words(objective, mark), forms, person, gender, owner, pronoun=True)


def name(text: str, gender: str) -> NounPhrase:
    phrase = words(text, new_mark())
    return NounPhrase(phrase, phrase, dict.fromkeys(CASES, phrase), 2, gender, {"m": "his", "f": "her"}[gender])


def both(first: NounPhrase, second: NounPhrase) -> NounPhrase:
    """Two noun phrases with "and" between them."""
    link = pair("and", "und")
    german = {case: first.german[case] + link.german + second.german[case] for case in CASES}
    english = [one + link.english + other for one, other in ((first.subject, second.subject), (first.object, second.object))]
    return NounPhrase(english[0], english[1], german, 4, "p", "their")


def prepositional(english: str, german: str, noun: NounPhrase, case: str) -> Pair:
    """A preposition and its noun phrase, contracted where German does so (in dem: im)."""
    mark = new_mark()
    first, *rest = noun.german[case]
    contracted = CONTRACTIONS.get(f"{german} {first.text}")
    if contracted:
        return Pair(words(english, mark) + noun.object, (Word(contracted, first.marks | {mark}), *rest))
    return Pair(words(english, mark) + noun.object, words(german, mark) + noun.german[case])
