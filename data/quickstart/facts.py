"""Sentence patterns for what somebody or something is, where things are, and timetables, prices and owners."""

from dataclasses import replace

from clauses import BE, Part, clause
from lexicon import CITIES, COMPARATIVES, DAYS, FEELINGS, NOUN, POSITIONS, QUALITIES, SPECIAL, Noun, Verb, listed
from phrases import NounPhrase, Pair, entry, join, noun_phrase, pair, prepositional, pronoun, words
from sentences import (
    is_,
    main_then,
    profession,
    question,
    some_verb,
    somebody,
    statement,
    subordinate,
    trait,
    with_qualities,
)
from speaker import Speaker

Said = tuple[Pair, str]

NO_DEGREE = listed("broken new empty full delicious good")


def quality(speaker: Speaker, kind: str) -> Pair:
    """What something is, now and then very, too or really so."""
    what = entry(speaker.pick(listed(QUALITIES[kind])))
    if what.english[0].text in NO_DEGREE or speaker.maybe(0.5):
        return what
    return join(entry(speaker.pick(["very:sehr", "very:sehr", "too:zu", "really:wirklich"])), what)


# ------------------------------------------------------------------ being


def being(speaker: Speaker) -> Said:
    return speaker.pick([being_person, being_person, being_thing, being_thing, being_profession, comparison, age])(speaker)


def being_person(speaker: Speaker) -> Said:
    feeling = speaker.maybe(0.5)
    asked = speaker.maybe(0.3)
    subject = speaker.subject(asked=asked, certain=True)
    what = entry(speaker.pick(FEELINGS) if feeling else trait(speaker, subject))
    if speaker.maybe(0.4):
        what = join(entry(speaker.pick(["very:sehr", "very:sehr", "too:zu", "really:wirklich"])), what)
    if asked:
        return question(is_(subject, what)), "?"
    tense = speaker.pick(["present", "past"]) if feeling else "present"
    time = speaker.time("past") if tense == "past" else entry("today:heute")
    times = [Part("time", time)] if feeling and speaker.maybe(0.5) else []
    return statement(is_(subject, what, *times, tense=tense, negation=speaker.maybe(0.3))), "."


def being_thing(speaker: Speaker) -> Said:
    kind = speaker.pick(list(QUALITIES))
    asked = speaker.maybe(0.25)
    thing = speaker.phrase(speaker.noun(kind), "ddp", colours=True)
    said = is_(thing, quality(speaker, kind), negation=not asked and speaker.maybe(0.3))
    return (question(said), "?") if asked else (statement(said), ".")


def being_profession(speaker: Speaker) -> Said:
    subject = speaker.pick([speaker.person(), pronoun("he"), pronoun("she")])
    if speaker.maybe(0.6):
        relatives = speaker.noun("brother", "sister", "mother", "father", "uncle", "aunt", "son", "daughter")
        subject = noun_phrase(relatives, speaker.owner(None))
    said = is_(subject, profession(speaker, subject.gender))
    return (question(said), "?") if speaker.maybe(0.25) else (statement(said), ".")


def comparison(speaker: Speaker) -> Said:
    """The dog is much bigger than my cat."""
    comparative, *kinds = speaker.pick(COMPARATIVES.strip().split("\n")).split()
    kind = speaker.pick(kinds)
    first = speaker.phrase(speaker.noun(kind), "dp")
    while (second := speaker.phrase(speaker.noun(kind), "dp")).subject[-1].text == first.subject[-1].text:
        pass
    more = join(pair("much", "viel"), entry(comparative)) if speaker.maybe(0.4) else entry(comparative)
    said = is_(first, join(more, pair("than", "als"), second.pair("nom")))
    return (question(said), "?") if speaker.maybe(0.2) else (statement(said), ".")


