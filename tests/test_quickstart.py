"""The quick-start corpus: what is committed is what the generator writes, the splits are disjoint, and the grammar is right."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "data" / "quickstart"
sys.path.insert(0, str(FOLDER))
clauses, generate, lexicon, phrases, sentences = map(importlib.import_module, ("clauses", "generate", "lexicon", "phrases", "sentences"))
sys.path.remove(str(FOLDER))

COUNTS = {"train": 20_000, "valid": 500, "test": 500, "handwritten": 200}
GENERATED = ("train", "valid", "test")


def lines(name: str) -> list[str]:
    return (FOLDER / name).read_bytes().decode("utf-8").removesuffix("\n").split("\n")


CORPUS = {split: (lines(f"{split}.en"), lines(f"{split}.de")) for split in COUNTS}


def test_the_generator_writes_what_is_committed(tmp_path: Path) -> None:
    generate.write(tmp_path)
    names = [f"{split}.{suffix}" for split in GENERATED for suffix in ("en", "de", "align")]
    assert [name for name in names if (tmp_path / name).read_bytes() != (FOLDER / name).read_bytes()] == []


def test_counts() -> None:
    assert {split: (len(english), len(german)) for split, (english, german) in CORPUS.items()} == {
        split: (count, count) for split, count in COUNTS.items()
    }


@pytest.mark.parametrize("side", [0, 1])
def test_no_sentence_comes_twice(side: int) -> None:
    everything = [line for split in COUNTS for line in CORPUS[split][side]]
    assert len(set(everything)) == len(everything) == sum(COUNTS.values())


def test_lines_are_short_printable_sentences() -> None:
    for split, sides in CORPUS.items():
        for number, line in enumerate((line for side in sides for line in side), start=1):
            assert 3 <= len(line.split(" ")) <= 25, (split, number, line)
            assert line.isprintable() and "  " not in line and line == line.strip(), (split, number, line)
            assert line[0].isupper() and line[-1] in ".?!", (split, number, line)


def test_a_pair_ends_with_the_same_sign() -> None:
    for sides in CORPUS.values():
        assert [pair for pair in zip(*sides, strict=True) if (pair[0][-1] == "?") != (pair[1][-1] == "?")] == []


@pytest.mark.parametrize("split", GENERATED)
def test_every_word_is_aligned_and_no_link_leaves_the_pair(split: str) -> None:
    links = lines(f"{split}.align")
    assert len(links) == COUNTS[split]
    for english, german, line in zip(*CORPUS[split], links, strict=True):
        pairs = [tuple(map(int, link.split("-"))) for link in line.split(" ")]
        assert len(set(pairs)) == len(pairs), line
        assert {i for i, _ in pairs} == set(range(len(english.split(" ")))), (english, line)
        assert {j for _, j in pairs} == set(range(len(german.split(" ")))), (german, line)


def test_the_alignment_of_a_pair() -> None:
    """Words that a person linked, in a sentence with a separated prefix, a contraction and a bracket."""
    i, aunt = phrases.pronoun("I"), phrases.noun_phrase(lexicon.NOUN["aunt"], "my")
    called = clauses.clause(i, verb("call"), "present", [clauses.Part("definite", aunt.pair("acc"))])
    assert generate.finish(sentences.statement(called), ".") == (
        "I call my aunt.",
        "Ich rufe meine Tante an.",
        [(0, 0), (1, 1), (1, 4), (2, 2), (3, 3)],
    )
    garden = phrases.prepositional("in", "in", phrases.noun_phrase(lexicon.NOUN["garden"], "the"), "dat")
    worked = clauses.clause(i, verb("work"), "past", [clauses.Part("place", garden)])
    assert generate.finish(sentences.statement(worked), ".") == (
        "I worked in the garden.",
        "Ich habe im Garten gearbeitet.",
        [(0, 0), (1, 1), (1, 4), (2, 2), (3, 2), (4, 3)],
    )


def verb(base: str):
    return sentences.some_verb(base)


def adjectives(*names: str) -> list:
    return [adjective for name in names for adjective, _ in lexicon.ADJECTIVE if adjective.english == name]


@pytest.mark.parametrize(
    ("english", "determiner", "plural", "adjective", "nominative", "accusative", "dative"),
    [
        ("dog", "the", False, "small", "der kleine Hund", "den kleinen Hund", "dem kleinen Hund"),
        ("dog", "a", False, "small", "ein kleiner Hund", "einen kleinen Hund", "einem kleinen Hund"),
        ("cat", "a", False, "old", "eine alte Katze", "eine alte Katze", "einer alten Katze"),
        ("cat", "this", False, "old", "diese alte Katze", "diese alte Katze", "dieser alten Katze"),
        ("book", "my", False, "new", "mein neues Buch", "mein neues Buch", "meinem neuen Buch"),
        ("book", "the", False, "new", "das neue Buch", "das neue Buch", "dem neuen Buch"),
        ("child", "every", False, "small", "jedes kleine Kind", "jedes kleine Kind", "jedem kleinen Kind"),
        ("child", "", True, "small", "kleine Kinder", "kleine Kinder", "kleinen Kindern"),
        ("friend", "our", True, "new", "unsere neuen Freunde", "unsere neuen Freunde", "unseren neuen Freunden"),
        ("apple", "many", True, "red", "viele rote Äpfel", "viele rote Äpfel", "vielen roten Äpfeln"),
        ("car", "these", True, "expensive", "diese teuren Autos", "diese teuren Autos", "diesen teuren Autos"),
        ("boy", "the", False, "tall", "der große Junge", "den großen Jungen", "dem großen Jungen"),
        ("neighbour", "her", False, "nice", "ihr netter Nachbar", "ihren netten Nachbarn", "ihrem netten Nachbarn"),
        ("student", "which", False, "young", "welcher junge Student", "welchen jungen Studenten", "welchem jungen Studenten"),
        ("milk", "", False, "fresh", "frische Milch", "frische Milch", "frischer Milch"),
        ("coffee", "", False, "hot", "heißer Kaffee", "heißen Kaffee", "heißem Kaffee"),
        ("bread", "", False, "fresh", "frisches Brot", "frisches Brot", "frischem Brot"),
    ],
)
def test_declension(english: str, determiner: str, plural: bool, adjective: str, nominative: str, accusative: str, dative: str) -> None:
    determiner = "this" if determiner == "these" else determiner
    phrase = phrases.noun_phrase(lexicon.NOUN[english], determiner, plural, adjectives(adjective))
    said = [" ".join(word.text for word in phrase.german[case]) for case in ("nom", "acc", "dat")]
    assert said == [nominative, accusative, dative]


def test_numbers_and_possessing_names_take_strong_endings() -> None:
    two = phrases.noun_phrase(lexicon.NOUN["dog"], phrases.entry("two:zwei"), True, adjectives("small"))
    annas = phrases.noun_phrase(lexicon.NOUN["bicycle"], phrases.pair("Anna's", "Annas"), False, adjectives("new"))
    texts = [" ".join(word.text for word in phrase.german[case]) for phrase in (two, annas) for case in ("acc", "dat")]
    assert texts == ["zwei kleine Hunde", "zwei kleinen Hunden", "Annas neues Fahrrad", "Annas neuem Fahrrad"]


def said(pair: phrases.Pair) -> list[str]:
    return [" ".join(word.text for word in side) for side in pair]


def thing(noun: str, determiner: str = "the", *names: str, slot: str = "definite", case: str = "acc") -> clauses.Part:
    return clauses.Part(slot, phrases.noun_phrase(lexicon.NOUN[noun], determiner, False, adjectives(*names)).pair(case))


@pytest.mark.parametrize(
    ("order", "pronoun", "base", "tense", "parts", "english", "german"),
    [
        ("main", "I", "see", "past", [thing("man", "the", "old")], "I saw the old man", "ich habe den alten Mann gesehen"),
        ("main", "she", "call", "present", [thing("mother", "her")], "she calls her mother", "sie ruft ihre Mutter an"),
        ("because", "he", "read", "progressive", [thing("book")], "because he is not reading the book", "weil er das Buch nicht liest"),
        (
            "because",
            "she",
            "call",
            "past",
            [thing("aunt", "my")],
            "because she did not call my aunt",
            "weil sie meine Tante nicht angerufen hat",
        ),
        ("that", "you", "invite", "present", [thing("friend", "your")], "that you invite your friend", "dass du deinen Freund einlädst"),
        ("that", "they", "get up", "must", [], "that they must get up", "dass sie aufstehen müssen"),
        ("main", "you", "go", "past", [], "you went", "du bist gegangen"),
        ("main", "he", "help", "present", [thing("child", slot="dative", case="dat")], "he helps the child", "er hilft dem Kind"),
        ("main", "he", "read", "gern", [thing("newspaper")], "he likes to read the newspaper", "er liest gern die Zeitung"),
        ("question", "he", "sleep", "past", [], "did he sleep", "hat er geschlafen"),
        ("question", "you", "rest", "progressive", [], "are you resting", "ruhst du dich aus"),
        ("question", "she", "drive", "have to", [], "does she have to drive", "muss sie fahren"),
        ("question", "you", "wash", "present", [thing("car", "your")], "do you wash your car", "wäschst du dein Auto"),
        ("main", "we", "have", "past", [thing("dog", "a", slot="object")], "we had a dog", "wir hatten einen Hund"),
        ("main", "I", "wait", "will", [], "I will wait", "ich werde warten"),
    ],
)
def test_clauses(order: str, pronoun: str, base: str, tense: str, parts: list, english: str, german: str) -> None:
    negated = " not " in english
    parts = [part._replace(slot="known") if negated and part.slot == "definite" else part for part in parts]
    clause = clauses.clause(
        phrases.pronoun(pronoun), verb(base), tense, [*parts, *sentences.not_(negated)], support=negated or order == "question"
    )
    conjunctions = {"because": "because:weil", "that": "that:dass"}
    if order in conjunctions:
        assert said(sentences.subordinate(phrases.entry(conjunctions[order]), clause)) == [english, german]
    else:
        assert said(sentences.question(clause) if order == "question" else sentences.statement(clause)) == [english, german]


def test_kein_stands_for_not_and_the_article() -> None:
    negation = phrases.new_mark()
    dog = phrases.noun_phrase(lexicon.NOUN["dog"], "a", negation=negation)
    no = clauses.Part("not", phrases.Pair(phrases.words("not", negation), ()))
    clause = clauses.clause(phrases.pronoun("we"), verb("have"), "present", [clauses.Part("object", dog.pair("acc")), no], support=True)
    assert generate.finish(sentences.statement(clause), ".") == (
        "We do not have a dog.",
        "Wir haben keinen Hund.",
        [(0, 0), (1, 1), (2, 2), (3, 1), (4, 2), (5, 3)],
    )


def test_prepositions_contract_with_the_article() -> None:
    table = [("in", "kitchen", "dat", "in der Küche"), ("in", "garden", "dat", "im Garten"), ("in", "cinema", "acc", "ins Kino")]
    table += [
        ("zu", "station", "dat", "zum Bahnhof"),
        ("mit", "dog", "dat", "mit dem kleinen Hund"),
        ("auf", "table", "acc", "auf den Tisch"),
    ]
    for german, noun, case, expected in table:
        phrase = phrases.noun_phrase(lexicon.NOUN[noun], "the", False, adjectives("small") if noun == "dog" else [])
        assert said(phrases.prepositional("to", german, phrase, case))[1] == expected


def test_a_word_of_a_pair_needs_links() -> None:
    with pytest.raises(ValueError, match="need links"):
        phrases.pair("at the moment", "im Moment")
