"""Questions with a question word, direct (verb second) and indirect (verb at the end)."""

from collections.abc import Callable

from lexicon import Verb, listed
from phrases import NounPhrase, Pair, entry, new_mark, noun_phrase, pair, words
from sentences import OBJECT, question, some_verb, statement, subordinate
from speaker import Speaker

THINGS = listed("read write buy eat drink cook order wear repair paint build sell carry plant")
PEOPLE = ["call", "invite", "ask", "meet", "look for", "pick up"]
HELPED = ["help", "thank", "follow", "trust"]


def who(speaker: Speaker) -> Pair:
    """The question word is the subject: no "do" in English."""
    mark = new_mark()
    word = words("who", mark)
    subject = NounPhrase(word, word, {"nom": words("wer", mark)}, 2, "m", pronoun=True)
    return statement(speaker.clause(subject, speaker.tense()))


def asked_for(speaker: Speaker, front: Pair, slots: tuple[str, ...], fits: Callable[[Verb], bool], direct: bool) -> Pair:
    """A question for the part of the clause in one of the slots."""
    tenses = ["progressive", "past", "past", "will", "can", "want", "should", "would like", "present"]
    while not fits(verb := speaker.verb(tense := speaker.pick(tenses))):
        pass
    subject = speaker.subject(0.6, asked=True)
    parts = [part for part in speaker.arguments(verb, subject) if part.slot not in slots]
    said = speaker.clause(subject, tense, verb, question=direct, time=0.3, parts=parts)
    return question(said, front) if direct else subordinate(front, said)


def what(speaker: Speaker, direct: bool = True) -> Pair:
    return asked_for(speaker, pair("what", "was"), OBJECT, lambda verb: verb.base in THINGS and not verb.prefix, direct)


def whom(speaker: Speaker, direct: bool = True) -> Pair:
    return asked_for(speaker, pair("who", "wen"), OBJECT, lambda verb: verb.base in PEOPLE, direct)


def to_whom(speaker: Speaker, direct: bool = True) -> Pair:
    return asked_for(speaker, pair("who", "wem"), ("dative",), lambda verb: verb.base in HELPED, direct)


def where(speaker: Speaker, direct: bool = True) -> Pair:
    """Where someone is (wo) or where someone goes (wohin)."""
    german, frames = speaker.pick([("wohin", ("to", "abroad")), ("wo", ("place",))])
    return asked_for(
        speaker, pair("where", german), ("place",), lambda verb: any(item.split(":")[0] in frames for item in verb.frame), direct
    )


def when_or_why(speaker: Speaker, direct: bool = True) -> Pair:
    front = entry(speaker.pick(["when:wann", "why:warum"]))
    lasting = ["progressive", "progressive", "present", "want"] if front.german[0].text == "warum" else []
    said = speaker.clause(
        speaker.subject(0.6, asked=True), speaker.pick(["past", "past", "will", "can", *lasting]), question=direct, time=0
    )
    return question(said, front) if direct else subordinate(front, said)


def how_many(speaker: Speaker) -> Pair:
    """How many books …? Which book …?"""
    verb = some_verb(speaker.pick(["buy", "read", "write", "need", "have", "eat", "plant"]))
    classes = verb.frame[0].split(":")[1].split(",")
    while (noun := speaker.noun(*classes)).english_plural == "-":
        pass
    if speaker.maybe(0.5):
        asked = noun_phrase(noun, pair("how many", "wie viele"), True, speaker.adjectives(noun))
    else:
        asked = noun_phrase(noun, "which", speaker.maybe(0.3), speaker.adjectives(noun))
    tense = "present" if "p" in verb.uses else speaker.pick(["past", "past", "want", "will"])
    said = speaker.clause(speaker.subject(0.6, asked=True), tense, verb, question=True, time=0.3, parts=[])
    return question(said, asked.pair("acc"))


DIRECT = (who, what, whom, to_whom, where, where, when_or_why, when_or_why, how_many)
INDIRECT = (what, whom, to_whom, where, where, when_or_why, when_or_why)
