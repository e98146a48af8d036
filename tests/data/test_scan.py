"""What is odd in lines: every kind of character by its name, scripts, blank sides, and lengths."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.scan import EXAMPLES, EXCERPT, KINDS, TextScan


def scanned(*pairs: tuple[str, str], langs: tuple[str, str] = ("en", "de")) -> TextScan:
    scan = TextScan(*langs)
    for number, pair in enumerate(pairs, start=1):
        scan.see(number, *pair)
    return scan


def found(line: str) -> set[str]:
    return set(scanned((line, line)).found())


@pytest.mark.parametrize(
    ("characters", "kind"),
    [
        ("\r", "carriage_return"),
        ("\u2028\u2029\x85", "separator"),
        ("\x0b\x0c\x1c\x1d\x1e", "control_separator"),
        ("\ufeff", "bom"),
        ("\x00\x01\x08\x0e\x1b\x1f\x7f\x80\x9f", "control"),
    ],
)
def test_every_odd_character_has_its_kind(characters: str, kind: str) -> None:
    for char in characters:
        assert found(f"a {char} b") == {kind}


def test_no_other_character_is_odd() -> None:
    chars = map(chr, (*range(0x10000), *range(0x10000, sys.maxunicode + 1, 101)))
    others = [char for char in chars if unicodedata.category(char) not in ("Cc", "Zl", "Zp", "Cs") and char != "\ufeff"]
    assert found("\t" + "".join(others)) == {"script"}


@pytest.mark.parametrize("text", ["MÃ¤nner", "grÃ¼n", "cafÃ©", "heiÃŸ", "itâ€™s", "Â£5"])
def test_utf8_taken_for_latin1(text: str) -> None:
    assert found(text) == {"mojibake"}


@pytest.mark.parametrize("text", ["AMANHÃ…", "IRMÃ”", "Âge", "GRÃ-BRETANHA", "Ã\u00a0?", "Männer", "5\u202f€"])
def test_what_only_looks_alike(text: str) -> None:
    assert not found(text)


def test_examples_say_line_side_and_the_place_that_matters() -> None:
    scan = scanned(("fine", "gut"), ("x" * 200 + "\x00" + "y" * 200, "gut"), *[("a", "\r")] * 5)
    findings = scan.found()
    (control,) = findings["control"].examples
    assert (control["line"], control["side"]) == (2, "src")
    assert control["text"].startswith("xxx") and "x\\u0000y" in control["text"] and len(control["text"]) < EXCERPT + 10
    assert findings["carriage_return"].count == 5 and len(findings["carriage_return"].examples) == EXAMPLES
    assert [example["line"] for example in findings["carriage_return"].examples] == [3, 4, 5]


def test_blank_on_one_side_is_told_with_what_stands_on_the_other() -> None:
    scan = scanned(("", "etwas"), ("text", " \u3000"), ("", " "), ("a", "b"))
    finding = scan.found()["blank_one_side"]
    assert finding.count == 2
    assert [(example["line"], example["side"], example["text"]) for example in finding.examples] == [
        (1, "src", "etwas"),
        (2, "tgt", "text"),
    ]


def test_a_side_that_has_ended() -> None:
    scan = scanned(("a", "b"))
    scan.see(2, "longer\r", None)
    told = scan.to_dict()
    assert told["lines"] == [2, 1] and told["findings"].keys() == {"carriage_return"}


@pytest.mark.parametrize(
    ("langs", "pair", "lines"),
    [
        (("en", "ru"), ("A dog sleeps", "Собака спит"), 0),
        (("ru", "en"), ("A dog sleeps", "Собака спит"), 2),
        (("en", "ja"), ("A dog", "犬がテレビでUNを見る"), 0),
        (("en", "ja"), ("A dog", "A dog"), 1),
        (("en", "de"), ("The word Собака is Russian", "Das Wort Собака ist russisch"), 0),
        (("en-GB", "zh_Hant"), ("Ünïcödé µ ª", "狗 123"), 0),
        (("el", "uk"), ("Ο σκύλος", "Собака і 犬"), 0),
        (("en", "ja"), ("...", "123 !"), 0),
    ],
)
def test_scripts(langs: tuple[str, str], pair: tuple[str, str], lines: int) -> None:
    finding = scanned(pair, langs=langs).found().get("script")
    assert (finding.count if finding else 0) == lines


def test_where_the_language_is_unknown_most_letters_decide() -> None:
    scan = scanned(*[("Собака спит", "dog")] * 3, ("dog", "Собака"), ("Кошка", "cat"), langs=("", "xx"))
    finding = scan.found()["script"]
    assert [(example["line"], example["side"]) for example in finding.examples] == [(4, "src"), (4, "tgt")]
    assert scan.foreign(0) == {"LATIN": pytest.approx(3 / 38)} and scan.foreign(1) == {"CYRILLIC": pytest.approx(6 / 18)}


def test_lengths_and_ratios() -> None:
    told = scanned(("abcd", "ab"), ("ab ", "abcd"), ("", "x"), ("abc", "abc")).to_dict()
    assert told["lines"] == [4, 4]
    assert (told["characters"]["src"]["min"], told["characters"]["src"]["max"], told["characters"]["tgt"]["mean"]) == (0, 4, 2.5)
    assert (told["ratio"]["min"], told["ratio"]["median"], told["ratio"]["max"]) == (0.5, 1, 2)
    assert TextScan("en", "de").to_dict()["ratio"] is None and told["shifts"] == []


def test_the_summary_is_one_line() -> None:
    assert scanned(("a", "b")).summary() == "nothing"
    assert scanned(("a\r", "b\r"), ("\x00a", "")).summary() == r"2 \r inside, 1 other control characters, 1 blank on one side only"


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=10))
@settings(deadline=None, max_examples=100)
def test_any_text_can_be_scanned(pairs: list[tuple[str, str]]) -> None:
    told = scanned(*pairs, langs=("", "ja")).to_dict()
    assert told["lines"] == [len(pairs)] * 2 and set(told["findings"]) <= set(KINDS)
    for finding in told["findings"].values():
        assert finding["count"] >= len(finding["examples"]) >= 1
        assert all(example["text"].isprintable() for example in finding["examples"])
