"""The sentence patterns: each says something by chance, and returns it in both languages with its last sign."""

from collections.abc import Callable
from dataclasses import replace

import questions
from clauses import Part, clause
from facts import Said, being, departure, event, its_quality, lying, ownership, price, quality, there_are
from lexicon import FEELINGS, NOUN, SPECIAL, VERB, listed
from phrases import NounPhrase, Pair, entry, join, noun_phrase, pair, pronoun, words
from sentences import (
    OBJECT,
    back,
    extended,
    having,
    is_,
    main_then,
    not_,
    obstacle,
    profession,
    question,
    some_verb,
    somebody,
    statement,
    subordinate,
    then_main,
    trait,
    weather,
    with_qualities,
    with_relative,
)
from speaker import NEGATED_MODALS, Speaker

# ------------------------------------------------------------------ single clauses


def plain(speaker: Speaker) -> Said:
    return statement(speaker.clause(speaker.subject(), speaker.tense())), "."


def time_first(speaker: Speaker) -> Said:
    tense = speaker.pick(["past", "past", "will", "progressive", "had to", "wanted", "must", "can"])
    said = speaker.clause(speaker.subject(), tense, time=0)
    return statement(replace(said, front=speaker.time(tense))), "."


def negation(speaker: Speaker) -> Said:
    tense = speaker.pick(["progressive", "past", "past", "present", "present", "perfect", "will", speaker.pick(NEGATED_MODALS)])
    said = statement(speaker.clause(speaker.subject(certain=True), tense, negated=True))
    return (join(pair("No,", "Nein,"), said) if speaker.maybe(0.1) else said), "."


def yes_no(speaker: Speaker) -> Said:
    return question(speaker.clause(speaker.subject(asked=True), speaker.tense(asked=True), question=True)), "?"


def wh(speaker: Speaker) -> Said:
    return speaker.pick(questions.DIRECT)(speaker), "?"


IRREGULAR_IMPERATIVES = {"lesen": "lies", "helfen": "hilf", "geben": "gib", "werfen": "wirf"}


def imperative(speaker: Speaker) -> Said:
    """Please open the window. Please do not turn off the computer."""
    verb = speaker.pick([verb for verb in VERB if "x" in verb.uses and verb.frame[0][:3] in ("acc", "dat")])
    verb = speaker.pick([verb, verb, verb, some_verb("buy"), some_verb("help"), some_verb("wait")])
    stem = verb.ich.removesuffix("e")
    form = IRREGULAR_IMPERATIVES.get(verb.infinitive, verb.ich if stem.endswith(("t", "d", "fn", "er")) else stem)
    negated = speaker.maybe(0.25)
    said = speaker.clause(pronoun("you"), "progressive", verb, negated=negated, time=0)
    (mark,) = said.finite[0].marks
    silent = NounPhrase((), (), {"nom": ()}, 1, "m", pronoun=True)
    said = replace(
        said, subject=silent, auxiliary=words("do", mark) if negated else (), verb=words(verb.base, mark), finite=words(form, mark)
    )
    return join(entry("please:bitte"), Pair(said.english(), said.verb_first())), "."


# ------------------------------------------------------------------ two clauses


def because(speaker: Speaker) -> Said:
    """Somebody does not do something because, or does it although, there is an obstacle; either clause can come first."""
    subject = somebody(speaker)
    past = speaker.maybe(0.5)
    if speaker.maybe(0.6):
        conjunction = pair("because", "weil")
        tense = speaker.pick(["past", "could"] if past else ["can", "want", "progressive"])
    else:
        conjunction = pair("although", "obwohl")
        tense = speaker.pick(["past", "wanted"] if past else ["progressive", "want"])
    verb = speaker.verb(tense, "m")
    main = speaker.clause(subject, tense, verb, negated=conjunction.german[0].text == "weil")
    reason = subordinate(conjunction, obstacle(speaker, subject, "past" if past else "present", verb))
    return (then_main(reason, main) if speaker.maybe(0.3) else main_then(statement(main), reason)), "."


