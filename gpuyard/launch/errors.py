"""Errors in a configuration, told in words: what is wrong, and the nearest valid name; Ctrl-C."""

import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path
from typing import NoReturn

import yaml
from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep
from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import GrammarParseError, InterpolationKeyError, OmegaConfBaseException

from sim.errors import GpuYardError

HERE = Path(__file__).resolve().parents[1]
CONF = next(path for path in (HERE / "conf", HERE.parent / "conf") if path.is_dir())

COMMAND = "gpuyard"  # the installed command
LIKE_ENOUGH = 0.6  # share of equal letters from which a name is worth proposing
TAIL_WEIGHT = 0.95  # of a match in the last word only,
TAIL_LIKE_ENOUGH = 0.8  # which must be closer: `algo` is not `gpus.v100.also`; from one section
SAME_WORD = 1.0  # to another it must be the same: `tune.trials` is not `rivals`
MOST_NAMES, MOST_CHOICES = 20, 3  # in one message
FOR_READERS = "add workload=csv, or another workload that reads files (docs/workloads.md)"
FOR_OWN = "add profiles=own profiles.path=DIR (docs/interference.md)"
NEEDED = {"workload.path": FOR_READERS, "profiles.path": FOR_OWN, "interference.path": FOR_OWN}


class ConfigError(GpuYardError):
    """A configuration cannot be used; the message names the key and the fix."""


def explain(error: BaseException) -> str:
    """One message for a user: the error, its OmegaConf cause, and the nearest valid name."""
    known = _gpuyard_cause(error)
    if known is not None:
        return str(known)
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return _unreadable(error, error.problem_mark)
    grammar = error.__cause__
    if isinstance(grammar, GrammarParseError):  # which knows no file
        first, key = str(grammar).splitlines()[0], grammar.full_key
        at = f"key {key!r}: " if key else ""
        return f"{at}{first}; write ${{KEY}} in the yaml file, of your own, that has it"
    lines = _hydra_lines(error)
    culprit = error if isinstance(error, OmegaConfBaseException) else error.__cause__
    if isinstance(culprit, OmegaConfBaseException) and culprit.full_key:
        if culprit is not error:
            lines.append(str(culprit).splitlines()[0])
        if culprit.full_key in NEEDED:
            lines.append(NEEDED[culprit.full_key])
        elif isinstance(culprit, InterpolationKeyError):
            group = culprit.full_key.partition(".")[0]
            why = f"this choice of {group} reads a key that the program does not have"
            lines.append("the folder's name has ${; rename it" if group == "hydra" else why)
        else:
            lines += _instead_of(culprit.full_key, _keys_around(culprit))
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, wanted = error.missing_cfg_file.rpartition("/")
        options = [f"{group}={option}" for option in error.options or ()]
        lines += _suggestion(f"{group}={wanted.removesuffix('.yaml')}", options)
    return "\n  ".join(lines + _whose_experiment(lines))


def memory_ended(error: BrokenExecutor | MemoryError) -> str:
    """Why work, that was shared out to processes or not, could not go on."""
    if isinstance(error, MemoryError):
        return f"memory does not suffice: {error or 'none is left'}; ask for less, like fewer jobs"
    codes = re.search(r"\{.+\}", str(error))  # like {SIGKILL(-9)}
    return (
        f"a worker process ended{f' with {codes[0]}' if codes else ''}; the system kills one where "
        "memory runs out: let fewer run at once (jobs=N, or hydra.launcher.n_jobs=N of a sweep)"
    )


def _unreadable(error: yaml.MarkedYAMLError, mark: yaml.Mark) -> str:
    """The place in a file that is no YAML."""
    message = f"{mark.name} line {mark.line + 1}: {error.problem}"
    if error.context and error.context_mark is not None:
        message += f" ({error.context} that begins in line {error.context_mark.line + 1})"
    return f"{message}; mend the file"


def _whose_experiment(lines: list[str]) -> list[str]:
    """The command that an experiment is for, if it is what does not suit the program."""
    found = re.search(r"In 'experiment/(\w+)': Could not override", "\n".join(lines))
    if found is None:
        return []
    command = _command_of(found[1])
    return [] if command is None else [f"this experiment is for: {command}"]


