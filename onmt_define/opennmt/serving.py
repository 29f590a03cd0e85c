"""`onmt_server`: a mistake in its config ends it at the start, one in a request is answered.

Stock OpenNMT-py ends with a traceback at the first and answers the second with a page of HTML and
status 500, or with its own `{"error": ..., "status": "error"}` and status 200. Here every error is
answered in that form, with a status of 400 or more. Beside that, two things are mended: options
that are false or lists, and `clone_model`, which took the timeout for the name of the clone.
"""

import functools
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

from onmt_define.errors import UserError
from onmt_define.opennmt import checkpoint_files, stock_repairs
from onmt_define.opennmt.input_checks import words_of
from onmt_define.opennmt.server_checks import (
    RequestError,
    check_config,
    check_request,
    refuse_other_keys,
    short,
)
from onmt_define.opennmt.translation_checks import check_models

# What OpenNMT-py raises for a wrong tokenizer, function or model of CTranslate2.
CONFIG_ERRORS = (ValueError, AssertionError, ImportError, AttributeError, KeyError, TypeError)


class UnknownModel(RequestError):
    """A request for a model that the server doesn't have."""

    status = 404


class TranslationFailed(RequestError):
    """A request that is as it should be, and yet the model fails on it."""

    status = 500


class _Models(dict[int, Any]):
    """The models of a server; asking for another one is a mistake in the request."""

    def __missing__(self, model_id: Any) -> Any:
        raise UnknownModel(f"there is no model {model_id!r}, expected one of {sorted(self)}")


def patch_command(module: ModuleType) -> None:
    """Let the web application of `onmt.bin.server` answer errors in JSON."""
    start, serve, flask = module.start, module.serve, module.Flask

    @functools.wraps(start)
    def checked_start(config_file: str, url_root: str = "/translator", **settings: Any) -> None:
        if not url_root.startswith("/"):
            raise UserError(f"url_root is {url_root!r}, expected a path such as /translator")
        if not 0 < settings["port"] < 1 << 16:
            raise UserError(f"port is {settings['port']}, expected 1 to 65535")
        start(config_file, url_root=url_root, **settings)

    @functools.wraps(serve)
    def checked_serve(application: Any, host: str, port: int) -> None:
        try:
            serve(application, host=host, port=port)
        except (OSError, OverflowError, ValueError) as error:
            raise UserError(
                f"ip {host} and port {port} can't be listened on, expected free ones of this "
                f"machine ({words_of(error)})"
            ) from error

    def application_with_errors(name: str) -> Any:
        application = flask(name)
        application.register_error_handler(Exception, answer_error)
        application.before_request(_check_clone)
        application.after_request(_mark_failure)
        return application

    module.start = checked_start  # type: ignore[attr-defined]
    module.serve = checked_serve  # type: ignore[attr-defined]
    module.Flask = application_with_errors  # type: ignore[attr-defined]


def answer_error(error: Exception) -> tuple[dict[str, str], int]:
    """What OpenNMT-py answers to an error that it knows, for all of them; and the HTTP status."""
    from werkzeug.exceptions import HTTPException

    if isinstance(error, HTTPException):
        status = error.code or 500
        sentence = "the request isn't JSON" if status == 400 else error.description or error.name
    elif isinstance(error, RequestError):
        sentence, status = str(error), error.status
    elif isinstance(error, UserError):
        sentence, status = str(error), 400
    else:
        sentence, status = f"{type(error).__name__}: {words_of(error)}", 500
    return {"error": sentence, "status": "error"}, status


def _check_clone() -> None:
    """OpenNMT-py looks into what is to be cloned how before it catches any error."""
    from flask import request

    if request.endpoint != "clone_model":
        return
    wanted = request.get_json(force=True)
    if not isinstance(wanted, dict) or not isinstance(wanted.get("opt"), dict | None):
        raise RequestError(f'the request is {short(wanted)}, expected {{"opt": {{...}}}}')
    if not isinstance(wanted.get("timeout", -1), int | float):
        raise RequestError(f"timeout is {short(wanted['timeout'])}, expected seconds")


def _mark_failure(response: Any) -> Any:
    """OpenNMT-py sends its own errors with the status of success."""
    if response.status_code == 200 and response.is_json:
        answer = response.get_json()
        if isinstance(answer, dict) and answer.get("status") == "error":
            response.status_code = 400
    return response


