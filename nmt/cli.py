"""`nmt <verb> [settings]`: each verb is a Hydra app. Only this module and `arguments` know Hydra; it hands typed configuration on."""

import difflib
import importlib.metadata
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nmt.arguments import of_torchrun, ordered, path_settings, quote_path, spell_out
from nmt.config import (
    AverageConfig,
    CheckDataConfig,
    EvaluateConfig,
    InfoConfig,
    PrepareConfig,
    TrainConfig,
    TranslateConfig,
)
from nmt.errors import ConfigError, NmtError, escaped, lack_of_memory
from nmt.interruption import Interrupted, heard
from nmt.schema import config_dir, load, settings, unknown_setting

SILENCE = 60.0  # seconds that other processes of torchrun wait for the first to speak of a setting

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
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115  # a shell may have closed it
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=True)
    threading.excepthook = _quiet_about_disks
    for number in heard("SIGTERM", "SIGHUP"):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # so that half-written files are removed
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
    if isinstance(error, ConfigError) and of_torchrun() and os.environ.get("RANK") != "0":
        time.sleep(SILENCE)  # torchrun ends all with the first that ends: in time, if that one has the same to say
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
    kind = VERBS[verb][0]
    paths = path_settings(kind)
    return _run_hydra(verb, [quote_path(spell_out(argument, kind), paths) for argument in arguments[1:]])


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
            _refuse_unpackaged(values, HydraConfig.get().runtime.choices)
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
        sys.argv = [f"nmt {verb}", *ordered(arguments, VERBS[verb][0])]
        hydra.main(version_base="1.3", config_path=str(config_dir()), config_name=verb)(task)()
    except Exception as error:
        system = isinstance(error, OSError) and error.errno is not None  # Hydra's "no such option" is an OSError without a number
        if codes or system or isinstance(error, NmtError):
            raise  # no mistake in a setting
        raise ConfigError(_explain(error, verb)) from error
    return max(codes, default=0)


def _refuse_unpackaged(values: dict[str, Any], choices: Mapping[str, str]) -> None:
    """Raise ConfigError where an experiment file lacks the line by which its settings are those of the command."""
    if "experiment" in values:
        raise ConfigError(f"the first line of the file of experiment={choices.get('experiment')} has to be: # @package _global_")


def _unwritable(error: OSError) -> int:
    """The exit code after an error of the system, said in one line; a reader that has gone (`| head`) is none."""
    if not isinstance(error, BrokenPipeError):
        where = f"{error.filename}: " if error.filename else "cannot read or write: "
        print(f"nmt: {where}{(error.strerror or str(error)).lower()}", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing is left to say, also not when Python flushes at its end
    return 128 + signal.SIGPIPE if isinstance(error, BrokenPipeError) else 2


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


def _explain(error: Exception, verb: str) -> str:
    """Hydra's message in one line, with the nearest setting or option that exists."""
    text = f"{error} {error.__cause__ or ''}"
    if missing := re.search(r"Missing mandatory value: ([\w.]+)", text):
        return f"{missing[1]} is not set: give {missing[1]}=…"
    if key := re.search(r"full_key: (\S+)|Could not override '([^']+)'", text):
        name = (key[2] or key[1]).split("[")[0]  # which may be one of a list
        known = list(settings(VERBS[verb][0]))
        if name not in known:
            return unknown_setting(name, [*known, "experiment"] if VERBS[verb][0] is TrainConfig else known)
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
    return escaped("; ".join(line.strip() for line in text.split("\n") if line.strip()))[:2000]
