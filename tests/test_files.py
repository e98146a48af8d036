"""Files appear whole or not at all."""

import os
import stat
import threading
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.files import make_folder, same_file, streaming, write_text, writing


def test_the_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with writing(path) as file:
        file.write(b"half")
        assert not path.exists()
        file.write(b" whole\n")
    assert path.read_bytes() == b"half whole\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), writing(path) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]


def test_an_error_of_something_else_is_not_that_of_the_file(tmp_path: Path) -> None:
    for open_it in (writing, streaming):
        with pytest.raises(FileNotFoundError, match="/no/such"), open_it(tmp_path / "out.txt"):
            Path("/no/such").read_text()


def test_a_link_to_itself_is_replaced_by_the_file(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    write_text(tmp_path / "loop", "text")
    assert (tmp_path / "loop").read_text() == "text"


def test_what_is_streamed_is_there_at_once_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), streaming(path) as file:
        file.write(b"new\n")
        file.flush()
        assert path.read_text() == "new\n"
        raise ZeroDivisionError
    assert path.read_text() == "new\n"
    for wrong, told in ((tmp_path, "is a folder: name a file"), (tmp_path / "no/x", "there is no folder"), (Path("/dev/full"), "no space")):
        with pytest.raises(DataError, match=told), streaming(wrong) as file:
            file.write(b"new\n")


def test_a_file_is_the_same_by_any_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "hard").hardlink_to(tmp_path / "a")
    assert same_file(tmp_path / "a", tmp_path / "link") and same_file(tmp_path / "hard", tmp_path / "a")
    assert not same_file(tmp_path / "a", tmp_path / "b") and not same_file("/no/such", tmp_path / "a")
    assert not same_file(tmp_path / "a", "/no/such") and not same_file("/dev/null", "/dev/null")


@pytest.mark.parametrize("links", [True, False])
def test_what_is_replaced_is_kept_also_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    for text in (b"one", b"two", b"three"):
        with writing(tmp_path / "last", before=tmp_path / "previous") as file:
            file.write(text)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"last": b"three", "previous": b"two"}


def test_a_folder_is_made_or_it_is_said_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        assert make_folder(tmp_path / "a" / "b", "x").is_dir()
    (tmp_path / "file").write_text("x")
    for path in ("file", "file/inside"):
        with pytest.raises(DataError, match=f"cannot make the folder {tmp_path}/{path}: .*; give another one"):
            make_folder(tmp_path / path, "give another one")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(DataError, match=f"cannot write to the folder {tmp_path}/a; give another one"):
        make_folder(tmp_path / "a", "give another one")


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"cannot write {tmp_path}/no/x.txt: there is no folder {tmp_path}/no"):
        write_text(tmp_path / "no" / "x.txt", "text")
    with pytest.raises(DataError, match="is a folder"):
        write_text(tmp_path, "text")


def test_a_link_stays_a_link_and_rights_stay(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "real.txt").chmod(0o640)
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_text(tmp_path / "link.txt", "ä\n")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_bytes() == "ä\n".encode()
    assert stat.S_IMODE((tmp_path / "real.txt").stat().st_mode) == 0o640


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_text(pipe, "through\n")
    reader.join(timeout=10)
    assert read == [b"through\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
