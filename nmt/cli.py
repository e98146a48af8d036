"""`nmt <verb> [settings]`: each verb is a Hydra app. Only this module knows Hydra, and it hands typed configuration on."""

import difflib
import importlib.metadata
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from nmt.config import (
    PATH,
    AverageConfig,
    CheckDataConfig,
    EvaluateConfig,
    InfoConfig,
    PrepareConfig,
    TrainConfig,
    TranslateConfig,
    config_dir,
)
from nmt.errors import ConfigError, NmtError, escaped, lack_of_memory
from nmt.interruption import Interrupted
from nmt.schema import load, parts, settings, unknown_setting

VERBS: dict[str, tuple[type, str]] = {
    "check-data": (CheckDataConfig, "report on parallel text: what is odd, refused or dropped, and whether its sides are aligned"),
    "prepare": (PrepareConfig, "read parallel text, check and clean it, learn subwords, store token ids"),
    "train": (TrainConfig, "train a model; the same command again goes on where it stopped"),
    "evaluate": (EvaluateConfig, "BLEU, chrF and TER of a model or of an existing translation"),
    "translate": (TranslateConfig, "translate a file or a pipe, one line out for each line in"),
    "average": (AverageConfig, "one model of the mean weights of several checkpoints of a run"),
    "info": (InfoConfig, "say what a checkpoint is"),
    "verify-resume": (TrainConfig, "try on this machine that a training that is killed goes on exactly"),
}
OVERVIEW = """nmt trains recurrent attention translators.

{verbs}

nmt <verb> --help shows examples and all settings; nmt --version the version. First steps:

  nmt train data=files data.name=mine data.src_lang=en data.tgt_lang=de data.train=corpus/train data.valid=corpus/valid run.name=first
  nmt evaluate checkpoint=runs/first/best.pt src=test.en ref=test.de
  nmt translate checkpoint=runs/first/best.pt input=in.txt output=out.txt
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns 0, 1 for text or a resume that is not in order, 2 for a user's mistake, and 128 + n for signal n."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as one is that a shell has closed
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=True)
    threading.excepthook = _quiet_about_disks
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that half-written files are removed
    try:
        code = _run(arguments)
        print(end="", flush=True)
        return code
    except NmtError as error:
        return _mistake(error, _one_line(str(error)))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Interrupted as stop:
        return 128 + stop.number
    except OSError as error:
        return _unwritable(error)
    except (MemoryError, RuntimeError) as error:
        if told := lack_of_memory(error):
            return _mistake(error, told)
        raise


def _mistake(error: Exception, told: str) -> int:
    """Say what is wrong; returns the exit code for it. Of several processes of torchrun, which share their settings, one speaks of them."""
    if not isinstance(error, ConfigError) or "TORCHELASTIC_RUN_ID" not in os.environ or os.environ.get("RANK") == "0":
        print(f"nmt: {told}", file=sys.stderr)
    return 2


def _run(arguments: list[str]) -> int:
    verb = arguments[0] if arguments else "--help"
    if verb in ("--help", "-h", "help"):
        print(OVERVIEW.format(verbs="\n".join(f"  nmt {name:<13} {told}" for name, (_, told) in VERBS.items())))
        return 0
    if verb == "-V" or "--version" in arguments:
        print(f"nmt {importlib.metadata.version('nmt')}")
        return 0
    if verb not in VERBS:
        close = difflib.get_close_matches(verb, VERBS, n=1)
        raise ConfigError(f"there is no command {verb!r}" + (f"; did you mean {close[0]}?" if close else f"; there are {', '.join(VERBS)}"))
    return _run_hydra(verb, [quote_path(spell_out(argument, verb), path_settings(verb)) for argument in arguments[1:]])


def _run_hydra(verb: str, arguments: list[str]) -> int:
    """Let Hydra compose the configuration of a verb and call it, once or, with --multirun, for each combination."""
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    codes: list[int] = []

    def task(composed: DictConfig) -> None:
        codes.append(0)
        try:
            values: Any = OmegaConf.to_container(composed, resolve=True)
            if verb == "train" and HydraConfig.get().mode == RunMode.MULTIRUN:
                values["run"]["name"] = f"{values['run']['name']}/{HydraConfig.get().job.override_dirname}".rstrip("/")
            codes[-1] = _call(verb, load(VERBS[verb][0], values))
            if codes[-1] > 128:
                sys.exit(codes[-1])  # a signal ends all jobs of a --multirun
        except (NmtError, OmegaConfBaseException) as error:  # other jobs of a --multirun go on
            codes[-1] = _mistake(error, _explain(error, verb))
        except OSError as error:
            codes[-1] = _unwritable(error)

    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that Hydra's errors reach us, to be said in one line
    try:
        sys.argv = [f"nmt {verb}", *_ordered(arguments)]
        hydra.main(version_base="1.3", config_path=str(config_dir()), config_name=verb)(task)()
    except Exception as error:
        system = isinstance(error, OSError) and error.errno is not None  # Hydra's "no such option" is an OSError without a number
        if codes or system or isinstance(error, NmtError):
            raise  # no mistake in a setting
        raise ConfigError(_explain(error, verb)) from error
    return max(codes, default=0)


def _unwritable(error: OSError) -> int:
    """The exit code after an error of the system, said in one line; a reader that has gone (`| head`) is none."""
    if not isinstance(error, BrokenPipeError):
        where = f"{error.filename}: " if error.filename else "cannot read or write: "
        print(f"nmt: {where}{(error.strerror or str(error)).lower()}", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing is left to say, also not when Python flushes at its end
    return 128 + signal.SIGPIPE if isinstance(error, BrokenPipeError) else 2


def _ordered(arguments: list[str]) -> list[str]:
    """Settings first, flags last: Hydra's parser refuses settings on both sides of a flag.

    Raises:
        ConfigError: a flag does not exist, or would run a pickle again, which could run code.
    """
    from hydra._internal.utils import get_args_parser

    def refuse(message: str) -> NoReturn:
        raise ConfigError(f"{message}; --help shows what can be given")

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign]
    parsed = parser.parse_intermixed_args(arguments)
    if parsed.experimental_rerun:
        refuse("--experimental-rerun is not allowed")
    flags = [argument for argument in arguments if argument not in parsed.overrides]
    return [*parsed.overrides, *(_names_by_sweep(parsed.overrides) if parsed.multirun else []), *flags]


def _names_by_sweep(overrides: list[str]) -> list[str]:
    """The setting that names the job folders of a --multirun by what differs between them alone."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parsed = OverridesParser.create().parse_overrides(overrides)
    swept = {override.key_or_group for override in parsed if override.is_sweep_override()}
    fixed = sorted({override.key_or_group for override in parsed} - swept)
    return [f"hydra.job.config.override_dirname.exclude_keys=[{','.join(fixed)}]"]


