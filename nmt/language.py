"""What differs between languages, by their codes."""

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
SPACELESS = frozenset(("zh", "ja", "th", "lo", "my", "km"))


def base_language(code: str) -> str:
    """The two-letter code of a language without its region or script: "zh" for "zh-CN", "zh_Hant" and "cmn"."""
    language = code.lower().replace("_", "-").split("-")[0]
    return SHORT_CODES.get(language, language)


def word_separator(code: str) -> str:
    """What stands between two sentences of a language: a space, or nothing where it writes no spaces."""
    return "" if base_language(code) in SPACELESS else " "
