"""The wheel works in another folder: it carries its configuration, and finds it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import nmt
from nmt.schema import config_dir

ROOT = Path(nmt.__file__).parents[1]


def test_the_wheel_carries_the_configuration_and_finds_it(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    carried = {path.relative_to(tmp_path / "site/nmt/configs") for path in (tmp_path / "site/nmt/configs").rglob("*.yaml")}
    assert carried == {path.relative_to(config_dir()) for path in config_dir().rglob("*.yaml")}
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    where = "import nmt.schema; print(nmt.schema.config_dir())"
    found = subprocess.run([sys.executable, "-c", where], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert found.stdout.strip() == str(tmp_path / "site/nmt/configs")
    told = subprocess.run(
        [sys.executable, "-m", "nmt", "train", "--help"], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert "nmt train " in told.stdout


def test_the_package_is_typed_and_exports_its_api() -> None:
    assert (ROOT / "nmt/py.typed").exists()
    from nmt import Translator

    assert Translator.__name__ == "Translator" and nmt.__version__