def _command_of(experiment: str) -> str | None:
    """The command in the experiment's first lines; None if it is no file of ours or has none."""
    path = CONF / "experiment" / f"{experiment}.yaml"
    head = path.read_text(encoding="utf-8") if path.is_file() else ""
    command = re.search(r"^# python scripts/(\w+)\.py(.*)$", head, re.MULTILINE)
    return None if command is None else " ".join(called(command[1])) + command[2]


def called(program: str) -> list[str]:
    """How this process's user calls a program: by the installed command, or by its script."""
    typed = sys.argv[0].startswith(COMMAND)
    return [COMMAND, program] if typed else ["python", f"scripts/{program}.py"]


def nearest(wanted: str, known: Iterable[str]) -> str | None:
    """The known name most like `wanted`, or None if none is like it.

    `max_gang` finds `workload.max_gang`: a match of the last word counts almost as much.
    """
    scored = [(_likeness(wanted, key), key) for key in known]
    likeness, key = max(scored, default=(0.0, ""))
    return key if likeness >= LIKE_ENOUGH else None


def instead(wanted: object, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean NAME?`; where no name is like it `otherwise`, or all there are."""
    names = list(known)
    hint = nearest(str(wanted), names)
    return f"did you mean {hint}?" if hint else otherwise or f"it must be one of {', '.join(names)}"


OPEN = {"gpus", "hydra", "knows", "lineup", "makers", "policy.prior", "reproduce"}


def refuse_unread_additions(
    overrides: list[str], groups: Iterable[str], config: DictConfig, program: str
) -> None:
    """Raise ConfigError for what `+` adds to `config`, of `conf/<program>.yaml`, and nobody reads.

    A section with a `_target_` refuses unknown keys when it is built; one of OPEN takes names of a
    user's own, or checks them itself. Of keys that are there Hydra refuses those that are not null.
    """
    for override in OverridesParser.create().parse_overrides(overrides):
        name = override.key_or_group
        key = override.package or name
        if not override.is_add() or key.startswith("_"):
            continue
        if path := key.split(".")[:-1]:
            is_open = any(each.partition(".")[0] == path[0] for each in OPEN)
            foreign = is_open and path[0] != program and path[0] not in compose(program)
            unread = foreign or _unread(config, path)  # `reproduce` comes with an experiment
        else:  # a choice may set keys that are there; of a program's own groups Hydra takes no `+`
            unread = name not in groups or key in config
        if unread and not _referred_to(config, key):
            if key in _dotted(compose(program)):
                fix = f"leave out the +: {str(override.input_line).lstrip('+')}"
                raise ConfigError(f"{override.input_line}: the key {key!r} is there; {fix}")
            own, names = f"{key}.", (f"{each}." for each in (*groups, *_dotted(config)))
            known = [n[:-1] for n in names if not n.startswith(own) and not own.startswith(n)]
            raise ConfigError(f"{override.input_line}: {_nothing_reads(key, known)}")


def refuse_unread(experiment: str, config: DictConfig, plain: DictConfig) -> None:
    """Raise ConfigError for a key that an experiment's file adds to `plain`, made without it."""
    known = set(_dotted(plain))
    for key in _dotted(config):
        if key in known or key in OPEN or key.startswith("hydra."):
            continue
        if _unread(config, key.split(".")[:-1]) and not _referred_to(config, key):
            raise ConfigError(f"experiment={experiment}: {_nothing_reads(key, known)}")


def _nothing_reads(key: str, known: Iterable[str]) -> str:
    hint = _elsewhere(key) or _of_others(key, known) or _suggestion(key, known)
    return f"nothing reads the key {key!r}. {' '.join(hint) or 'Leave it out.'}"


def _unread(config: DictConfig, path: list[str]) -> bool:
    """Whether the section at `path` neither is one of OPEN nor refuses keys itself, as a whole."""
    section = config
    for at, name in enumerate(path, 1):
        section = section[name]
        open_ = ".".join(path[:at]) in OPEN
        if open_ or not isinstance(section, DictConfig) or "_target_" in section:
            return False
    return True


def _referred_to(config: DictConfig, key: str) -> bool:
    """Whether another value is made from that of `key`, of one inside it, or of one around it."""
    names, text = key.split("."), OmegaConf.to_yaml(config)
    around = [".".join(names[:at]) for at in range(1, len(names) + 1)]
    return f"${{{key}." in text or any(f"${{{each}}}" in text for each in around)


def refuse_no_choice(overrides: Sequence[str], options: Callable[[str], list[str]]) -> None:
    """Raise ConfigError for `group=null`, `group=3`, `group=[3]`: a group is a choice among files.

    `options` has the names of a group's files; none where there is no such group.
    """
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        group = override.key_or_group
        value = override.value()
        several = value.list if isinstance(value, ChoiceSweep) else value
        values = several if isinstance(several, list) else [several]
        named = values and not any(isinstance(each, int | float | None) for each in values)
        if not override.is_delete() and not named:
            known = [name for name in options(group) if not name.startswith("_")]
            if known:
                off = next((name for name in ("none", "off") if name in known), None)
                fix = f"{group}={off} switches it off" if off else "leave it out for the default"
                fix = "the number of agents is agents.count" if group == "agents" else fix
                names = f" ({', '.join(known)})" if len(known) <= MOST_NAMES else ""
                raise ConfigError(
                    f"{override.input_line}: {group} is one of the files of conf/{group}{names}; "
                    f"{fix}"
                )


def refuse_reproduction(experiment: str) -> NoReturn:
    """Raise ConfigError for an experiment whose cells the program would leave out."""
    command = _command_of(experiment) or f"{' '.join(called('reproduce'))} experiment={experiment}"
    raise ConfigError(f"experiment={experiment} is for: {command}")


def _hydra_lines(error: BaseException) -> list[str]:
    """Hydra's message without its search path and its advice to add the wrong name."""
    if isinstance(error, OverrideParseException):
        first = str(error).splitlines()[0]
        return [f"{error.override!r} is no override: {first}; put a value with =, ~, "
                """blanks, brackets or letters like é in quotes within quotes, """
                """like 'key="a=b (2)"'"""]  # fmt: skip
    kept: list[str] = []
    for line in str(error).splitlines():
        if line.startswith("Config search path"):
            break
        if line.strip() and not line.startswith("To append to your "):
            twice = r"To override a value use 'override (\w+): (\w+)'"  # of `+` before a choice
            kept.append(re.sub(twice, r"Leave out the +: \1=\2", line.strip()))
        group = re.search(r"override '([\w/]+)'\. No match in the defaults list", line)
        kept += [] if group is None else _elsewhere(group[1])
    return kept


def _elsewhere(group: str) -> list[str]:
    """Which programs let a file of `group` be chosen, where this one does not and some do."""
    found = ", ".join(programs_with(group, chosen=True))
    return [f"{group} is no choice of this program; it is one of {found}"] if found else []


def _of_others(key: str, known: Iterable[str]) -> list[str]:
    """Which programs have the key, or the choice that brings it, if it is in no section of ours."""
    head = key.partition(".")[0]
    if any(each == key or each.startswith(f"{head}.") for each in known):
        return []
    choosing, having = programs_with(head, chosen=True), ", ".join(programs_with(head))
    if choosing:
        first = min(path.stem for path in (CONF / head).glob("[!_]*.yaml"))
        tells = f"{' '.join(called(choosing[0]))} {head}={first} --help tells them"
        return [f"keys of {head} come with a choice of it, in {', '.join(choosing)}: {tells}"]
    return [f"{head} is a key of {having}"] if having else []


def programs_with(name: str, *, chosen: bool = False) -> list[str]:
    """Programs whose file of `conf/`, or one it is made of, has a key, or a `chosen` group."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(CONF.glob("*.yaml"))}
    found = {stem: yaml.safe_load(text) for stem, text in texts.items()}

    def has(stem: str) -> bool:
        defaults = found[stem]["defaults"]
        groups = [group for each in defaults if isinstance(each, dict) for group in each]
        here = name in (groups if chosen else found[stem])
        return here or any(has(each) for each in defaults if str(each) in found)

    return [stem for stem in texts if has(stem) and texts[stem].startswith("# python scripts/")]


def _likeness(wanted: str, key: str) -> float:
    whole = SequenceMatcher(None, wanted, key).ratio()
    tails = SequenceMatcher(None, wanted.rpartition(".")[2], key.rpartition(".")[2]).ratio()
    least = SAME_WORD if "." in wanted else TAIL_LIKE_ENOUGH
    return max(whole, TAIL_WEIGHT * tails if tails >= least else 0.0)


def _suggestion(wanted: str, known: Iterable[str]) -> list[str]:
    found = nearest(wanted, known)
    return [] if found is None else [f"did you mean {found}?"]


def _by_last_word(name: str, keys: Iterable[str], least: float) -> list[str]:
    """The key whose last word is most like `name`, the outermost of several; none below `least`."""
    words = ((SequenceMatcher(None, name, each.rpartition(".")[2]), each) for each in keys)
    scored = ((word.ratio(), -each.count("."), each) for word, each in words)
    likeness, _, key = max(scored, default=(0.0, 0, ""))
    return [f"did you mean {key}?"] if likeness >= least else []


def _instead_of(key: str, known: Sequence[str]) -> list[str]:
    """Where the key is, or the known one most like it, or those beside it.

    What stands before the last word is a section that is there, so that the last word alone tells.
    """
    section, _, name = key.rpartition(".")
    head = section and f"{section}."
    free = [each for each in known if not each.rpartition(".")[2].startswith("_")]
    below = [each for each in free if each.startswith(head)]
    beside = [each for each in below if "." not in each.removeprefix(head)]
    names = ", ".join(each.removeprefix(head) for each in beside) or "no keys"
    takes = names if len(beside) <= MOST_NAMES else "what --cfg job shows"
    return (
        _by_last_word(name, below, TAIL_LIKE_ENOUGH)
        or _of_others(key, known)
        or _by_last_word(name, beside, LIKE_ENOUGH)
        or _choices_with(key)
        or _by_last_word(name, free, SAME_WORD if section else TAIL_LIKE_ENOUGH)
        or [f"{section or 'the program'} takes {takes}"]
    )


def _choices_with(key: str) -> list[str]:
    """Which choices of the key's group have it, if it is a group and some do."""
    group, _, name = key.rpartition(".")
    files = sorted((CONF / group.replace(".", "/")).glob("[!_]*.yaml")) if group else []
    line = re.compile(rf"^{re.escape(name)}:", re.MULTILINE)
    having = [each.stem for each in files if line.search(each.read_text(encoding="utf-8"))]
    more = ", ..." if len(having) > MOST_CHOICES else ""
    return [f"{group}={', '.join(having[:MOST_CHOICES])}{more} has it"] if having else []


def _keys_around(error: OmegaConfBaseException) -> list[str]:
    """Dotted keys of the whole configuration in which `error` arose (Hydra's own left out)."""
    root = None if error.parent_node is None else error.parent_node._get_root()
    return [key for key in _dotted(root) if not re.match(r"hydra(\.|$)", key)]


def _dotted(node: object, prefix: str = "") -> Iterator[str]:
    if not isinstance(node, DictConfig) or node._is_missing() or node._is_none():
        return
    for name in map(str, node):
        yield f"{prefix}{name}"
        yield from _dotted(node._get_node(name), f"{prefix}{name}.")


def _gpuyard_cause(error: BaseException | None) -> GpuYardError | None:
    while error is not None and not isinstance(error, GpuYardError):
        error = error.__cause__
    return error


_pressed = threading.Event()


@contextmanager
def heeding_ctrl_c() -> Iterator[None]:
    """Within, Ctrl-C raises KeyboardInterrupt as ever; if a library drops it, `heed_ctrl_c` does.

    SIGTERM, Slurm's for one, does the same. For the main thread. What is ignored (Ctrl-C in a
    script's `command &`) stays ignored.
    """

    def press(number: int, _: object) -> None:
        if number == signal.SIGTERM and _pressed.is_set():
            return  # of whoever started us, who was interrupted with us: a clean-up is under way
        _pressed.set()
        raise KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    heard = {each: last for each, last in before.items() if last is not signal.SIG_IGN}
    for each in heard:
        signal.signal(each, press)
    try:
        yield
    finally:
        for each, last in heard.items():
            signal.signal(each, last)
        _pressed.clear()


def heed_ctrl_c() -> None:
    """Called wherever progress is told: KeyboardInterrupt, if a Ctrl-C was dropped on its way.

    Callbacks from compiled code drop it. Not while anything is done because of it, as a clean-up.
    """
    main = threading.current_thread() is threading.main_thread()
    if main and _pressed.is_set() and not came_of_ctrl_c(sys.exc_info()[1]):
        raise KeyboardInterrupt


def came_of_ctrl_c(error: BaseException | None) -> bool:
    """Whether `error` is a KeyboardInterrupt, or came up while one was on its way."""
    left, seen = [error], set[int]()  # OmegaConf's errors can be their own causes' causes
    while left:
        each = left.pop()
        if isinstance(each, KeyboardInterrupt):
            return True
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            left += [each.__cause__, each.__context__]
    return False
