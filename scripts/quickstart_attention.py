#!/usr/bin/env python3
"""The last part of quickstart.sh: the attention of one sentence as text and picture, and its error rate against the gold alignment.

quickstart_attention.py RUN PREFIX      RUN holds best.pt, test.json and handwritten.json; PREFIX.en, .de and .align are the test set
"""

import json
import sys
from pathlib import Path

from experiments import script

from nmt import Translator
from nmt.alignment import alignment_error_rate, links, read_links, render, word_attention
from nmt.data.lines import read_lines
from nmt.errors import ConfigError
from nmt.files import write_text
from nmt.pictures import save_picture

WORDS = 11  # long enough for a verb at the end, short enough for a terminal


@script
def main() -> None:
    if len(sys.argv) != 3:
        raise ConfigError("RUN and PREFIX are expected, such as runs/quickstart data/quickstart/test")
    run, prefix = Path(sys.argv[1]), sys.argv[2]
    translator = Translator.load(run / "best.pt", device="cpu")
    pairs = list(zip(read_lines(f"{prefix}.en"), read_lines(f"{prefix}.de"), strict=True))
    found = [links(word_attention([part])) for part in translator.align(pairs)]
    error_rate = alignment_error_rate(found, list(read_links(f"{prefix}.align")))

    source = next(src for src, _ in pairs if len(src.split()) == WORDS)
    (translation,) = translator.hypotheses([source])
    attention = word_attention(translation.parts)
    save_picture(run / "attention.png", attention)
    print(f"  {source}\n    → {translation.text}\n\n{render(attention)}\n\nThe same as a picture: {run / 'attention.png'}")
    print(f"Alignment error rate of the attention against the gold links of the test set: {100 * error_rate:.1f} % (0 is perfect)")

    test, handwritten = (json.loads((run / f"{name}.json").read_text(encoding="utf-8")) for name in ("test", "handwritten"))
    results = {**test, "handwritten": handwritten, "alignment_error_rate": error_rate}
    write_text(run / "results.json", json.dumps(results, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
