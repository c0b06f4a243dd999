"""What a server is: how it is started, or where it runs, and which of a study's files its command names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pydantic import Field, field_validator, model_validator

from ledger.errors import CannotCheck
from ledger.events.base import Part
from runs.engines.http_kinds import KINDS

if TYPE_CHECKING:
    from runs.study import Arm

_PLACE = re.compile(r"\{([a-z]+)(?:\.([A-Za-z0-9._-]+))?\}")
_ALONE, _NAMED = {"model", "port", "python"}, {"maps", "env"}
# What a server finds in its environment besides the study's own `env`: nothing there changes what it computes.
_INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ")


class Server(Part):
    """A server that arms ask over HTTP.

    kind: whose server it is (`runs.engines.http_kinds`). command: starts it, in words as a shell splits them;
    {model} and {maps.NAME} are where the study's pinned files lie, {port} a free one, {python} our own interpreter,
    {env.NAME} a variable that says where something lies on this machine. url: where one runs already, instead of a
    command. env: its environment, besides PATH, HOME and the like. ready_s: seconds it may take to get ready. alone:
    no other server runs while it is asked, for a machine that cannot hold two; with pairing = "none" each is started
    once more and not at every sample.
    """

    kind: str
    command: str = ""
    url: str = ""
    env: dict[str, str] = Field(default_factory=dict)
    ready_s: int = Field(default=300, ge=1)
    alone: bool = False

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"no kind of server is called {kind!r}; known: {', '.join(KINDS)}")
        return kind

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Server:
        if bool(self.command) == bool(self.url):
            raise ValueError("a server has a command that starts it, or the url where it runs")
        if self.url and not re.fullmatch(r"http://[^/\s:]+:\d+", self.url):
            raise ValueError(f"a url is http://HOST:PORT, not {self.url!r}")
        if self.url and (self.env or self.alone):
            raise ValueError("a server that runs already has its own env, and is not stopped for another")
        if self.command:
            names = {name for name, _ in _places(self.command)}
            for needed in ("model", "port"):
                if needed not in names:
                    raise ValueError(f"the command does not say {{{needed}}}, so another could be served or asked")
        for text in (self.command, *self.env.values()):
            for name, rest in _places(text):
                if name not in (_NAMED if rest else _ALONE):
                    raise ValueError(f"{{{name}{'.' + rest if rest else ''}}} stands for nothing")
        return self

    @property
    def maps(self) -> tuple[str, ...]:
        """The names of the maps that it is started with."""
        return tuple(dict.fromkeys(rest for name, rest in _places(self.command) if name == "maps"))

    @property
    def program(self) -> str:
        """The program that the command starts, where it lies here. Raises CannotCheck when it is not."""
        word = self.words({})[0]
        found = shutil.which(word)
        if found is None:
            raise CannotCheck("its program is not here", expected=word, found="nothing that can be executed")
        return found

    def check_here(self) -> None:
        """Raises CannotCheck when this machine lacks what the command names."""
        if self.command:
            _ = self.program, self.environment

    @property
    def environment(self) -> dict[str, str]:
        """Every variable that it gets. Raises CannotCheck for an {env.NAME} that is not set."""
        own = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return own | {name: _filled(value, {}) for name, value in self.env.items()}

    def words(self, files: Mapping[str, str]) -> list[str]:
        """The command's words with what `files` has for "model", "port" and "maps.NAME"; others stay as they are.

        Raises CannotCheck for an {env.NAME} that is not set.
        """
        return [_filled(word, files) for word in shlex.split(self.command)]

    def refusal(self, arm: Arm) -> str:
        """Why it cannot answer for an arm, "" when it can."""
        if self.url:
            return ""
        if arm.fill == "map" and arm.maps not in self.maps:
            return f"its command names no {{maps.{arm.maps}}}"
        if arm.fill == "exact" and self.maps and not KINDS[self.kind].switches:
            return "it fills every prompt; start another without {maps...} for exact arms"
        return ""


def _places(text: str) -> Iterator[tuple[str, str]]:
    return ((match[1], match[2] or "") for match in _PLACE.finditer(text))


def _filled(text: str, files: Mapping[str, str]) -> str:
    def put(match: re.Match[str]) -> str:
        name, rest = match[1], match[2] or ""
        if name == "python":
            return sys.executable
        if name == "env":
            if rest not in os.environ:
                raise CannotCheck(
                    f"the variable {rest} is not set",
                    expected="where something lies on this machine",
                    hint=f"{rest}=...",
                )
            return os.environ[rest]
        return files.get(f"{name}.{rest}" if rest else name, match[0])

    return _PLACE.sub(put, text)