def but(speaker: Speaker) -> Said:
    subject = somebody(speaker)
    tense = speaker.pick(["would like", "want", "wanted"])
    verb = speaker.verb(tense)
    hindered = obstacle(speaker, subject, "past" if tense == "wanted" else "present", verb)
    wish = statement(speaker.clause(subject, tense, verb))
    return main_then(wish, join(pair("but", "aber"), statement(hindered)), ","), "."


def that(speaker: Speaker) -> Said:
    """I think that … (dass)"""
    verb = SPECIAL[speaker.pick(["glauben", "wissen", "hoffen", "sagen"])]
    while (subject := speaker.subject(0.5, certain=True)).person in ((0, 1, 3) if verb.base == "say" else (1,)):
        pass
    tenses = ["progressive", "past", "past", "will", "present", "can", "have to", "habit", "want"]
    negated = speaker.maybe(0.25)
    if negated:
        tenses = ["past", "can", "want", "will"]
    tense = speaker.pick(["will", "can"] if verb.base == "hope" and not negated else ["will"] if verb.base == "hope" else tenses)
    content = speaker.clause(speaker.subject(certain=negated), tense, negated=negated)
    return main_then(statement(clause(subject, verb, "present")), subordinate(pair("that", "dass"), content)), "."


def indirect_question(speaker: Speaker) -> Said:
    """I do not know whether … (ob), where … (wo). Do you know when …?"""
    asked = subordinate(pair("whether", "ob"), speaker.clause(speaker.subject(certain=True), speaker.tense()))
    if speaker.maybe(0.65):
        asked = speaker.pick(questions.INDIRECT)(speaker, False)
    if speaker.maybe(0.35):
        return main_then(question(clause(speaker.subject(0.9, asked=True), SPECIAL["wissen"], "present", support=True)), asked), "?"
    while (subject := speaker.subject(0.7, certain=True)).person == 1:
        pass
    return main_then(statement(clause(subject, SPECIAL["wissen"], "present", not_(True), support=True)), asked), "."


def condition(speaker: Speaker) -> Said:
    """When it rains, … (wenn); If the weather is nice, …; When she was ill, … (als); Before he goes to bed, … (bevor)"""
    return speaker.pick([whenever, if_, once, before])(speaker), "."


def whenever(speaker: Speaker) -> Pair:
    subject = somebody(speaker)
    feeling = is_(subject, entry(speaker.pick(FEELINGS)))
    first = subordinate(pair("when", "wenn"), feeling if speaker.maybe(0.6) else weather(speaker, "habit"))
    usual = some_verb(speaker.pick(["stay", "read", "watch television", "drink", "cook", "call", "eat", "go", "help"]))
    who = back(subject) if first.english[1].text != "it" and first.english[2].text != "weather" else subject
    return then_main(first, speaker.clause(who, "present", usual, time=0))


def if_(speaker: Speaker) -> Pair:
    subject = somebody(speaker)
    plan = speaker.pick(["will", "can", "would like"])
    if speaker.maybe(0.5):
        day = Part("time", entry(speaker.pick(["tomorrow:morgen", "today:heute", "on Sunday:am Sonntag", "on Saturday:am Samstag"])))
        sky = is_(noun_phrase(NOUN["weather"], "the"), entry(speaker.pick(["nice:schön", "good:gut"])), day)
        return then_main(subordinate(pair("if", "wenn"), sky), speaker.clause(subject, plan, speaker.verb(plan, "l"), time=0))
    thing, plans = speaker.pick([("time", "read visit help cook play call tidy_up"), ("money", "buy travel rent fly order")])
    first = subordinate(pair("if", "wenn"), having(subject, thing, entry("enough:genug")))
    wish = some_verb(speaker.pick(listed(plans)).replace("_", " "))
    return then_main(first, speaker.clause(back(subject), plan, wish, time=0.2))


def once(speaker: Speaker) -> Pair:
    subject = somebody(speaker)
    feeling, tense, negated = speaker.pick([("young:jung", "wanted", False), ("ill:krank", "could", True), ("tired:müde", "could", True)])
    first = subordinate(pair("when", "als"), is_(subject, entry(feeling), tense="past"))
    return then_main(first, speaker.clause(back(subject), tense, speaker.verb(tense, "l"), negated=negated, time=0))


