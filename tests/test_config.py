"""Typed configuration: every name, type and range is checked, and the YAML tree holds exactly what the dataclasses ask for."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from nmt.config import DataConfig, OptimizerConfig, PrepareConfig, TokenizerConfig, TrainConfig
from nmt.errors import ConfigError
from nmt.schema import Absent, Filled, Partly, complete, config_dir, load, settings

ADAM = {"name": "adam", "lr": 0.001, "beta1": 0.9, "beta2": 0.999, "rho": None, "eps": 1e-8, "weight_decay": 0.0, "clip_norm": None}


def test_plain_values_become_a_typed_object() -> None:
    config = load(OptimizerConfig, ADAM | {"lr": 1})
    assert config.lr == 1.0 and isinstance(config.lr, float)
    assert asdict(config) == ADAM | {"lr": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": "fast"}, "optimizer.lr = 'fast': expected a number more than 0"),
        ({"lr": 0}, "optimizer.lr = 0: expected a number more than 0"),
        ({"lr": True}, "optimizer.lr = True: expected a number"),
        ({"lr": float("nan")}, "optimizer.lr = nan"),
        ({"beta1": 1}, "optimizer.beta1 = 1: expected a number at least 0 and at most 0.999999 or null"),
        ({"name": "adamm"}, "expected one of adam, adamw, adadelta; did you mean adam?"),
        ({"name": None}, "optimizer.name = null: expected one of adam"),
        ({"lr": float("inf")}, "optimizer.lr = inf: expected a number"),
        ({"lr": 10**400}, f"optimizer.lr = 1{199 * '0'}…: expected a number more than 0"),
        ({"lrr": 1.0}, "there is no setting optimizer.lrr; did you mean optimizer.lr?"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(OptimizerConfig, ADAM | change, "optimizer.")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_value_says_how_to_give_it() -> None:
    with pytest.raises(ConfigError, match="optimizer.lr is not set: give optimizer.lr="):
        load(OptimizerConfig, {name: value for name, value in ADAM.items() if name != "lr"}, "optimizer.")
    with pytest.raises(ConfigError, match="lr is not set"):
        load(OptimizerConfig, ADAM | {"lr": "???"})


def test_a_whole_number_is_not_a_fraction() -> None:
    values = {
        "type": "bpe",
        "joint": True,
        "vocab_size": 8000,
        "character_coverage": 1,
        "byte_fallback": True,
        "sample_lines": 10,
        "seed": 1,
    }
    load(TokenizerConfig, values)
    with pytest.raises(ConfigError, match=r"vocab_size = 8000\.5: expected a whole number"):
        load(TokenizerConfig, values | {"vocab_size": 8000.5})
    with pytest.raises(ConfigError, match="joint = 1: expected true or false"):
        load(TokenizerConfig, values | {"joint": 1})


@dataclass(frozen=True)
class Inner:
    old: int
    new: Annotated[Literal["off", "on"], Absent("off")]


@dataclass(frozen=True)
class Outer:
    inner: Inner
    maybe: Inner | None
    late: Annotated[int | None, Absent(None)]


def test_settings_that_came_later_are_completed_and_others_are_not() -> None:
    values = {"inner": {"old": 3}, "maybe": None}
    assert load(Outer, complete(Outer, values)) == Outer(Inner(3, "off"), None, None)
    assert values == {"inner": {"old": 3}, "maybe": None}
    given = {"inner": {"old": 3, "new": "on"}, "maybe": {"old": 4}, "late": 5}
    assert load(Outer, complete(Outer, given)) == Outer(Inner(3, "on"), Inner(4, "off"), 5)
    with pytest.raises(ConfigError, match=r"inner\.old is not set"):
        load(Outer, complete(Outer, {"maybe": None}))
    with pytest.raises(ConfigError, match="one of off, on; did you mean on"):
        load(Outer, complete(Outer, {"inner": {"old": 3, "new": "onn"}, "maybe": None}))


@dataclass(frozen=True)
class Given:
    file: Annotated[str, Filled()]
    rest: Annotated[dict[str, Any], Partly(Inner)]


def test_a_part_of_a_group_is_checked_where_it_is_given() -> None:
    assert load(Given, {"file": "a", "rest": {"old": None, "new": "on"}}) == Given("a", {"old": None, "new": "on"})
    assert load(Given, {"file": "a", "rest": {}}) == Given("a", {"old": None, "new": None})
    for rest, message in (
        ({"old": "x"}, r"rest\.old = 'x': expected a whole number or null"),
        ({"odl": 3}, r"there is no setting rest\.odl; did you mean rest\.old\?"),
        (None, "rest = null: a group of settings is expected: old, new"),
    ):
        with pytest.raises(ConfigError, match=message):
            load(Given, {"file": "a", "rest": rest})
    with pytest.raises(ConfigError, match="file = '': expected text that is not empty"):
        load(Given, {"file": "", "rest": {}})
    assert list(settings(Given)) == ["file", "rest.old", "rest.new"]
    with pytest.raises(ConfigError, match="a configuration is a group of settings, not int"):
        complete(Given, 5)  # type: ignore[arg-type]


GROUPS = [
    f"{folder.name}={path.stem}"
    for folder in sorted(config_dir().iterdir())
    if folder.is_dir() and folder.name in ("filter", "tokenizer", "model", "optimizer", "scheduler", "batches", "trainer", "experiment")
    for path in sorted(folder.glob("*.yaml"))
]


@pytest.mark.parametrize("choice", GROUPS)
def test_every_shipped_choice_is_valid(choice: str) -> None:
    required = ["data.name=x", "data.src_lang=en", "data.tgt_lang=de", "data.train=[a]", "data.valid=[b]"]
    with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        config = load(TrainConfig, OmegaConf.to_container(compose("train", [*required, choice]), resolve=True))
    assert config.run.name in ("x", "quickstart")


def composed_data(*overrides: str) -> DataConfig:
    with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        return load(PrepareConfig, OmegaConf.to_container(compose("prepare", list(overrides)), resolve=True)).data


HUB_SETS = sorted(path.stem for path in (config_dir() / "data").glob("*.yaml") if "- hub\n" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", HUB_SETS)
def test_a_shipped_data_set_needs_nothing_more(name: str) -> None:
    data = composed_data(f"data={name}")
    assert data.name == name and data.path and data.path.count("/") == 1
    assert all(len(split) == 1 for split in (data.train, data.valid, data.test))
    assert {data.src_lang, data.tgt_lang} >= set((data.config or "").split("-")) - {""}
    assert "Not tried yet" in (config_dir() / f"data/{name}.yaml").read_text(encoding="utf-8")


def test_a_data_set_of_ones_own() -> None:
    required = ["data=hub", "data.name=x", "data.src_lang=en", "data.tgt_lang=de"]
    data = composed_data(*required, "data.path=a/b", "data.valid=['train[:10]']", "data.field=translation")
    assert (data.path, data.train, data.valid, data.test, data.field) == ("a/b", ["train"], ["train[:10]"], ["test"], "translation")
    with pytest.raises(ConfigError, match=r"data\.path is not set: give data\.path="):
        composed_data(*required)


def test_rnnsearch50_brings_the_optimizer_of_the_paper() -> None:
    required = ["data.name=x", "data.src_lang=en", "data.tgt_lang=de", "data.train=[a]", "data.valid=[b]", "experiment=rnnsearch50"]
    with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        config = load(TrainConfig, OmegaConf.to_container(compose("train", required), resolve=True))
    assert (config.optimizer.name, config.optimizer.rho, config.optimizer.eps) == ("adadelta", 0.95, 1e-6)
    assert (config.model.embedding_size, config.model.encoder_size, config.model.readout_size) == (620, 1000, 500)


def test_settings_lists_dotted_names() -> None:
    names = settings(TrainConfig)
    assert {"trainer.max_steps", "optimizer.lr", "precision", "data.train"} <= names.keys()
    assert "trainer" not in names
