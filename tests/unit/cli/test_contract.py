"""`regauge contract` as people and pipelines run it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from tests.support import ROOT
from typer.testing import CliRunner, Result

from regauge.cli.app import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["contract", *arguments])


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample's contract, as init writes it."""
    path = tmp_path_factory.mktemp("contract") / "contract.yaml"
    done = run("init", "sample", "--name", "east", "--write", str(path))
    assert done.exit_code == 0, done.stderr
    assert "fields are to be said: nodePools[0].rationale" in done.stderr
    return path


def test_a_contract_is_yaml_with_its_questions(contract: Path) -> None:
    text = contract.read_text()
    document = yaml.safe_load(text)
    assert document["schema"] == "regauge.contract/v1"
    assert document["cluster"] == "east"
    assert "rationale: ''  # to be said: why a100 is served by device-plugin" in text


def test_a_contract_is_never_written_over(contract: Path) -> None:
    before = contract.read_text()
    done = run("init", "sample", "--write", str(contract))
    assert done.exit_code == 2
    assert "with what people said in it" in done.stderr
    assert contract.read_text() == before


def test_what_people_said_is_kept(contract: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(contract.read_text().replace("rationale: ''  # to be said: why a100 ", "rationale: old jobs # "))
    assert run("init", "sample", "--keep", str(own), "--write", str(own)).exit_code == 0
    assert yaml.safe_load(own.read_text())["nodePools"][0]["rationale"] == "old jobs"
    assert yaml.safe_load(own.read_text())["cluster"] == "east"


@pytest.mark.row(164, how="unit")
def test_check_names_file_and_line_of_what_is_to_be_said(contract: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(contract.parent)  # a short path: a long one goes over several lines of its cell
    done = run("check", contract.name, "sample")
    assert done.exit_code == 1
    line = next(at for at, text in enumerate(contract.read_text().splitlines(), 1) if "why a100 is" in text)
    assert f"{contract.name}:{line} " in done.stdout
    assert "0 broken" in done.stdout
    assert "east, the sample estate: " in done.stdout


@pytest.mark.parametrize("output", ["json", "yaml", "markdown"])
def test_every_form_of_a_check(contract: Path, output: str) -> None:
    done = run("check", str(contract), "sample", "-o", output)
    assert done.exit_code == 1
    if output == "markdown":
        assert done.stdout.startswith("| where | field | promise | answer | seen |\n|---|")
        return
    document = json.loads(done.stdout) if output == "json" else yaml.safe_load(done.stdout)
    assert document["schema"] == "regauge.contract-check/v1"
    assert document["counts"]["broken"] == 0
    assert sum(document["counts"].values()) == len(document["promises"])


@pytest.mark.row(119, how="unit")
def test_diff_ends_with_one_when_something_needed_differs(contract: Path, tmp_path: Path) -> None:
    assert run("diff", "sample", str(contract)).exit_code == 0
    other = tmp_path / "west.yaml"
    document = yaml.safe_load(contract.read_text())
    document["deviceClasses"] = document["deviceClasses"][1:]
    other.write_text(yaml.safe_dump(document))
    done = run("diff", "sample", str(contract), str(other), "-o", "json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["clusters"] == ["sample", str(contract), str(other)]
    assert [one["name"] for one in found["differences"] if one["needed"]] == ["gpu.nvidia.com"]
    table = run("diff", "sample", str(other), "-o", "markdown")
    assert "| needed | DeviceClass gpu.nvidia.com |" in table.stdout


def test_templates_of_one_namespace_only(contract: Path, tmp_path: Path) -> None:
    other = tmp_path / "west.yaml"
    document = yaml.safe_load(contract.read_text())
    assert {one["namespace"] for one in document["templates"]} == {"team-research"}
    other.write_text(yaml.safe_dump({**document, "templates": []}))
    assert run("diff", str(contract), str(other)).exit_code == 1
    assert run("diff", str(contract), str(other), "--namespace", "team-infer").exit_code == 0
    assert "templates:" not in run("init", "sample", "-n", "team-infer").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("diff", "sample"), "one cluster cannot differ"),
        (("diff", "sample", "sample"), "sample stands twice"),
        (("check", "none.yaml", "sample"), "none.yaml: cannot be read"),
        (("init", "sample", "--evidence", "none.json"), "none.json: cannot be read"),
    ],
)
def test_wrong_use_is_told_in_words(arguments: tuple[str, ...], told: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert told in done.stderr


def test_a_wrong_field_is_told_with_its_line(contract: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(contract.read_text().replace("  graduation: beta", "  graduation: gamma"))
    line = next(at for at, text in enumerate(wrong.read_text().splitlines(), 1) if "gamma" in text)
    done = run("check", str(wrong), "sample")
    assert done.exit_code == 2
    assert f"{wrong}:{line}: policy.graduation: Invalid enum value 'gamma'" in done.stderr


def test_the_schema_is_the_one_in_the_docs_and_fits(contract: Path) -> None:
    done = run("schema")
    assert (ROOT / "docs" / "contract.schema.json").read_text() == done.stdout
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(contract.read_text()))
    fields = schema["$defs"]["Contract"]["properties"]
    page = (ROOT / "docs" / "contract.md").read_text()
    assert [name for name in fields if f"| `{name}" not in page] == []


def test_a_contract_belongs_to_the_checklist(contract: Path) -> None:
    done = CliRunner().invoke(app, ["audit", "sample", "--contract", str(contract)])
    assert (done.exit_code, "add --profile production" in done.stderr) == (2, True)
