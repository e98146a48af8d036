"""The shape of the code: imports point downward, without cycles, and nothing grows too long to read."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import nmt

PACKAGE = Path(nmt.__file__).parent
LAYERS = [
    {"errors", "language", "interruption"},
    {"schema", "files", "server", "workers", "distributed"},
    {"config"},
    {"metrics", "progress", "translation", "coverage", "loss", "subwords", "data.lines", "data.shift", "data.scan"}
    | {"model.dropout", "model.attention", "model.encoder", "model.decoder", "model.unroll"}
    | {"model.kernels", "model.norm", "model.steps", "model.cell", "model.unroll_normalized"},
    {"device", "tokenizer", "data.corpus", "data.hub", "data.filters", "data.segments", "data.dataset", "data.batches", "model.seq2seq"}
    | {"model.inference", "model.ensemble", "optimizer", "scheduler", "checkpoint", "search", "sampling", "evaluate"},
    {"translator", "data.prepare", "data.check", "journal"},
    {"alignment"},
    {"pictures"},
    {"resume", "averaging", "saving", "risk", "gradient", "validation"},
    {"trainer", "rehearsal", "verification"},
    {"training"},
    {"pipeline", "arguments"},
    {"cli"},
    {"__main__"},
]
ALLOWED_INSIDE_FUNCTIONS = {"cli", "arguments", "__init__"}  # so that `nmt --help` does not wait for PyTorch


def modules() -> dict[str, ast.Module]:
    paths = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()}


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "nmt":
            inside = (node.module or "").removeprefix("nmt").removeprefix(".")
            yield from [inside] if inside in modules_names else (f"{inside}.{alias.name}".lstrip(".") for alias in node.names)


trees = modules()
modules_names = set(trees)


def test_every_module_has_a_layer() -> None:
    named = {name for name in modules_names if not name.endswith("__init__")}
    assert named == set().union(*LAYERS)


def test_imports_point_downward_without_cycles() -> None:
    depth = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    edges = {name: set(imports(tree)) & depth.keys() for name, tree in trees.items() if name in depth}
    upward = [(name, other) for name, others in edges.items() for other in others if depth[other] > depth[name]]
    assert not upward
    seen: dict[str, int] = {}

    def visit(name: str) -> None:
        assert seen.get(name) != 1, f"a cycle through {name}"
        if name not in seen:
            seen[name] = 1
            for other in edges[name]:
                visit(other)
            seen[name] = 2

    for name in edges:
        visit(name)


def test_own_modules_are_imported_at_the_top() -> None:
    for name, tree in trees.items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and name not in ALLOWED_INSIDE_FUNCTIONS:
                assert not list(imports(function)), f"{name}.{function.name} imports from the package"


def test_files_and_functions_stay_short() -> None:
    lengths = []
    for name, tree in trees.items():
        path = PACKAGE / (name.replace(".", "/") + ".py")
        assert path.read_text(encoding="utf-8").count("\n") <= 300, f"{path} has more than 300 lines"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                lengths.append((node.end_lineno or 0) - node.lineno + 1)
                assert lengths[-1] <= 50, f"{name}.{node.name} has {lengths[-1]} lines"
    assert statistics.median(lengths) < 12