def _quiet_about_disks(failed: threading.ExceptHookArgs) -> None:
    """Leave it to the thread that asked to say that a file cannot be written: TensorBoard writes in a thread, and says it to its caller."""
    if not issubclass(failed.exc_type, OSError):
        threading.__excepthook__(failed)


def _share_processors() -> None:
    """Let idle threads of PyTorch's OpenMP sleep soon, unless the user has set how they wait.

    They spin by default. Where another program uses a core, they then keep it from the thread that they wait for: 0.3 updates a second
    in place of 2 in a probe on two cores with one busy, while on idle ones a short spin costs nothing that was measurable.
    """
    if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
        os.environ["GOMP_SPINCOUNT"] = "2000"


def _call(verb: str, config: object) -> int:
    _share_processors()
    from nmt import pipeline  # PyTorch is imported here, after every cheap check

    run: Callable[[object], int | None] = getattr(pipeline, verb.replace("-", "_"))
    return run(config) or 0


def path_settings(verb: str) -> dict[str, bool]:
    """The settings of a verb that hold file names; True where the setting is a list of them."""
    hints = settings(VERBS[verb][0])
    return {name: list in parts(hint) for name, hint in hints.items() if PATH in parts(hint)}


def spell_out(argument: str, verb: str) -> str:
    """`--json` as `json=true`: so a command's own settings that are on or off may be given."""
    name = argument.removeprefix("--")
    return f"{name}=true" if argument != name and settings(VERBS[verb][0]).get(name) is bool else argument


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


def _explain(error: Exception, verb: str) -> str:
    """Hydra's message in one line, with the nearest setting or option that exists."""
    text = f"{error} {error.__cause__ or ''}"
    if missing := re.search(r"Missing mandatory value: ([\w.]+)", text):
        return f"{missing[1]} is not set: give {missing[1]}=…"
    if key := re.search(r"full_key: (\S+)|Could not override '([^']+)'", text):
        name = (key[2] or key[1]).split("[")[0]  # which may be one of a list
        known = list(settings(VERBS[verb][0]))
        if name not in known:
            return unknown_setting(name, known)
    if option := re.search(r"Could not find '([^']+)/([^'/]+)'", text):
        return _no_option(option[1], option[2])
    if "Config group override must be a string" in text:
        given = (word.partition("=") for word in sys.argv[1:])
        for group, _, value in given:
            if group and (config_dir() / group).is_dir() and not (config_dir() / group / f"{value}.yaml").exists():
                return _no_option(group, value)
    return _one_line(str(error))


def _no_option(group: str, option: str) -> str:
    available = sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))
    close = difflib.get_close_matches(option, available, n=1)
    return f"there is no {group}={option}; " + (f"did you mean {close[0]}? " if close else "") + f"there are {', '.join(available)}"


def _one_line(text: str) -> str:
    return escaped("; ".join(line.strip() for line in text.split("\n") if line.strip()))[:600]
