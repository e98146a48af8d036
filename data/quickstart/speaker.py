"""Chance: a speaker who picks subjects, objects, places and times that go together, and says a clause with them."""

from collections.abc import Sequence
from random import Random

from clauses import MODALS, Clause, Part, clause
from lexicon import (
    CITIES,
    COUNTRIES,
    DAYS,
    FREQUENCIES,
    GAMES,
    LANGUAGES,
    MANNERS,
    NAMES,
    NOUN,
    NUMBERS,
    PLACES,
    TIMES,
    Adjective,
    Noun,
    Verb,
    adjectives_for,
    listed,
    nouns_of,
    verbs_for,
)
from phrases import NounPhrase, Pair, both, entry, join, name, new_mark, noun_phrase, pair, prepositional, pronoun, words

# relatives that do not go together as subject and object ("my grandmother visits her grandfather"), and plurals with their singulars
KIN = {"grandfather": "grandmother"} | {noun.english_plural: noun.english for noun in NOUN.values()}
# the letter of Verb.uses that a tense asks for, and the letter of TIMES that goes with it
USES = {"present": "p", "habit": "h", "progressive": "g", "past": "t", "perfect": "x", "gern": "l", "will": "f"}
PAST_MODALS = ("had to", "wanted")  # and "could", which English says of a single occasion only with "not"
PRESENT_MODALS = ("can", "must", "should", "would like", "have to", "want")
NEGATED_MODALS = ("can", "should", "have to", "want", "could", "wanted")
# nouns of these classes are nobody's own, unless they are close to somebody
NOT_OWNED = set(listed("adult young animal transport show plant event stop food drink place title paper sent told sung visited explained"))
OWNED = set(listed("close family pet room office kitchen garden flat house weekend holiday"))