def patch_server(module: ModuleType) -> None:
    """Check configs and requests of `onmt.translate.translation_server`."""
    stock_repairs.patch_served_batches(module)
    _patch_translation_server(module)
    _patch_server_model(module)


def _patch_translation_server(module: ModuleType) -> None:
    server = module.TranslationServer
    original_init, start = server.__init__, server.start
    run = server.run

    @functools.wraps(original_init)
    def __init__(self: Any) -> None:
        original_init(self)
        self.models = _Models()

    @functools.wraps(start)
    def checked_start(self: Any, config_file: str) -> None:
        check_config(config_file)
        try:
            start(self, config_file)
        except (*CONFIG_ERRORS, module.ServerModelError) as error:
            raise UserError(f"{config_file}: {type(error).__name__}: {words_of(error)}") from error

    @functools.wraps(run)
    def checked_run(self: Any, inputs: Any) -> Any:
        check_request(inputs)
        model = self.models[inputs[0].get("id", 0)]
        if model.preprocess_opt is None:
            refuse_other_keys(inputs)
        try:
            return run(self, inputs)
        except AssertionError as error:
            raise RequestError(words_of(error)) from error
        except module.ServerModelError as error:
            if isinstance(error.__context__, UserError):  # the model is as good as before
                model.reset_unload_timer()
                raise RequestError(str(error.__context__)) from error
            if model.loaded:
                model.unload()
            raise TranslationFailed(words_of(error)) from error

    def clone_model(self: Any, model_id: int, opt: Any, timeout: int = -1) -> tuple[int, float]:
        """Load a model once more, with other options if they are given."""
        model = self.models[model_id]
        opt = {**(model.user_opt if opt is None else opt), "models": model.opt.models}
        return self.load_model(opt, load=True, timeout=timeout)

    server.__init__ = __init__
    server.start = checked_start
    server.run = checked_run
    server.clone_model = clone_model


def _patch_server_model(module: ModuleType) -> None:
    model = module.ServerModel
    original = model.__init__

    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **settings: Any) -> None:
        """Refuse a bad file when the server starts, also one that it would load at a request."""
        original(self, *arguments, **settings)
        if self.ct2_model is None and not self.loaded:
            check_models(self.opt)
            for path in self.opt.models:
                checkpoint_files.load(path)

    load = model.load

    @functools.wraps(load)
    def load_or_let_load(self: Any, *arguments: Any, **settings: Any) -> None:
        try:
            load(self, *arguments, **settings)
        finally:
            self.loading_lock.set()  # else every later request would wait for this one

    def parse_opt(self: Any, opt: dict[str, Any]) -> Namespace:
        """Options of `onmt_translate` from a config, where a false one is one left out."""
        from onmt.opts import translate_opts

        parser = module.ArgumentParser(prog="onmt_server")
        parser.exit = _refuse_options
        translate_opts(parser)
        models = opt["models"] if isinstance(opt["models"], list) else [opt["models"]]
        opt["models"] = [str(Path(self.model_root) / path) for path in models]
        arguments = ["-src", "dummy_src", "-model", *opt["models"]]
        for name, value in opt.items():
            if name not in ("models", "src") and value is not False:
                values = value if isinstance(value, list) else [value] * (value is not True)
                arguments += [f"-{name}", *map(str, values)]
        parsed = parser.parse_args(arguments)
        module.ArgumentParser.validate_translate_opts(parsed)
        if parsed.report_align:
            raise UserError("report_align can't be used with onmt_server; use onmt_translate")
        parsed.cuda = parsed.gpu > -1
        return parsed

    model.__init__ = __init__
    model.parse_opt = parse_opt
    model.load = load_or_let_load
    for name in ("unload", "to_cpu", "to_gpu"):
        setattr(model, name, _for_a_loaded_model(getattr(model, name)))


def _refuse_options(status: int = 0, message: str = "") -> None:
    sentence = message.split("error: ")[-1].split("; --help")[0].strip()
    raise UserError(f"opt: {sentence}")


def _for_a_loaded_model(method: Any) -> Any:
    @functools.wraps(method)
    def checked(self: Any) -> None:
        if not self.loaded:
            raise RequestError(f"model {self.model_id} isn't loaded")
        if method.__name__ == "to_gpu" and not self.opt.cuda:
            raise RequestError(f"model {self.model_id} has gpu {self.opt.gpu}, expected a GPU")
        method(self)

    return checked
