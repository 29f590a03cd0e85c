"""Check a configuration against a JSON schema and say in one sentence what is wrong with it."""

import difflib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from onmt_define.errors import UserError

# To JSON Schema 2.0 is a whole number, and infinity and NaN are numbers; to a training they aren't.
_StrictValidator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: type(value) is int,
            "number": lambda _, value: type(value) in (int, float) and abs(value) < math.inf,
        }
    ),
)


NESTED = "one part lies within another without end, expected a few levels"


class _DuplicateKeyError(yaml.constructor.ConstructorError):
    """A key that its mapping has already; YAML itself would take the last one without a word."""


class _StrictLoader(yaml.SafeLoader):
    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        lines: dict[Any, int] = {}
        for key, _ in getattr(node, "value", []):
            if isinstance(key, yaml.ScalarNode):
                if key.value in lines:
                    problem = f"the key {key.value!r} is in line {lines[key.value]} already"
                    raise _DuplicateKeyError(None, None, problem, key.start_mark)
                lines[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


def load_yaml(path: str | Path) -> Any:
    """Read a YAML file; a missing file, broken YAML or a key given twice is a `UserError`."""
    try:
        with open(path, encoding="utf-8") as stream:
            return yaml.load(stream, Loader=_StrictLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"can't read {path}: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        expected = "each key once" if isinstance(error, _DuplicateKeyError) else "valid YAML"
        raise UserError(f"{path}{line}: {problem}, expected {expected}") from error
    except ValueError as error:  # a date of a 13th month, a number of thousands of digits
        raise UserError(f"{path}: {error}, expected valid YAML") from error
    except RecursionError as error:
        raise UserError(f"{path}: {NESTED}") from error


def validate(document: Any, schema: dict[str, Any], where: str) -> None:
    """Raise `UserError` for the first violation: key, what was found, what is expected.

    `where` names the file or the document in the sentence.
    """
    if isinstance(document, (dict, list)):
        try:
            _require_text_keys(document, where)
        except RecursionError as error:
            raise UserError(f"{where}: {NESTED}") from error
    validator = _StrictValidator(schema)
    # A wrong choice first: other keys may only be wrong because of it.
    errors = sorted(
        validator.iter_errors(document),
        key=lambda error: (error.validator != "enum", list(map(str, error.path))),
    )
    if errors:
        raise UserError(f"{where}: {_sentence(_most_specific(errors))}")


def _require_text_keys(value: Any, where: str, *parents: str) -> None:
    """YAML reads a key such as 2017 or `on` as a number or a truth value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        if isinstance(value, dict) and not isinstance(key, str):
            place = ".".join(parents) or "the document"
            raise UserError(
                f"{where}: {place} has the key {key!r}, expected text: put it in quotes"
            )
        if isinstance(part, (dict, list)):
            _require_text_keys(part, where, *parents, str(key))


def _most_specific(errors: Iterable[Any]) -> Any:
    """Follow 'one of these forms' to the form that the document comes closest to."""
    error = next(iter(errors))
    while error.validator in ("oneOf", "anyOf") and error.context:
        error = max(error.context, key=lambda inner: (len(inner.absolute_path), _is_key(inner)))
    return error


def _is_key(error: Any) -> bool:
    return error.validator == "additionalProperties"


def _sentence(error: Any) -> str:
    key = ".".join(map(str, error.absolute_path)) or "the document"
    value = error.instance
    match error.validator:
        case "additionalProperties":
            known = list(error.schema.get("properties", {}))
            extra = next(name for name in value if name not in known)
            path = ".".join(map(str, [*error.absolute_path, extra]))
            near = difflib.get_close_matches(str(extra), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
            return f"unknown key {path!r}, {hint}"
        case "required":
            missing = next(name for name in error.validator_value if name not in value)
            return f"{key} lacks the key {missing!r}{_describe(error.schema, missing)}"
        case "type":
            kinds = error.validator_value
            names = kinds if isinstance(kinds, str) else " or ".join(kinds)
            return f"{key} is {value!r}, expected {names}{_about(error.schema)}"
        case "enum":
            near = difflib.get_close_matches(str(value), map(str, error.validator_value), n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            allowed = ", ".join(map(repr, error.validator_value))
            return f"{key} is {value!r}, expected one of {allowed}{hint}"
        case "oneOf" | "anyOf" | "minProperties" | "maxProperties":
            return f"{key} is {value!r}, expected {error.schema.get('description', 'another form')}"
        case _:
            return f"{key}: {error.message}{_about(error.schema)}"


def _about(schema: dict[str, Any]) -> str:
    description = schema.get("description")
    return f" ({description.rstrip('.')})" if description else ""


def _describe(schema: dict[str, Any], key: str) -> str:
    return _about(schema.get("properties", {}).get(key, {}))