class Speaker:
    """Says things by chance; the same things for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    def pick(self, items: Sequence):
        return self.chance.choice(items)

    # -------------------------------------------------------------- noun phrases

    def noun(self, *classes: str) -> Noun:
        return self.pick(nouns_of(classes))

    def adjectives(self, noun: Noun, colours: bool = False) -> list[Adjective]:
        """No adjective, one or two that suit the noun, in the order of their ranks; `colours` where others could contradict."""
        suitable = [adjective for adjective in adjectives_for(noun) if adjective.rank == 3 or not colours]
        if not suitable or not self.maybe(0.4):
            return []
        chosen = [self.pick(suitable)]
        others = [adjective for adjective in suitable if adjective.rank != chosen[0].rank]
        if others and self.maybe(0.3):
            chosen.append(self.pick(others))
        return sorted(chosen, key=lambda adjective: adjective.rank)

    def owner(self, subject: NounPhrase | None) -> str | Pair:
        """A possessive: mostly that of the subject, otherwise anybody's ("my", "Anna's")."""
        if subject and subject.owner and self.maybe(0.8):
            return subject.owner
        if self.maybe(0.4):
            friend = self.pick(NAMES["m"] + NAMES["f"])
            if not subject or friend != subject.subject[0].text:
                return pair(f"{friend}'s", f"{friend}s")
        return self.pick(["my", "your", "our"])

    def phrase(
        self, noun: Noun, kinds: str, subject: NounPhrase | None = None, negation: int | None = None, colours: bool = False
    ) -> NounPhrase:
        """A noun with a determiner of the allowed kinds (i indefinite, a only "a", d definite, p possessive, b none) and adjectives.

        With `negation`, the mark of "not", an indefinite phrase is said with "kein".
        """
        allowed = [kind for kind in kinds if kind != "p" or noun.classes.isdisjoint(NOT_OWNED) or not noun.classes.isdisjoint(OWNED)]
        kind = "p" if "family" in noun.classes else self.pick(allowed or ["d"])
        mass = "mass" in noun.classes
        single = noun.english_plural == "-" or kind == "a" or (kind == "p" and not noun.classes.isdisjoint(("place", "building")))
        plural = noun.gender == "p" or (not single and self.maybe(1.0 if kind == "b" else 0.25))
        determiner: str | Pair = ""
        if kind == "d":
            determiner = self.pick(["the", "the", "the", "this"])
        elif kind == "p":
            determiner = self.owner(subject)
        elif kind in "ai" and not mass and not plural:
            determiner = "a"
        elif kind == "i" and plural and negation is None and self.maybe(0.6):
            determiner = self.pick(["many", "some", *(entry(number) for number in NUMBERS[:6])])
        indefinite = determiner in ("", "a")
        return noun_phrase(noun, determiner, plural, self.adjectives(noun, colours), negation if indefinite else None)

    def person(self) -> NounPhrase:
        gender = self.pick("mf")
        return name(self.pick(NAMES[gender]), gender)

    def subject(self, pronouns: float = 0.4, asked: bool = False, certain: bool = False) -> NounPhrase:
        """Somebody: a pronoun, a name, a person, two people.

        With `asked` not the speaker (one does not ask about oneself), and with `certain` or `asked` neither "every" nor "some".
        """
        if self.maybe(pronouns):
            return pronoun(self.pick(["you", "he", "she", "they"] if asked else ["I", "you", "he", "she", "we", "they"]))
        if self.maybe(0.3):
            return self.person()
        if self.maybe(0.1):
            first = self.person()
            return both(first, self.phrase(self.noun("family"), "p", first))
        noun = self.noun("person", "family", "close")
        if asked or certain or "family" in noun.classes or self.maybe(0.8):
            return self.phrase(noun, "d")
        if self.maybe(0.4):
            return noun_phrase(noun, "every", False, self.adjectives(noun))
        some = self.pick(["a", "some", "many", *(entry(number) for number in NUMBERS[:6])])
        return noun_phrase(noun, some, some != "a", self.adjectives(noun))

    def object(self, classes: str, kinds: str, subject: NounPhrase, negation: int | None = None, pronouns: bool = False) -> NounPhrase:
        """Somebody or something else than the subject."""
        people = not {"family", "person", "close"}.isdisjoint(classes.split(","))
        while True:
            if people and pronouns and self.maybe(0.2):
                found = pronoun(self.pick(["I", "you", "he", "she", "we", "they"]))
                if found.person == subject.person or {found.person, subject.person} <= {0, 3}:
                    continue
            elif people and self.maybe(0.15):
                found = self.person()
            else:
                found = self.phrase(self.noun(*classes.split(",")), kinds, subject, negation)
            if KIN.get(head := found.object[-1].text, head) not in [KIN.get(word.text, word.text) for word in subject.object]:
                return found

    # -------------------------------------------------------------- what goes with a verb

    def arguments(self, verb: Verb, subject: NounPhrase, negation: int | None = None) -> list[Part]:
        """The parts that the verb's frame asks for; the optional ones now and then."""
        parts = []
        for item in verb.frame:
            kind, *rest = item.split(":")
            if kind.endswith("?") and (negation is not None or not self.maybe(0.35)):
                continue
            parts.append(getattr(self, f"_{kind.removesuffix('?')}")(verb, subject, negation, *rest))
        return parts

    def _acc(self, verb: Verb, subject: NounPhrase, negation: int | None, classes: str, kinds: str) -> Part:
        alone = not any(item.startswith("dat") for item in verb.frame) and (" " not in verb.base or verb.base == "look for")
        found = self.object(classes, kinds, subject, negation, pronouns=alone and "p" in kinds)
        certain = "known" if len(found.object) == 1 else "definite"
        slot = "pronoun" if found.pronoun else certain if found.known else "object"
        return Part(slot, found.pair("acc"))

    def _dat(self, verb: Verb, subject: NounPhrase, negation: int | None, classes: str, kinds: str) -> Part:
        return Part("dative", self.object(classes, kinds, subject, pronouns=True).pair("dat"))

    def _dative_to(self, verb: Verb, subject: NounPhrase, negation: int | None, classes: str, kinds: str) -> Part:
        to = self.object(classes, kinds, subject)
        mark = to.object[0].marks
        return Part("dative_to", Pair((*words("to", *mark), *to.object), to.german["dat"]))

    def _prep(self, verb: Verb, subject: NounPhrase, negation: int | None, *rest: str) -> Part:
        english, german, case, classes, kinds = rest
        return Part("complement", prepositional(english, german, self.object(classes, kinds, subject, pronouns=True), case))

    def _place(self, verb: Verb, subject: NounPhrase, negation: int | None, classes: str) -> Part:
        if classes == "live" and self.maybe(0.3):
            return Part("place", join(pair("in", "in"), entry(self.pick(CITIES))))
        return Part(
            "scene" if verb.frame[0].startswith("acc") else "place", self.place(self.noun(classes), subject, classes in ("live", "work"))
        )

    def place(self, noun: Noun, subject: NounPhrase | None = None, indefinite: bool = False) -> Pair:
        english, german, _ = PLACES.get(noun.english, ("in", "in", "in"))
        return prepositional(english, german, self.somewhere(noun, subject, indefinite), "dat")

    def somewhere(self, noun: Noun, subject: NounPhrase | None, indefinite: bool = False) -> NounPhrase:
        choices = ["the"] * 5 + ["this"]
        if subject and subject.owner and not noun.classes.isdisjoint(OWNED):
            choices += [subject.owner] * 2
        if indefinite and "garden" not in noun.classes:
            choices += ["a"] * 2
        determiner = self.pick(choices)
        return noun_phrase(noun, determiner, False, self.adjectives(noun))

    def _to(self, verb: Verb, subject: NounPhrase, negation: int | None, classes: str) -> Part:
        if verb.base == "go" and self.maybe(0.3):
            return Part("place", entry(self.pick(["home:nach Hause", "to bed:ins Bett", "to school:zur Schule", "to work:zur Arbeit"])))
        noun = self.noun(*classes.split(","))
        german = PLACES.get(noun.english, ("in", "in", "in"))[2]
        return Part("place", prepositional("to", german, self.somewhere(noun, None), "dat" if german == "zu" else "acc"))

    def _abroad(self, verb: Verb, subject: NounPhrase, negation: int | None) -> Part:
        return Part("place", join(pair("to", "nach"), entry(self.pick(CITIES + COUNTRIES))))

    def _home(self, verb: Verb, subject: NounPhrase, negation: int | None) -> Part:
        return Part("place", entry(self.pick(["at home:zu Hause", "at home:zu Hause", "in bed:im Bett", "here:hier"])))

    def _with(self, verb: Verb, subject: NounPhrase, negation: int | None, classes: str) -> Part:
        return Part("with", prepositional("with", "mit", self.object(classes, "p", subject, pronouns=True), "dat"))

    def _for(self, verb: Verb, subject: NounPhrase, negation: int | None) -> Part:
        return Part("for", prepositional("for", "für", self.object("family,close", "p", subject, pronouns=True), "acc"))

    def _by(self, verb: Verb, subject: NounPhrase, negation: int | None) -> Part:
        vehicle, fahrzeug = self.pick([("train", "Zug"), ("bus", "Bus"), ("car", "Auto")])
        return Part("with", pair(f"by {vehicle}", f"mit dem {fahrzeug}", "0-0 0-1 1-2"))

    def _how(self, verb: Verb, subject: NounPhrase, negation: int | None, allowed: str) -> Part:
        return Part("manner", entry(self.pick([manner for manner in MANNERS if manner.split(":")[0] in allowed.split(",")])))

    def _game(self, verb: Verb, subject: NounPhrase, negation: int | None) -> Part:
        return Part("complement", entry(self.pick(GAMES[:4] if negation is not None else GAMES)))

    def _language(self, verb: Verb, subject: NounPhrase, negation: int | None) -> Part:
        english, german = entry(self.pick(LANGUAGES))
        return Part("complement", Pair(english, german if negation is None else words("kein", negation) + german))

    def _at(self, verb: Verb, subject: NounPhrase, negation: int | None) -> Part:
        return Part("at", self.clock())

    def clock(self) -> Pair:
        return join(pair("at", "um"), entry(self.pick(NUMBERS)), pair("o'clock", "Uhr"))

    # -------------------------------------------------------------- times and clauses

    def time(self, tense: str, exact: bool = False) -> Pair:
        """A time that goes with the tense; an exact one is a day, to stand beside "at nine o'clock"."""
        letter = (
            "h"
            if tense == "habit"
            else "t"
            if tense in (*PAST_MODALS, "could")
            else "m"
            if tense in MODALS and tense != "will"
            else USES[tense]
        )
        if exact:
            return entry({"t": "yesterday:gestern", "f": "tomorrow:morgen", "h": "every day:jeden Tag"}.get(letter, "today:heute"))
        if letter in "tfm" and self.maybe(0.2):
            return join(pair("on", "am"), entry(self.pick(DAYS)))
        return pair(*self.pick(TIMES[letter].split("|")).split(":"))

    def verb(self, tense: str, also: str = "") -> Verb:
        """A verb that can be said in the tense, and that has the use `also`."""
        return self.pick(verbs_for(USES.get(tense, "m"), also))

    def tense(self, asked: bool = False) -> str:
        """A tense or a modal; English asks with "have to" and not with "must"."""
        modals = [modal for modal in PRESENT_MODALS if not asked or modal != "must"]
        tenses = ["progressive", "past"] * 4 + ["habit", "present", "will", "gern"] * 2 + ["perfect"]
        return self.pick([*tenses, *[self.pick(modals)] * 3, self.pick(PAST_MODALS)])

    def clause(
        self,
        subject: NounPhrase,
        tense: str,
        verb: Verb | None = None,
        negated: bool = False,
        question: bool = False,
        time: float = 0.4,
        parts: list[Part] | None = None,
    ) -> Clause:
        """A clause with the subject; what is not given is picked. `time` is the probability of an adverb of time."""
        verb = verb or self.verb(tense)
        negation = new_mark() if negated else None
        if parts is None:
            parts = self.arguments(verb, subject, negation)
        if negated or tense == "perfect":
            parts = [part._replace(slot="known") if part.slot == "definite" else part for part in parts]
            parts = [part for part in parts if part.slot != "at" or tense != "perfect"]
        if negation is not None:
            absorbed = any(negation in word.marks for part in parts for word in part.phrase.german)
            parts.append(Part("not", Pair(words("not", negation), () if absorbed else words("nicht", negation))))
        if tense == "perfect":
            parts.append(Part("yet", pair("yet", "noch")) if negated else Part("already", pair("already", "schon")))
        elif tense == "habit":
            often = not question and self.maybe(0.5)
            parts = [part for part in parts if part.slot != "scene"] if often else parts
            parts.append(Part("often", entry(self.pick(FREQUENCIES))) if often else Part("time", self.time(tense)))
        elif tense not in ("present", "gern") and self.maybe(time):
            parts.append(Part("time", self.time(tense, exact=any(part.slot == "at" for part in parts))))
        return clause(subject, verb, "present" if tense == "habit" else tense, parts, support=negated or question)
