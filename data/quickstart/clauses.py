"""Clauses: verbs with their tenses in both languages, and the order of the parts in main clauses, questions and subordinate clauses."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from lexicon import Verb
from phrases import REFLEXIVES, NounPhrase, Pair, Word, Words, new_mark, words

BE = Verb("be", "is", "being", "was", "been", "", "sein", "bin", "bist", "ist", "gewesen", "sein", False, "pm", ())
TO_BE = {"present": "am are is are are", "past": "was were was were were"}
HAVE = "have have has have have"
# forms of the German auxiliaries for ich, du, er, wir, sie; what German says in the simple past
FINITE = {
    "haben": "habe hast hat haben haben",
    "sein": "bin bist ist sind sind",
    "past haben": "hatte hattest hatte hatten hatten",
    "past sein": "war warst war waren waren",
}
# English auxiliary for I and for he, the words after it, whether it needs "do", German
MODALS = {
    "can": ("can can", "", "", "kann kannst kann können"),
    "must": ("must must", "", "", "muss musst muss müssen"),
    "should": ("should should", "", "", "sollte solltest sollte sollten"),
    "will": ("will will", "", "", "werde wirst wird werden"),
    "would like": ("would would", "like to", "", "möchte möchtest möchte möchten"),
    "have to": ("have has", "to", "do", "muss musst muss müssen"),
    "want": ("want wants", "to", "do", "will willst will wollen"),
    "could": ("could could", "", "", "konnte konntest konnte konnten"),
    "had to": ("had had", "to", "did", "musste musstest musste mussten"),
    "wanted": ("wanted wanted", "to", "did", "wollte wolltest wollte wollten"),
}

# where a part of the clause stands: its rank in English (negative: between the auxiliary and the verb), its rank in German
SLOTS = {
    "reflexive": (0, 0),
    "pronoun": (1, 1),
    "dative": (1, 2),
    "dative_to": (3, 2),
    "known": (2, 3),
    "time": (9, 4),
    "often": (-1, 5),
    "gern": (0, 5),
    "already": (-1, 6),
    "yet": (9, 6),
    "definite": (2, 7),
    "scene": (6, 8),
    "object": (2, 9),
    "not": (-2, 10),
    "at": (8, 11),
    "for": (4, 12),
    "with": (7, 13),
    "manner": (5, 14),
    "place": (6, 15),
    "complement": (2, 16),
    "predicate": (2, 17),
}


class Part(NamedTuple):
    """A part of a clause, in both languages, and its slot."""

    slot: str
    phrase: Pair


@dataclass(frozen=True)
class Clause:
    """The parts of a clause, for English and German to order. `auxiliary` is what English puts before the subject in a question."""

    subject: NounPhrase
    auxiliary: Words
    verb: Words
    finite: Words
    closing: Words
    prefix: Words
    parts: tuple[Part, ...] = ()
    front: Pair | None = None

    def english(self, inverted: bool = False) -> Words:
        ordered = sorted(self.parts, key=lambda part: SLOTS[part.slot][0])
        middle = flat(part.phrase.english for part in ordered if SLOTS[part.slot][0] < 0)
        end = flat(part.phrase.english for part in ordered if SLOTS[part.slot][0] >= 0)
        start = self.auxiliary + self.subject.subject if inverted else self.subject.subject + self.auxiliary
        if not inverted and middle and (start[-1].text, middle[0].text) == ("can", "not"):
            start, middle = (*start[:-1], Word("cannot", start[-1].marks | middle[0].marks)), middle[1:]
        return (self.front.english if self.front else ()) + start + middle + self.verb + end

    def middle(self) -> Words:
        return flat(part.phrase.german for part in sorted(self.parts, key=lambda part: SLOTS[part.slot][1]))

    def verb_first(self) -> Words:
        """Finite verb, subject, the rest, and at the end what closes the bracket; a reflexive goes before a noun."""
        reflexive = flat(part.phrase.german for part in self.parts if part.slot == "reflexive")
        if self.subject.pronoun or not reflexive:
            return self.finite + self.subject.german["nom"] + self.middle() + self.prefix + self.closing
        rest = replace(self, parts=tuple(part for part in self.parts if part.slot != "reflexive"))
        return self.finite + reflexive + self.subject.german["nom"] + rest.middle() + self.prefix + self.closing

    def verb_second(self) -> Words:
        if self.front:
            return self.front.german + self.verb_first()
        return self.subject.german["nom"] + self.finite + self.middle() + self.prefix + self.closing

    def verb_final(self) -> Words:
        """The order of subordinate clauses: a prefix rejoins its verb."""
        finite = tuple(
            Word(prefix.text + verb.text, prefix.marks | verb.marks) for prefix, verb in zip(self.prefix, self.finite, strict=False)
        )
        return self.subject.german["nom"] + self.middle() + self.closing + (finite or self.finite)


def flat(phrases: Iterable[Words]) -> Words:
    return tuple(word for phrase in phrases for word in phrase)


def clause(subject: NounPhrase, verb: Verb, tense: str, parts: Iterable[Part] = (), support: bool = False) -> Clause:
    """A clause with its verb in "present", "progressive", "past", "perfect", "gern" ("likes to") or with one of MODALS.

    Args:
        support: whether English needs an auxiliary, as for a question or "not".
    """
    helper, main = new_mark(), new_mark()
    parts = tuple(parts)
    if verb.reflexive:
        parts += (Part("reflexive", Pair((), words(REFLEXIVES[subject.person], main))),)
    if tense == "gern":
        parts += (Part("gern", Pair((), words("gern", helper))),)
    auxiliary, english = english_verb(verb, tense, subject.person, support, helper, main)
    finite, closing, prefix = german_verb(verb, tense, subject.person, helper, main)
    return Clause(subject, auxiliary, english, finite, closing, prefix, parts)


def english_verb(verb: Verb, tense: str, person: int, support: bool, helper: int, main: int) -> tuple[Words, Words]:
    third = person == 2
    does = words("does" if third else "do", main)
    if verb.third == "is" and tense in TO_BE:
        return words(TO_BE[tense].split()[person], main), ()
    if tense == "progressive":
        return words(TO_BE["present"].split()[person], main), words(verb.ing, main)
    if tense == "perfect":
        return words(HAVE.split()[person], helper), words(verb.participle, main)
    if tense == "past":
        simple = single_past(verb)
        return (words("did", main if simple else helper), words(verb.base, main)) if support else ((), past_words(verb, helper, main))
    if tense == "present":
        return (does, words(verb.base, main)) if support else ((), words(verb.third if third else verb.base, main))
    if tense == "gern":
        like = words("like to" if support or not third else "likes to", helper)
        return (does if support else ()), like + words(verb.base, main)
    forms, rest, do, _ = MODALS[tense]
    form = words(forms.split()[third], helper)
    after = words(rest, helper) + words(verb.base, main)
    if not do:
        return form, after
    if not support:
        return (), form + after
    base = {"had to": "have", "wanted": "want"}.get(tense, tense.split()[0])
    return words("did" if do == "did" else "does" if third else "do", helper), words(base, helper) + after


def single_past(verb: Verb) -> bool:
    return f"past {verb.infinitive}" in FINITE


def past_words(verb: Verb, helper: int, main: int) -> Words:
    return words(verb.past, main) if single_past(verb) else words(verb.past, helper, main)


def german_verb(verb: Verb, tense: str, person: int, helper: int, main: int) -> tuple[Words, Words, Words]:
    """The finite verb, what closes the clause, and a separated prefix."""
    infinitive = words(verb.prefix + verb.infinitive, main)
    if tense in MODALS:
        return words(MODALS[tense][3].split()[min(person, 3)], helper), infinitive, ()
    if tense == "past" and single_past(verb):
        return words(FINITE[f"past {verb.infinitive}"].split()[person], main), (), ()
    if tense in ("past", "perfect"):
        return words(FINITE[verb.auxiliary].split()[person], helper), words(verb.partizip, main), ()
    plural = "sind" if verb.infinitive == "sein" else verb.infinitive
    return words((verb.ich, verb.du, verb.er, plural, plural)[person], main), (), words(verb.prefix, main)