def before(speaker: Speaker) -> Pair:
    subject = somebody(speaker)
    go = Part("place", entry(speaker.pick(["to bed:ins Bett", "to bed:ins Bett", "to work:zur Arbeit"])))
    usual = some_verb(speaker.pick(["read", "drink", "eat", "call", "watch television", "tidy up", "feed", "cook"]))
    if speaker.maybe(0.5):
        first = subordinate(pair("before", "bevor"), clause(subject, some_verb("go"), "present", [go]))
        return then_main(first, speaker.clause(back(subject), "present", usual, time=0))
    second = subordinate(pair("before", "bevor"), clause(back(subject), some_verb("go"), "present", [go]))
    return main_then(statement(speaker.clause(subject, "present", usual, time=0)), second)


def joined(speaker: Speaker) -> Said:
    """Two people do two things: and, while (während)."""
    one = somebody(speaker)
    while (other := somebody(speaker)).owner == one.owner:
        pass
    if speaker.maybe(0.4):
        first, second = (speaker.clause(subject, "progressive", speaker.verb("progressive", "l"), time=0) for subject in (one, other))
        meanwhile = subordinate(pair("while", "während"), second)
        return (then_main(meanwhile, first) if speaker.maybe(0.5) else main_then(statement(first), meanwhile)), "."
    tense = speaker.pick(["progressive", "past", "past", "will"])
    first, second = (speaker.clause(subject, tense, time=0) for subject in (one, other))
    return join(statement(first), pair("and", "und"), statement(second)), "."


# ------------------------------------------------------------------ relative clauses


def who_relative(speaker: Speaker) -> Said:
    """The man who is working in the garden is a teacher. I know the woman who …"""
    head, who = with_relative(speaker, speaker.noun("person"))
    tense, verb = speaker.pick([("progressive", None), ("past", None), ("past", None), ("present", some_verb("live")), ("habit", None)])
    about = speaker.clause(who, tense, verb, time=0.2)
    said = Pair(about.english(), about.verb_final())
    if speaker.maybe(0.5):
        verb = some_verb(speaker.pick(["know", "know", "like", "help", "see", "trust"]))
        tense = "progressive" if verb.base == "help" else "present"
        whom = extended(head, said).pair("dat" if verb.frame[0].startswith("dat") else "acc")
        if speaker.maybe(0.2):
            return question(clause(speaker.subject(1, asked=True), verb, tense, [Part("object", whom)], support=True)), "?"
        return statement(clause(speaker.subject(0.7, certain=True), verb, tense, [Part("object", whom)])), "."
    free = head.subject[-1].text in ("man", "woman", "neighbour", "colleague", "guest")
    what = profession(speaker, head.gender) if free and speaker.maybe(0.5) else entry(trait(speaker, head))
    return statement(is_(extended(head, said, ","), what)), "."


def that_relative(speaker: Speaker) -> Said:
    """The book that he bought yesterday is very interesting."""
    verb, kind, noun = speaker.pick(with_qualities("buy", "sell", "read", "wear", "repair", "find", "carry", "order", "write"))
    if "mass" in noun.classes:
        return that_relative(speaker)
    head, which = with_relative(speaker, noun, colours=True)
    parts = [part for part in speaker.arguments(verb, pronoun("he")) if part.slot not in OBJECT]
    about = speaker.clause(speaker.subject(0.6, certain=True), "past", verb, time=0.4, parts=parts)
    said = Pair(which.object + about.english(), which.german["acc"] + about.verb_final())
    return statement(is_(extended(head, said, ","), quality(speaker, kind), negation=speaker.maybe(0.15))), "."


PATTERNS: dict[Callable[[Speaker], Said], int] = {
    plain: 20,
    time_first: 9,
    negation: 11,
    yes_no: 7,
    wh: 12,
    imperative: 4,
    because: 8,
    but: 3,
    that: 6,
    indirect_question: 5,
    condition: 7,
    joined: 4,
    who_relative: 5,
    that_relative: 4,
    being: 10,
    its_quality: 4,
    lying: 6,
    there_are: 1,
    departure: 2,
    event: 2,
    price: 2,
    ownership: 2,
}


def any_sentence(speaker: Speaker) -> Said:
    (pattern,) = speaker.chance.choices(list(PATTERNS), list(PATTERNS.values()))
    return pattern(speaker)
