"""What differs between languages, by their codes."""

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable

# other codes of the languages that something here depends on: of three letters (ISO 639-3, and 639-2 where it differs), those of the
# Chinese languages, which are written alike, and codes of countries that are taken for those of their languages
OTHER_CODES = {
    "zh": "zho chi cmn yue wuu nan hak gan hsn cdo lzh cn",
    "ja": "jpn jp",
    "ko": "kor",
    "th": "tha",
    "lo": "lao",
    "my": "mya bur",
    "km": "khm",
    "bo": "bod tib",
    "dz": "dzo",
}
SHORT_CODES = {other: code for code, others in OTHER_CODES.items() for other in others.split()}
# the scripts, by the word that the names of their letters begin with in Unicode, of languages that are written in no other
SCRIPTS = {
    "LATIN": "af ca cs cy da de en es et eu fi fr ga gl hr hu id is it lt lv ms mt nb nl nn no pl pt ro sk sl sq sv sw tl tr vi",
    "CYRILLIC": "be bg mk ru uk",
    "GREEK": "el",
    "ARABIC": "ar fa ps ur",
    "HEBREW": "he yi",
    "DEVANAGARI": "hi mr ne sa",
    "BENGALI": "as bn",
    "GUJARATI": "gu",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAI": "th",
    "LAO": "lo",
    "MYANMAR": "my",
    "KHMER": "km",
    "TIBETAN": "bo dz",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
    "ETHIOPIC": "am ti",
    "CJK BOPOMOFO": "zh",
    "CJK HIRAGANA KATAKANA": "ja",
    "CJK HANGUL": "ko",
}
SCRIPT_NAMES = frozenset(" ".join(SCRIPTS).split())
# the scripts whose languages write no spaces between words, with the code of one of them
SPACELESS = {"CJK": "zh", "BOPOMOFO": "zh", "HIRAGANA": "ja", "KATAKANA": "ja", "THAI": "th", "LAO": "lo", "MYANMAR": "my", "KHMER": "km"}
SPACELESS |= {"TIBETAN": "bo"}


def base_language(code: str) -> str:
    """The two-letter code of a language without its region or script: "zh" for "zh-CN", "zh_Hant" and "cmn"."""
    language = code.lower().replace("_", "-").split("-")[0]
    return SHORT_CODES.get(language, language)


def word_separator(code: str) -> str:
    """What stands between two sentences of a language: a space, or nothing in Chinese and Japanese."""
    return "" if base_language(code) in ("zh", "ja") else " "


def writes_spaces(code: str) -> bool:
    """Whether a language writes spaces between its words; so does one that is not known here."""
    known = scripts(code)
    return not known or not known <= SPACELESS.keys()


def scripts(code: str) -> frozenset[str]:
    """The scripts that a language is written in, by the names in SCRIPTS; none where that is not known, or differs."""
    return frozenset(" ".join(names for names, codes in SCRIPTS.items() if base_language(code) in codes.split()).split())


@functools.cache
def script_of(char: str) -> str:
    """The script of a letter, by its name in SCRIPTS; "" for other letters and for what is no letter, or one of several scripts."""
    name = unicodedata.name(char, "").split(" ")[0]
    return name if name in SCRIPT_NAMES and unicodedata.category(char) in ("Lu", "Ll", "Lt", "Lo") else ""


def main_script(texts: Iterable[str]) -> str:
    """The script of most letters of a text, by its name in SCRIPTS; "" where it has none of these."""
    counts = Counter(script_of(char) for text in texts for char in text)
    counts.pop("", None)
    return counts.most_common(1)[0][0] if counts else ""


def is_blank(text: str) -> bool:
    """Whether nothing of a text is to be seen: it is all white space, control characters, and marks such as U+FEFF and U+200B."""
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)
