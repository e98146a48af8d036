import pytest

from nmt.language import base_language, word_separator


@pytest.mark.parametrize(("code", "base"), [("de", "de"), ("zh-CN", "zh"), ("zh_Hant", "zh"), ("JPN", "ja"), ("cmn_Hans", "zh"), ("", "")])
def test_the_language_of_a_code(code: str, base: str) -> None:
    assert base_language(code) == base


def test_where_no_spaces_are_written() -> None:
    assert {word_separator(code) for code in ("de", "ko", "")} == {" "}
    assert {word_separator(code) for code in ("zh", "ja", "tha", "lo", "my", "km_KH")} == {""}
