import pytest

from nmt.language import SCRIPTS, base_language, is_blank, main_script, script_of, scripts, word_separator, writes_spaces


@pytest.mark.parametrize(("code", "base"), [("de", "de"), ("zh-CN", "zh"), ("zh_Hant", "zh"), ("JPN", "ja"), ("cmn_Hans", "zh"), ("", "")])
def test_the_language_of_a_code(code: str, base: str) -> None:
    assert base_language(code) == base


def test_where_no_spaces_are_written() -> None:
    assert {word_separator(code) for code in ("de", "ko", "", "tha", "lo", "my", "km_KH")} == {" "}
    assert {word_separator(code) for code in ("zh", "ja", "yue")} == {""}
    assert all(map(writes_spaces, ("de", "ko", "hi", "", "x-klingon")))
    assert not any(map(writes_spaces, ("zh_TW", "yue", "jp", "tha", "lo", "my", "km_KH", "bod", "dz")))


def test_what_shows_nothing_is_blank() -> None:
    assert all(map(is_blank, ("", " \t\u3000", "\ufeff", "\u200b\u200f", "\0\x1b", "\u2028")))
    assert not any(map(is_blank, ("a", "\u200bа", ".", "😀", "\u0301")))


def test_the_script_of_a_text() -> None:
    assert main_script(["a 東京", "大阪市"]) == "CJK" and main_script(["1 + 1", ""]) == ""


def test_the_scripts_of_a_language() -> None:
    assert scripts("pt-BR") == {"LATIN"} and scripts("uk") == {"CYRILLIC"} and scripts("jpn") == {"CJK", "HIRAGANA", "KATAKANA"}
    assert scripts("") == scripts("sr") == scripts("xx") == frozenset()
    codes = " ".join(SCRIPTS.values()).split()
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    ("chars", "script"),
    [
        ("aZéßÿ", "LATIN"),
        ("яЇ", "CYRILLIC"),
        ("犬㐀", "CJK"),
        ("のっ", "HIRAGANA"),
        ("개", "HANGUL"),
        ("ب", "ARABIC"),
        ("1 .µªー\u0301\ue000\ud800", ""),
    ],
)
def test_the_script_of_a_letter(chars: str, script: str) -> None:
    assert {script_of(char) for char in chars} == {script}
