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
            "number": lambda _, value: type(value) in (int, float) and math.isfinite(value),
        }
    ),
)


def load_yaml(path: str | Path) -> Any:
    """Read a YAML file; a missing file or broken YAML is a `UserError`."""
    try:
        with open(path, encoding="utf-8") as stream:
            return yaml.safe_load(stream)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"can't read {path}: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise UserError(f"{path}{line}: {problem}, expected valid YAML") from error


def validate(document: Any, schema: dict[str, Any], where: str) -> None:
    """Raise `UserError` for the first violation: key, what was found, what is expected.

    `where` names the file or the document in the sentence.
    """
    validator = _StrictValidator(schema)
    errors = sorted(validator.iter_errors(document), key=lambda error: list(map(str, error.path)))
    if errors:
        raise UserError(f"{where}: {_sentence(_most_specific(errors))}")


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
