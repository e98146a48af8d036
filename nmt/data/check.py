"""The report on a corpus: what is in its text, what preparing it would refuse or drop, and whether its sides are aligned."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from nmt.config import CheckDataConfig, DataConfig, FilterConfig
from nmt.data import hub
from nmt.data.corpus import Row, find_files, nothing_in, sources
from nmt.data.filters import Overlap, TextFilter, nothing_left
from nmt.data.lines import BOM, decode_line, ending, line_content, raw_lines
from nmt.data.scan import EXAMPLES, KINDS, SIDES, TextScan
from nmt.data.shift import Shift
from nmt.errors import ConfigError, DataError
from nmt.language import is_blank

REFUSALS = 5  # that are told

Text = tuple[tuple[str, ...], TextScan]  # what it is read from, and what was found


def data_of(config: CheckDataConfig) -> DataConfig:
    """What `nmt check-data` shall read, as a data configuration: one is given, or two files.

    Raises:
        ConfigError: neither or both are given, or there is no text in it.
    """
    if config.data is not None and not (config.src or config.tgt or config.src_lang or config.tgt_lang):
        if not (config.data.train or config.data.valid or config.data.test):
            raise ConfigError("data.train, data.valid and data.test are empty: there is nothing to check")
        return config.data
    if config.data is not None or config.src is None or config.tgt is None:
        raise ConfigError(
            "what shall be checked? Give src= and tgt= (and src_lang=, tgt_lang=), or a data configuration such as data=files"
        )
    src_lang, tgt_lang = config.src_lang or ending(config.src), config.tgt_lang or ending(config.tgt)
    nothing = dict.fromkeys(("path", "config", "revision", "field", "src_field", "tgt_field"))
    return DataConfig(
        name="", src_lang=src_lang, tgt_lang=tgt_lang, train=[[config.src, config.tgt]], valid=[], test=[], folder="", **nothing
    )


class CorpusCheck:
    """One reading of a corpus, which goes on where `read_pairs` stops with an error."""

    def __init__(self, data: DataConfig, filters: FilterConfig) -> None:
        self._data, self._filters = data, filters
        self._refusals = 0
        self._refused: list[str] = []
        self._text: Text = (), TextScan(data.src_lang, data.tgt_lang)

    def report(self) -> dict[str, Any]:
        """Read every text once, to its end whatever is in it.

        Returns:
            Plain values; `render` makes them readable. "verdict" is "refused" where `prepare` would refuse the text, else "shifted" where
            two sides look shifted against each other, else "fine". The limits filter.max_pieces and max_ratio are not looked at, since
            there are no pieces yet.

        Raises:
            ConfigError: an item or a field is of no known kind.
            DataError: a file does not exist, or is a folder; a data set cannot be had.
        """
        for items in (self._data.train, self._data.valid, self._data.test):
            find_files(items, self._data)
        hub.revision(self._data)
        held_out: dict[str, list[tuple[str, str]]] = {}
        splits: dict[str, dict[str, Any]] = {}
        for split, items in (("valid", self._data.valid), ("test", self._data.test)):
            if items:
                held_out[split] = []
                splits[split] = self._check_split(split, items, held_out[split].append)
        overlap = Overlap(held_out)
        if self._data.train:
            splits = {"train": self._check_split("train", self._data.train, lambda pair: overlap.see(*pair))} | splits
        shifted = any(text["shifts"] for split in splits.values() for text in split["texts"])
        return {
            "verdict": "refused" if self._refusals else "shifted" if shifted else "fine",
            "refusals": self._refusals,
            "refused": self._refused,
            "splits": splits,
            "overlap": overlap.counts(),
            "warnings": overlap.warnings(),
        }

    def _check_split(self, split: str, items: Sequence[str | Sequence[str]], see: Callable[[tuple[str, str]], None]) -> dict[str, Any]:
        text_filter = TextFilter(replace(self._filters, drop_copies=True, drop_duplicates=True))
        texts: list[Text] = []
        for names, rows in sources(items, self._data, self._lines, self._refuse):
            scan = TextScan(self._data.src_lang, self._data.tgt_lang)
            self._text = (names, scan)
            texts.append(self._text)
            for number, src, tgt in tqdm(self._pairs(rows), desc=f"reading {split}", unit=" pairs", unit_scale=True, disable=None):
                see((src, tgt))
                if not text_filter.accept(src, tgt) and not is_blank(src) and src.strip() == tgt.strip():
                    scan.findings["copies"].add(number, "", src)
        _, counts = text_filter.finish()
        left = counts.read - counts.blank - (counts.copies if self._filters.drop_copies else 0)
        if split == "train" and counts.read and not left:
            self._refuse(nothing_left(counts))
        _note_duplicates(text_filter, texts)
        told = {name: value for name, value in asdict(counts).items() if name in ("read", "blank", "copies", "duplicates")}
        return told | {"texts": [{"files": list(names)} | scan.to_dict() for names, scan in texts]}

    def _pairs(self, rows: Iterable[Row]) -> Iterator[tuple[int, str, str]]:
        """The rows that have both sides; every row is scanned on the way."""
        refusals, empty = self._refusals, True
        names, scan = self._text
        try:
            for number, src, tgt in rows:
                empty = False
                scan.see(number, src, tgt)
                if src is not None and tgt is not None:
                    yield number, src, tgt
        except DataError as error:
            self._refuse(error)
        if empty and refusals == self._refusals:
            self._refuse(nothing_in(names))

    def _lines(self, path: Path) -> Iterator[str]:
        """The lines of a file as `read_lines` gives them; those that are not UTF-8 with replacement characters."""
        names, scan = self._text
        side = SIDES[names.index(str(path))] if len(names) == 2 else ""
        before = 0  # bytes of the file
        try:
            for number, raw in enumerate(raw_lines(path, str(path)), start=1):
                try:
                    line = decode_line(raw, number, str(path))
                except DataError as error:
                    self._refuse(error)
                    line = _note_invalid(scan, number, side, raw, before, error.__cause__)
                if raw.endswith(b"\r\n"):
                    scan.findings["crlf"].add(number, side, line)
                if number == 1 and raw.startswith(BOM):
                    scan.findings["bom_start"].add(number, side, line)
                before += len(raw)
                yield line
        except DataError as error:
            self._refuse(error)

    def _refuse(self, error: DataError) -> None:
        if str(error) not in self._refused:
            self._refusals += 1
            if self._refusals <= REFUSALS:
                self._refused.append(str(error))


def _note_invalid(scan: TextScan, number: int, side: str, raw: bytes, before: int, cause: BaseException | None) -> str:
    """Note a line that is not UTF-8, and where in the file its first wrong byte is; returns the line as well as it can be read.

    Args:
        before: how many bytes of the file stand before the line.
        cause: what decoding it raised.
    """
    assert isinstance(cause, UnicodeDecodeError)
    content = line_content(raw, number)
    start = len(content[: cause.start].decode())
    line = content.decode("utf-8", "replace")
    scan.findings["invalid_utf8"].add(number, side, line, start, byte=before + raw.find(content) + cause.start + 1)
    if content.decode("utf-8", "ignore").isascii() and not any(0x80 <= code < 0xA0 for code in content):
        scan.findings["latin1"].add(number, side, content.decode("latin-1"), start)
    return line


def _note_duplicates(text_filter: TextFilter, texts: Sequence[Text]) -> None:
    places, start = text_filter.duplicates(), 0
    for _, scan in texts:
        inside = places[(places >= start) & (places < start + len(scan.numbers))].tolist()
        for place in inside[:EXAMPLES]:
            first = _place(text_filter.first_place(place), texts)
            scan.findings["duplicates"].add(scan.numbers[place - start], "", "", first=first)
        if inside:
            scan.findings["duplicates"].count = len(inside)
        start += len(scan.numbers)


def _place(place: int, texts: Sequence[Text]) -> str:
    """What the pair at a place of a split, counted from 0 over its texts, is called."""
    for names, scan in texts:
        if place < len(scan.numbers):
            return f"line {scan.numbers[place]:,}" + (f" of {' and '.join(names)}" if len(texts) > 1 else "")
        place -= len(scan.numbers)
    raise IndexError(place)


def render(report: dict[str, Any]) -> str:
    """The report as text, the verdict first."""
    lines = [_verdict(report)]
    for split, of in report["splits"].items():
        lines += [
            "",
            f"{split}: {of['read']:,} pairs, {of['blank']:,} with a blank side, {of['copies']:,} copies, {of['duplicates']:,} duplicates",
        ]
        for text in of["texts"]:
            lines += [" and ".join(text["files"]), *(f"  {label:<44}{value}".rstrip() for label, value in _rows(text))]
    return "\n".join([*lines, *([""] if report["warnings"] else []), *report["warnings"]])


def _verdict(report: dict[str, Any]) -> str:
    if report["verdict"] == "refused":
        more = f" (and {report['refusals'] - 1:,} more reasons)" if report["refusals"] > 1 else ""
        return f"prepare would refuse this text: {report['refused'][0]}{more}"
    if report["verdict"] == "shifted":
        return "the sides look shifted against each other: " + next(
            f"{' and '.join(text['files'])}: {Shift(**text['shifts'][0])}"
            for split in report["splits"].values()
            for text in split["texts"]
            if text["shifts"]
        )
    return "prepare would take this text, and its sides look aligned"


def _rows(text: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Labels and values of one text."""
    yield "lines", " and ".join(f"{count:,}" for count in text["lines"])
    for side in SIDES:
        yield f"characters a line, {side}", _distribution(text["characters"][side])
    yield "target characters for one of the source", _distribution(text["ratio"])
    for side in SIDES:
        if foreign := text["foreign_letters"][side]:
            yield f"letters of foreign scripts, {side}", ", ".join(f"{name} {100 * share:.2g} %" for name, share in foreign.items())
    for kind, found in text["findings"].items():
        yield KINDS[kind], f"{found['count']:,}"
        yield from ((f"  {_told(example)}", "") for example in found["examples"])
    for shift in text["shifts"]:
        yield "shifted sides", str(Shift(**shift))


def _distribution(of: dict[str, float] | None) -> str:
    if of is None:
        return "none"
    return f"{of['min']:g} to {of['max']:g}, mean {of['mean']:g}, median {of['median']:g}; 1 % below {of['p1']:g}, 1 % above {of['p99']:g}"


def _told(example: dict[str, Any]) -> str:
    place = f"{example['side']} line {example['line']:,}".lstrip()
    byte = f", byte {example['byte']:,} of the file" if "byte" in example else ""
    return f"{place}{byte}: " + (f"as {example['first']}" if "first" in example else example["text"])
