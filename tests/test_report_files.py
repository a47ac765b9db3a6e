"""The output folder writes whole files and never over a stranger's."""

from __future__ import annotations

import json
import os
import stat

import pytest

from bayesjudge.errors import DataError
from bayesjudge.report import files
from bayesjudge.report.files import MANIFEST, OutputFolder


def listing(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_writes_text_bytes_and_what_a_function_writes(tmp_path):
    folder = OutputFolder(tmp_path / "new" / "results")
    seen = []

    def write(path):
        seen.append(path.name)
        path.write_text("data", encoding="utf-8")

    paths = folder.write({"a.txt": "ä\n", "sub/b.bin": b"\x00", "fit.nc": write})
    assert paths == tuple(folder.path / name for name in ("a.txt", "sub/b.bin", "fit.nc"))
    assert paths[0].read_bytes() == "ä\n".encode()
    assert paths[1].read_bytes() == b"\x00"
    assert paths[2].read_text() == "data"
    assert seen == ["fit.nc"]
    assert listing(folder.path) == [MANIFEST, "a.txt", "fit.nc", "sub/b.bin"]
    assert not [p for p in folder.path.iterdir() if p.is_dir() and p.name != "sub"]


def test_a_lone_surrogate_does_not_stop_a_file(tmp_path):
    (path,) = OutputFolder(tmp_path).write({"a.txt": "\ud800"})
    assert path.read_text() == "\\ud800"


def test_overwrites_its_own_files_and_leaves_others_alone(tmp_path):
    (tmp_path / "notes.md").write_text("mine")
    OutputFolder(tmp_path).write({"a.txt": "1", "b.txt": "1"})
    OutputFolder(tmp_path).write({"a.txt": "2"})
    OutputFolder(tmp_path).write({"b.txt": "3"})
    assert (tmp_path / "a.txt").read_text() == "2"
    assert (tmp_path / "b.txt").read_text() == "3"
    assert (tmp_path / "notes.md").read_text() == "mine"
    assert set(json.loads((tmp_path / MANIFEST).read_text())["files"]) == {"a.txt", "b.txt"}


def test_refuses_a_strangers_file_before_anything_is_written(tmp_path):
    (tmp_path / "b.txt").write_text("mine")
    folder = OutputFolder(tmp_path)
    with pytest.raises(DataError, match=r"b\.txt"):
        folder.write({"a.txt": "1", "b.txt": "2"})
    assert listing(tmp_path) == ["b.txt"]
    assert (tmp_path / "b.txt").read_text() == "mine"


def test_refuses_its_own_file_once_changed(tmp_path):
    folder = OutputFolder(tmp_path)
    folder.write({"a.txt": "1"})
    (tmp_path / "a.txt").write_text("edited")
    with pytest.raises(DataError, match="changed since"):
        folder.write({"a.txt": "2"})
    with pytest.raises(DataError, match="changed since"):
        folder.check(["a.txt"])
    assert (tmp_path / "a.txt").read_text() == "edited"


def test_refuses_its_own_file_where_it_cannot_be_read(tmp_path, monkeypatch):
    folder = OutputFolder(tmp_path)
    folder.write({"a.txt": "1"})

    def denied(*_args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "_sha256", denied)
    with pytest.raises(DataError, match="refusing"):
        folder.check(["a.txt"])


def test_a_file_deleted_since_is_written_again(tmp_path):
    folder = OutputFolder(tmp_path)
    folder.write({"a.txt": "1"})
    (tmp_path / "a.txt").unlink()
    folder.write({"a.txt": "2"})
    assert (tmp_path / "a.txt").read_text() == "2"


def test_refuses_what_came_while_a_function_was_writing(tmp_path):
    def slow(path):
        path.write_text("x")
        (tmp_path / "fit.nc").write_text("mine")

    with pytest.raises(DataError, match=r"fit\.nc"):
        OutputFolder(tmp_path).write({"fit.nc": slow})
    assert listing(tmp_path) == ["fit.nc"]
    assert (tmp_path / "fit.nc").read_text() == "mine"


def test_a_function_that_fails_leaves_nothing(tmp_path):
    def broken(path):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match="No space left"):
        OutputFolder(tmp_path).write({"a.txt": "1", "fit.nc": broken})
    assert listing(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_run_cut_short_between_the_files_can_be_repeated(tmp_path, monkeypatch):
    folder = OutputFolder(tmp_path)
    folder.write({"a.txt": "1", "b.txt": "1"})
    replace = files.Path.replace

    def cut(self, target):
        if self.name == "b.txt":
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(files.Path, "replace", cut)
    with pytest.raises(DataError, match="Input/output"):
        folder.write({"a.txt": "2", "b.txt": "2"})
    monkeypatch.undo()
    assert (tmp_path / "a.txt").read_text() == "2"
    assert (tmp_path / "b.txt").read_text() == "1"
    OutputFolder(tmp_path).write({"a.txt": "3", "b.txt": "3"})
    assert (tmp_path / "b.txt").read_text() == "3"


def test_refuses_a_path_that_is_a_file_or_lies_in_one(tmp_path):
    file = tmp_path / "taken"
    file.write_text("mine")
    with pytest.raises(DataError, match="is a file"):
        OutputFolder(file)
    with pytest.raises(DataError, match="in the way"):
        OutputFolder(file / "sub")


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "/etc/x", "a/../../x", "a\\b", "a\0b", MANIFEST, "a//b", "./a"],
)
def test_refuses_names_that_are_none(tmp_path, name):
    with pytest.raises(DataError, match="file name"):
        OutputFolder(tmp_path).write({name: "x"})
    assert listing(tmp_path) == []