def age(speaker: Speaker) -> Said:
    if speaker.maybe(0.15):
        return question(is_(speaker.subject(0.3, asked=True), Pair((), ())), pair("how old", "wie alt")), "?"
    number = str(speaker.chance.randrange(18, 80))
    while (subject := speaker.subject(0.3, certain=True)).person > 2:
        pass
    return statement(is_(subject, join(pair(number, number), pair("years old", "Jahre alt")))), "."


def its_quality(speaker: Speaker) -> Said:
    """She likes the jacket because it (sie) is warm: the pronoun takes the gender of the German noun."""
    verb, kind, noun = speaker.pick(with_qualities("buy", "like", "read", "wear", "eat", "drink"))
    what = speaker.pick([what for what in listed(QUALITIES[kind]) if what.split(":")[0] not in ("broken", "light", "empty", "full")])
    bad = what.split(":")[0] in ("expensive", "boring", "dirty", "old", "heavy", "difficult", "long")
    degree = entry("too:zu") if bad else entry("so:so") if speaker.maybe(0.4) and what.split(":")[0] not in NO_DEGREE else Pair((), ())
    thing = speaker.phrase(noun, "d", colours=True)
    tense = "present" if verb.base == "like" else speaker.pick(["want", "want", "wanted"] if bad else ["want", "would like"])
    said = speaker.clause(somebody(speaker), tense, verb, negated=bad, time=0, parts=[Part("definite", thing.pair("acc"))])
    it = pronoun("they") if thing.person == 4 else pronoun("it", {"m": "er", "f": "sie", "n": "es"}[thing.gender])
    reason = is_(it, join(degree, entry(what)), tense="past" if tense == "wanted" else "present")
    return main_then(statement(said), subordinate(pair("because", "weil"), reason)), "."


# ------------------------------------------------------------------ where things are, and timetables


def position(speaker: Speaker, case: str, thing: Noun) -> Pair:
    english, german, kind = speaker.pick(POSITIONS).split(":")
    noun = thing
    while noun is thing:
        noun = speaker.noun(kind)
    where = noun_phrase(noun, speaker.pick(["the", "the", "the", "this"]), False, speaker.adjectives(noun))
    return prepositional(english.replace("_", " "), german, where, case)


def lying(speaker: Speaker) -> Said:
    """The book is (liegt) on the table; The lamp is (steht) …; Where is …?; There are …; He is putting (legt, stellt) …"""
    how = speaker.pick(["lies", "stands"])
    be, put = (SPECIAL["liegen"], SPECIAL["legen"]) if how == "lies" else (SPECIAL["stehen"], SPECIAL["stellen"])
    noun = speaker.noun(how)
    kind = speaker.chance.randrange(8)
    if kind < 3:
        said = clause(speaker.phrase(noun, "dddp"), be, "present", [Part("place", position(speaker, "dat", noun))])
        return (question(said), "?") if speaker.maybe(0.2) else (statement(said), ".")
    if kind == 3:
        return question(is_(speaker.phrase(noun, "dppp"), Pair((), ())), pair("where", "wo")), "?"
    if kind == 4:
        return there_is(speaker.phrase(noun, "i"), be, position(speaker, "dat", noun)), "."
    subject = speaker.subject(0.6, certain=True)
    parts = [Part("definite", speaker.phrase(noun, "ddp", subject).pair("acc")), Part("place", position(speaker, "acc", noun))]
    tense = speaker.pick(["progressive", "past", "past", "perfect", "should", "will", "can"])
    return statement(speaker.clause(subject, tense, put, time=0.3, parts=parts)), "."


def there_is(something: NounPhrase, be: Verb, where: Pair) -> Pair:
    """There are two books on the table: Auf dem Tisch liegen zwei Bücher."""
    said = clause(something, be, "present")
    (mark,) = said.finite[0].marks
    english = words("there", mark) + said.auxiliary + something.subject + where.english
    return Pair(english, where.german + said.finite + something.german["nom"])


