"""What differs between languages, by their codes."""

import functools
import unicodedata

# the three-letter codes (ISO 639-3, and 639-2 where it differs) of the languages that something here depends on
SHORT_CODES = {
    "zho": "zh",
    "chi": "zh",
    "cmn": "zh",
    "jpn": "ja",
    "kor": "ko",
    "tha": "th",
    "lao": "lo",
    "mya": "my",
    "bur": "my",
    "khm": "km",
}
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
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
    "ETHIOPIC": "am ti",
    "CJK BOPOMOFO": "zh",
    "CJK HIRAGANA KATAKANA": "ja",
    "CJK HANGUL": "ko",
}
SCRIPT_NAMES = frozenset(" ".join(SCRIPTS).split())
SPACELESS = frozenset(("zh", "ja", "th", "lo", "my", "km"))


def base_language(code: str) -> str:
    """The two-letter code of a language without its region or script: "zh" for "zh-CN", "zh_Hant" and "cmn"."""
    language = code.lower().replace("_", "-").split("-")[0]
    return SHORT_CODES.get(language, language)


def word_separator(code: str) -> str:
    """What stands between two sentences of a language: a space, or nothing where it writes no spaces."""
    return "" if base_language(code) in SPACELESS else " "


def scripts(code: str) -> frozenset[str]:
    """The scripts that a language is written in, by the names in SCRIPTS; none where that is not known, or differs."""
    return frozenset(" ".join(names for names, codes in SCRIPTS.items() if base_language(code) in codes.split()).split())


@functools.cache
def script_of(char: str) -> str:
    """The script of a letter, by its name in SCRIPTS; "" for other letters and for what is no letter, or one of several scripts."""
    name = unicodedata.name(char, "").split(" ")[0]
    return name if name in SCRIPT_NAMES and unicodedata.category(char) in ("Lu", "Ll", "Lt", "Lo") else ""
