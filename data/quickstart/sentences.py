"""From clauses to sentences: the orders of statements and questions, subordinate clauses, and clauses that several patterns use."""

from dataclasses import replace
from functools import cache

from clauses import BE, Clause, Part, clause
from lexicon import NOUN, PROFESSIONS, QUALITIES, SPECIAL, TRAITS, VERB, Noun, Verb
from phrases import CASES, RELATIVE, NounPhrase, Pair, ending, entry, followed_by, join, new_mark, noun_phrase, pronoun, words
from speaker import Speaker

OBJECT = ("object", "definite", "known", "pronoun")
# verbs that cost money, and verbs that the weather matters to
COSTLY = ("buy", "order", "rent", "travel", "fly", "build")
OUTSIDE = ("go", "drive", "run", "travel", "fly", "swim", "plant", "wash", "go shopping")


def statement(said: Clause) -> Pair:
    return Pair(said.english(), said.verb_second())


def question(said: Clause, front: Pair | None = None) -> Pair:
    """A question: with `front` (where, which book …) before the verb, otherwise to be answered with yes or no."""
    asked = front or Pair((), ())
    return Pair(asked.english + said.english(inverted=True), asked.german + said.verb_first())


def subordinate(conjunction: Pair, said: Clause) -> Pair:
    return Pair(conjunction.english + said.english(), conjunction.german + said.verb_final())


def main_then(main: Pair, second: Pair, comma: str = "") -> Pair:
    """A main clause and what follows it; German separates them with a comma, English only if told."""
    return join(Pair(followed_by(main.english, comma), followed_by(main.german, ",")), second)


def then_main(first: Pair, said: Clause) -> Pair:
    """A subordinate clause first, so that the German main clause begins with its verb."""
    return join(Pair(followed_by(first.english, ","), followed_by(first.german, ",")), Pair(said.english(), said.verb_first()))


# ------------------------------------------------------------------ clauses that several patterns use


@cache
def some_verb(base: str) -> Verb:
    return next(verb for verb in VERB if verb.base == base)


def not_(negation: bool) -> list[Part]:
    mark = new_mark()
    return [Part("not", Pair(words("not", mark), words("nicht", mark)))] if negation else []


def is_(subject: NounPhrase, what: Pair, *parts: Part, tense: str = "present", negation: bool = False) -> Clause:
    return clause(subject, BE, tense, [Part("predicate", what), *parts, *not_(negation)])


def back(subject: NounPhrase) -> NounPhrase:
    """The pronoun that refers back to a subject."""
    if subject.pronoun:
        return pronoun(subject.subject[0].text)
    return pronoun({"his": "he", "her": "she", "their": "they"}[subject.owner])


def somebody(speaker: Speaker) -> NounPhrase:
    """A certain person that a pronoun can refer back to."""
    while not (subject := speaker.subject(certain=True)).owner:
        pass
    return subject


def weather(speaker: Speaker, tense: str) -> Clause:
    """It is raining, it is too cold …; with the tense "habit", it rains."""
    kind = speaker.pick(["regnen", "schneien", "too cold:zu kalt", "very hot:sehr heiß", "bad:schlecht"])
    if kind in SPECIAL:
        return clause(pronoun("it"), SPECIAL[kind], {"present": "progressive", "habit": "present"}.get(tense, tense))
    subject = noun_phrase(NOUN["weather"], "the") if kind.startswith("bad") else pronoun("it")
    return is_(subject, entry(kind), tense="past" if tense == "past" else "present")


def having(subject: NounPhrase, thing: str, determiner: Pair | str, tense: str = "present") -> Clause:
    return clause(subject, some_verb("have"), tense, [Part("object", noun_phrase(NOUN[thing], determiner).pair("acc"))])


def obstacle(speaker: Speaker, subject: NounPhrase, tense: str, verb: Verb) -> Clause:
    """Why somebody does not do what the verb says: ill, no time, work to do, the weather, no money."""
    who = back(subject)
    kind = speaker.pick([0, 0, 1, 1, 3, 3, 2, 2, 2, 2] if verb.base in OUTSIDE else [0, 1, 3])
    if kind == 0:
        return is_(who, entry(speaker.pick(["ill:krank", "tired:müde", "too tired:zu müde", "very busy:sehr beschäftigt"])), tense=tense)
    if kind == 1:
        return having(who, "money" if verb.base in COSTLY else "time", "no", tense)
    if kind == 2:
        return weather(speaker, tense)
    duty = some_verb(speaker.pick(["help", "work", "learn", "tidy up", "cook", "repair", "pick up", "feed"]))
    return speaker.clause(who, "have to" if tense == "present" else "had to", duty, time=0)


def profession(speaker: Speaker, gender: str) -> Pair:
    """A profession with its article, which German leaves out: Lehrer, Lehrerin."""
    english, man, woman = speaker.pick(PROFESSIONS).split(":")
    mark = new_mark()
    return Pair(words(f"a {english}", mark), words(woman if gender == "f" else man, mark))


def trait(speaker: Speaker, subject: NounPhrase) -> str:
    """Something that the subject's adjectives have not said."""
    said = [word.text for word in subject.subject]
    return speaker.pick([trait for trait in TRAITS if trait.split(":")[0] not in said])


# ------------------------------------------------------------------ relative clauses


def with_relative(speaker: Speaker, noun: Noun, colours: bool = False) -> tuple[NounPhrase, NounPhrase]:
    """A noun phrase, and the relative pronoun (who or that, der) to make a clause about it."""
    plural = speaker.maybe(0.2) and noun.english_plural != "-"
    head = noun_phrase(noun, speaker.pick(["the", "the", "the", "this"]), plural, speaker.adjectives(noun, colours))
    mark = new_mark()
    german = {case: words(ending(RELATIVE, case, head.gender), mark) for case in CASES}
    return head, NounPhrase(words("who", mark), words("that", mark), german, head.person, head.gender, head.owner, pronoun=True)


def extended(head: NounPhrase, about: Pair, comma: str = "") -> NounPhrase:
    """A noun phrase with its relative clause, closed by a comma in German where the sentence goes on."""
    german = {case: followed_by(head.german[case], ",") + followed_by(about.german, comma) for case in CASES}
    return replace(head, subject=head.subject + about.english, object=head.object + about.english, german=german)


def has_quality(noun: Noun, verb: Verb, kind: str) -> bool:
    """Whether the noun has the qualities of `kind` and can be the verb's direct object."""
    wanted = ",".join(item.split(":")[1] for item in verb.frame if item.startswith("acc"))
    return kind in noun.classes and not noun.classes.isdisjoint(wanted.split(","))


@cache
def with_qualities(*bases: str) -> list[tuple[Verb, str, Noun]]:
    """What can be done to a thing, a kind of quality that it has, and the thing."""
    verbs = [some_verb(base) for base in bases]
    return [(verb, kind, noun) for verb in verbs for kind in QUALITIES for noun in NOUN.values() if has_quality(noun, verb, kind)]
