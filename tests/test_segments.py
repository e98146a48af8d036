"""Lines that are too long for a model are cut where sentences end, in the scripts that write it in other marks too."""

import pytest

from nmt.data.segments import split_sentences


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("One. Two! Three? Four… (Five.) 3.5 z. b. so", 6),
        ("我们走吧。你好！「好。」再见｡", 4),
        ("वह जाता है। वह आता है॥ ठीक", 3),
        ("هل تذهب؟ نعم. لا! حسنا", 4),
        ("وہ جاتا ہے۔ وہ آتا ہے۔ ٹھیک", 3),
        ("သူသွားသည်။သူလာသည်။ ဟုတ်", 3),
        ("គាត់ទៅ។គាត់មក។ បាទ", 3),
        ("እሱ ሄደ። እሷ መጣች። እሺ", 3),
        ("Նա գնաց։ Նա եկավ։ Լավ", 3),
    ],
)
def test_a_sentence_ends_with_the_mark_of_its_script(line: str, parts: int) -> None:
    found = list(split_sentences(line))
    assert len(found) == parts, found
    assert "".join(found).replace(" ", "") == line.replace(" ", "")