def test_refuses_a_folder_where_the_file_should_be(tmp_path):
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(DataError, match="overwrite"):
        OutputFolder(tmp_path).write({"a.txt": "x"})


def test_refuses_a_file_where_a_subfolder_should_be(tmp_path):
    (tmp_path / "sub").write_text("mine")
    with pytest.raises(DataError):
        OutputFolder(tmp_path).write({"sub/a.txt": "x"})
    assert (tmp_path / "sub").read_text() == "mine"


def test_follows_no_link(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine")
    folder = OutputFolder(tmp_path / "out")
    folder.write({"a.txt": "mine"})
    (folder.path / "a.txt").unlink()
    (folder.path / "a.txt").symlink_to(outside / "mine.txt")
    (folder.path / "dangling.txt").symlink_to(outside / "none.txt")
    (folder.path / "sub").symlink_to(outside)
    with pytest.raises(DataError, match="overwrite"):
        folder.write({"a.txt": "x"})
    with pytest.raises(DataError, match="overwrite"):
        folder.write({"dangling.txt": "x"})
    with pytest.raises(DataError, match="link leads out"):
        folder.write({"sub/b.txt": "x"})
    assert listing(outside) == ["mine.txt"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"files": {"a": 1}}', "\udcff"])
def test_refuses_a_manifest_that_is_none(tmp_path, content):
    (tmp_path / MANIFEST).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match="cannot be read"):
        OutputFolder(tmp_path)


def test_files_have_the_permissions_of_any_new_file(tmp_path):
    (path,) = OutputFolder(tmp_path / "out").write({"a.txt": "x"})
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_an_earlier_run_of_the_same_command_leaves_nothing_behind(tmp_path):
    folder = OutputFolder(tmp_path)
    folder.write({"report.md": "one", "more.csv": "1", "sub/own.csv": "2"}, "audit")
    folder.write({"other.csv": "3"}, "rank")
    (tmp_path / "sub/own.csv").write_text("changed by hand")
    OutputFolder(tmp_path).write({"report.md": "two"}, "audit")
    assert (tmp_path / "report.md").read_text() == "two"
    assert not (tmp_path / "more.csv").exists()
    assert (tmp_path / "sub/own.csv").read_text() == "changed by hand"
    assert (tmp_path / "other.csv").read_text() == "3"
    OutputFolder(tmp_path).write({"more.csv": "again"})
    assert (tmp_path / "report.md").exists()