def there_are(speaker: Speaker) -> Said:
    if speaker.maybe(0.5):
        return there_is(speaker.phrase(speaker.noun("animal"), "i"), BE, speaker.place(speaker.noun("outdoor"))), "."
    return there_is(speaker.phrase(speaker.noun("person"), "i"), BE, speaker.place(speaker.noun("outdoor", "inroom", "go"))), "."


def departure(speaker: Speaker) -> Said:
    """The train to Berlin leaves at 9:45."""
    train = noun_phrase(NOUN[speaker.pick(["train", "bus"])], speaker.pick(["the", "the", "my", "our"]))
    if speaker.maybe(0.6):
        to = join(pair("to", "nach"), entry(speaker.pick(CITIES)))
        train = replace(train, subject=train.subject + to.english, german={**train.german, "nom": train.german["nom"] + to.german})
    verb = speaker.pick([SPECIAL["abfahren"], some_verb("arrive")])
    if speaker.maybe(0.2):
        return question(clause(train, verb, "present", support=True), entry("when:wann")), "?"
    time = f"{speaker.chance.randrange(5, 24)}:{speaker.chance.randrange(5, 60, 5):02}"
    parts = [Part("at", join(pair("at", "um"), pair(time, f"{time} Uhr")) if speaker.maybe(0.5) else speaker.clock())]
    if speaker.maybe(0.3):
        parts.append(Part("time", entry(speaker.pick(["every day:jeden Tag", "today:heute"]))))
    return statement(clause(train, verb, "present", parts)), "."


def event(speaker: Speaker) -> Said:
    """The concert takes place on Friday; The film begins at eight o'clock."""
    noun = NOUN[speaker.pick(["concert", "party", "meeting", "film"])]
    subject = noun_phrase(noun, speaker.pick(["the", "the", "this"]), False, speaker.adjectives(noun))
    day = Part("time", join(pair("on", "am"), entry(speaker.pick(DAYS))))
    tense = speaker.pick(["present", "will", "past"])
    if noun.english == "film" or speaker.maybe(0.4):
        if speaker.maybe(0.25):
            return question(clause(subject, SPECIAL["beginnen"], "present", support=True), entry("when:wann")), "?"
        parts = [Part("at", speaker.clock())] + [day] * speaker.maybe(0.4)
        return statement(clause(subject, SPECIAL["beginnen"], tense, parts)), "."
    where = [Part("place", speaker.place(speaker.noun("museum", "park", "school", "hotel", "restaurant", "library", "office")))]
    return statement(clause(subject, SPECIAL["stattfinden"], tense, [day] + where * speaker.maybe(0.6))), "."


def price(speaker: Speaker) -> Said:
    noun = speaker.noun("clothes", "furniture", "device", "vehicle", "small", "gift")
    subject = speaker.phrase(noun, "d")
    if speaker.maybe(0.25):
        return question(clause(subject, SPECIAL["kosten"], "present", support=True), pair("how much", "wie viel")), "?"
    euros = str(speaker.chance.randrange(2, 30) * (100 if "vehicle" in noun.classes else 1 if "small" in noun.classes else 5))
    return statement(clause(subject, SPECIAL["kosten"], "present", [Part("place", pair(f"{euros} euros", f"{euros} Euro"))])), "."


def ownership(speaker: Speaker) -> Said:
    """The bicycle belongs to my brother: gehört meinem Bruder."""
    subject = speaker.phrase(speaker.noun("vehicle", "furniture", "clothes", "pet", "lost", "small", "device"), "d")
    owner = Part("dative", speaker.object("family,person", "dp", subject, pronouns=True).pair("dat"))
    negated = speaker.maybe(0.25)
    if not negated and speaker.maybe(0.2):
        return question(speaker.clause(subject, "present", SPECIAL["gehören"], question=True, parts=[owner])), "?"
    return statement(speaker.clause(subject, "present", SPECIAL["gehören"], parts=[owner], negated=negated)), "."
