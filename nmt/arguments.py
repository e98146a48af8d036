"""The words of a command line, made ready for Hydra: file names as they are typed, flags anywhere, mistakes in one line."""

import os
import re
from pathlib import Path
from typing import NoReturn

from nmt.config import PATH
from nmt.errors import ConfigError
from nmt.schema import parts, settings


def ordered(arguments: list[str], kind: type) -> list[str]:
    """Settings first, flags last: Hydra's parser refuses settings on both sides of a flag.

    Args:
        arguments: the words that follow a verb.
        kind: the configuration of the verb.

    Raises:
        ConfigError: a flag does not exist, or would run a pickle again, which could run code; or a word is neither flag nor setting;
            or --multirun is asked of torchrun.
    """
    from hydra._internal.utils import get_args_parser

    known = settings(kind)

    def refuse(message: str) -> NoReturn:
        name = re.search(r"--([\w.]+)", message)
        way = f"did you mean {name[1]}=…?" if name and name[1] in known else "--help shows what can be given"
        raise ConfigError(f"{message}; {way}")

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign]
    parsed = parser.parse_intermixed_args(arguments)
    if parsed.experimental_rerun:
        refuse("--experimental-rerun is not allowed")
    multirun = parsed.multirun or "hydra.mode=MULTIRUN" in parsed.overrides
    if multirun and of_torchrun():
        raise ConfigError("--multirun: the processes of torchrun train one model and end with it; start torchrun for each combination")
    for word in parsed.overrides:
        if "=" not in word and not word.startswith("~"):  # which takes a setting away
            first = next(name for name in ("checkpoint", "checkpoints", "src", "data.train") if name in known)
            raise ConfigError(f"{word or 'an empty word'}: settings are given by name, such as {first}=…; --help shows them all")
    flags = [argument for argument in arguments if argument not in parsed.overrides]
    return [*parsed.overrides, *(_names_by_sweep(parsed.overrides) if multirun else []), *flags]


def path_settings(kind: type) -> dict[str, bool]:
    """The settings of a configuration that hold file names; True where the setting is a list of them."""
    hints = settings(kind)
    return {name: list in parts(hint) for name, hint in hints.items() if PATH in parts(hint)}


def spell_out(argument: str, kind: type) -> str:
    """`--json` as `json=true`: so a command's own settings that are on or off may be given; and `input=-` as standard input."""
    name = argument.removeprefix("--")
    if argument in ("input=-", "output=-") and "input" in settings(kind):
        return f"{argument.removesuffix('-')}null"
    return f"{name}=true" if argument != name and settings(kind).get(name) is bool else argument


def quote_path(argument: str, paths: dict[str, bool]) -> str:
    """Quote the value of `key=value` for Hydra where the key holds file names, so that any name can be typed as it is.

    Args:
        argument: one word of the command line.
        paths: the settings that hold file names, as path_settings gives them.
    """
    key, equals, value = argument.partition("=")
    name = key.lstrip("+")
    if not equals or name not in paths or value in ("", "null"):
        return argument
    if not paths[name]:
        return f"{key}={_quote(value)}"
    return f"{key}={_quote_list(value)}" if value.startswith("[") and value.endswith("]") else f"{key}=[{_quote(value)}]"


def _names_by_sweep(overrides: list[str]) -> list[str]:
    """The setting that names the job folders of a --multirun by what differs between them alone."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parsed = OverridesParser.create().parse_overrides(overrides)
    swept = {override.key_or_group for override in parsed if override.is_sweep_override()}
    fixed = sorted({override.key_or_group for override in parsed} - swept)
    return [f"hydra.job.config.override_dirname.exclude_keys=[{','.join(fixed)}]"]


def _quote_list(text: str) -> str:
    """Quote the items of "[a,b,[c,d]]"."""
    items, depth, quote, start = [], 0, "", 1
    for place, character in enumerate(text[1:-1] + ",", 1):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and not text[start:place].strip():
            quote = character
        elif character == "," and depth == 0:
            items.append(text[start:place].strip())
            start = place + 1
        else:
            depth += {"[": 1, "]": -1}.get(character, 0)
    quoted = [_quote_list(item) if item.startswith("[") and item.endswith("]") else _quote(item) for item in items if item]
    return f"[{','.join(quoted)}]"


def _quote(value: str) -> str:
    from hydra.core.override_parser.types import Quote, QuotedString

    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    if value.startswith("~/"):
        value = str(Path(value).expanduser())
    literal = re.sub(r"(\\*)\$\{", r"\1\1\\${", value)  # "${" would be an interpolation
    return QuotedString(text=literal, quote=Quote.double).with_quotes()


def of_torchrun() -> bool:
    """Whether torchrun started this process, and others with the same words; PyTorch says so too, but takes a second to import."""
    return "TORCHELASTIC_RUN_ID" in os.environ
