"""The catalog: the parts that a study can name, built in or from the user's files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError, PartError, described, offer, shortened
from gradlab.parts.folders import built_in, built_in_names
from gradlab.parts.loading import NAME, PartFile, load_file
from gradlab.parts.part import Part, StandIn, with_article


@dataclass(frozen=True)
class Catalog:
    """The parts a study can name: the built-in ones and those of the user's files."""

    files: tuple[PartFile, ...] = ()
    _own: Mapping[tuple[str, str], type[Part]] = field(default_factory=dict, repr=False, compare=False)
    executed: bool = True
    """Whether the files' code was run. If not, names that are not built in are represented by a `StandIn`."""

    def __reduce__(self) -> Any:
        """Pickle the file list only: another process loads the files again and checks that they are the same."""
        return (_reloaded, (self.files,)) if self.executed else (Catalog, (self.files, {}, False))

    @staticmethod
    def unread(files: Iterable[PartFile]) -> Catalog:
        """A catalog that lists the files without running their code, for opening runs that are not trusted."""
        return Catalog(tuple(files), {}, executed=False)

    @staticmethod
    def with_files(paths: Iterable[str | Path]) -> Catalog:
        """Load the user's files (this runs their code) and add their parts to the built-in ones."""
        files, own = [], {}
        for path in map(Path, paths):
            file, found = load_file(path)
            for key, part in found.items():
                if key in own or key[1] in built_in_names(key[0]):
                    raise PartError(
                        f"{path}: there already is {with_article(key[0])} named {key[1]!r}; choose another name"
                    )
                own[key] = part
            files.append(file)
        return Catalog(tuple(files), own)

    def names(self, kind: str) -> list[str]:
        """All names of a kind, sorted."""
        return sorted([*built_in_names(kind), *(name for k, name in self._own if k == kind)])

    def ranked(self, kind: str) -> list[str]:
        """All names of a kind by the parts' own `rank`, and by name where ranks are equal."""
        return sorted(self.names(kind), key=lambda name: (self.get(kind, name).rank, name))

    def get(self, kind: str, name: object) -> type[Part]:
        """The part class, or a `PartError` that lists what there is."""
        if not isinstance(name, str) or name not in self.names(kind):
            if not self.executed and isinstance(name, str) and NAME.fullmatch(name):
                return type("StandIn", (StandIn,), {"part": kind, "name": name, "__doc__": StandIn.__doc__})
            accepted = self.names(kind)
            raise PartError(f"{shortened(name)} is not {with_article(kind)}{offer(name, accepted)}")
        return self._own.get((kind, name)) or built_in(kind, name)

    def make(self, kind: str, name: str, parameters: Mapping[str, Any]) -> Any:
        """The part with its parameters."""
        return self.get(kind, name).parse(parameters)


def _reloaded(files: tuple[PartFile, ...]) -> Catalog:
    catalog = Catalog.with_files([file.path for file in files]) if files else BUILT_IN
    if catalog.files != files:
        raise PartError(f"parts file {files[0].path}: has changed since the study was loaded; start the run again")
    return catalog


BUILT_IN = Catalog()


@contextmanager
def blaming(own: bool) -> Iterator[None]:
    """Inside, with parts of the user's own, whatever they raise (also `sys.exit`) becomes a `PartError`."""
    try:
        yield
    except (GradlabError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if not own:
            raise
        raise PartError(f"a part of the study's own fails: {described(error)}") from error
