"""Splits documentation, help texts and messages into sentences, and checks them against the project's rules."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_WORDS: Final = 25
MOST_COLUMNS: Final = 88
LANGUAGES: Final = ("console", "json", "python", "sh", "text", "yaml")
"""Tags of code blocks."""
_HABITS: Final = (
    r"^(Who|Whose|Whom)\b(?!.*\?$)",
    r"^What\b(?!.*\?$)",
    r"(?-i:^(Of(?! \d)|Such as|There where|Which)\b)(?!.*\?$)",
    r"\b(is|are|be|was|were) (told|asked|heard|believed|taken for)\b",
    r"\b(tells?|hears?|heard|innocent|believes?|believed|befalls?|mended?|mends)\b",
    r"\b(nobody|somebody|whom|ours|theirs|whence|thereby)\b",
    r"\b(there where|he who|those who|such as (are|is|were|was|do|does|has|have)|has not got|have not got)\b",
    r"\b(no more(?! than\b)|goes? along|the like|by (itself|themselves) alone)\b",
    r"\b(of which|what is (meant|there|said|asked|seen|read|missing|wrong is)|what was (asked|said|there))\b",
)
HABITS: Final = re.compile("|".join(f"(?:{habit})" for habit in _HABITS), re.IGNORECASE)
"""Phrases that are not idiomatic in technical English; the opening ones only as a sentence's first words."""
_FENCE: Final = re.compile(r"^ *(```+|:::+) *(\S*)")
_ITEM: Final = re.compile(r"^ *(?:[-*+]|\d+\.) +")
_END: Final = re.compile(
    r"(?<=[.!?])[)\"'*_]*\s+(?=[\"'(*_`\[]*(?:[A-Z0-9`<]|[a-z]+\d|(?:rocelab|rxe|perftest|tcpdump) ))"
)
_NOT_AN_END: Final = re.compile(r"\b(e\.g|i\.e|etc|vs|et al|cf|no)\.$", re.IGNORECASE)
_CODE: Final = re.compile(r"``[^`]+``|`[^`]+`")
_MASK: Final = "\0"
"""Stands for a space in code, where no sentence ends."""
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MESSAGES: Final = re.compile(r"(Error|Lacks|Busy|Failed|Interrupted|NotConverged|InvalidInput|Problem)$")
_TITLED: Final = frozenset({"Table", "table", "show_table", "print_table"})


@dataclass(frozen=True)
class Sentence:
    """One sentence, and the line of its source on which its paragraph or literal begins."""

    line: int
    text: str

    def idioms(self) -> list[str]:
        """Its phrases that are not idiomatic; code is left out."""
        return [f"'{match[0]}'" for match in HABITS.finditer(_CODE.sub("`code`", self.text))]

    def faults(self) -> list[str]:
        """Every rule that it breaks."""
        found = self.idioms()
        if (words := len(word_list(self.text))) > MOST_WORDS:
            found.append(f"{words} words")
        return found

    def __str__(self) -> str:
        return f"{self.line}: {', '.join(self.faults())}: {self.text}"


@dataclass(frozen=True)
class Block:
    """A fenced code block: the line of its fence, its language, its lines."""

    line: int
    language: str
    lines: tuple[str, ...]

    def faults(self) -> list[str]:
        """Every rule that it breaks."""
        found = [] if self.language in LANGUAGES else [f"{self.line}: language '{self.language}'"]
        numbered = enumerate(self.lines, start=self.line + 1)
        return found + [f"{at}: {len(line)} columns: {line}" for at, line in numbered if len(line) > MOST_COLUMNS]


def word_list(text: str) -> list[str]:
    """The words of a sentence; code counts as one word, punctuation as none."""
    plain = _LINK.sub(r"\1", _CODE.sub(" code ", text))
    return [word for word in plain.split() if re.search(r"\w", word)]


def split(line: int, text: str) -> Iterator[Sentence]:
    """The sentences of one paragraph."""
    masked = _CODE.sub(lambda code: code[0].replace(" ", _MASK), " ".join(text.split()))
    pending = ""
    for part in _END.split(masked):
        pending = f"{pending} {part}".strip().replace(_MASK, " ")
        if not _NOT_AN_END.search(pending):
            yield Sentence(line, pending)
            pending = ""
    if pending:
        yield Sentence(line, pending)


def paragraphs(markdown: str) -> Iterator[tuple[int, str]]:
    """Prose of a page: paragraphs, items of lists, headings, and cells of tables; no code."""
    fence, begun, held = "", 0, ""
    for at, line in enumerate([*markdown.splitlines(), ""], start=1):
        marker = _FENCE.match(line)
        if fence or marker:
            if held:
                yield begun, held
            held = ""
            fence = fence if fence and not line.startswith(fence) else "" if fence else marker[1] if marker else ""
            continue
        alone = not line.strip() or line.startswith(("#", "|", "    ")) or _ITEM.match(line)
        if held and alone:
            yield begun, held
            held = ""
        if line.startswith("|"):
            yield from ((at, cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1] if cell.strip(" -:"))
        elif line.startswith("#"):
            yield at, line.lstrip("# ")
        elif line.strip() and not (line.startswith("    ") and not held):
            begun, held = (begun, f"{held} {line.strip()}") if held else (at, _ITEM.sub("", line.strip()))


def sentences(markdown: str) -> list[Sentence]:
    """Every sentence of a page."""
    return [sentence for line, text in paragraphs(markdown) for sentence in split(line, text)]


def code_blocks(markdown: str) -> list[Block]:
    """Every fenced block; a block that is only indented has the language ``indented``."""
    found, opened, fence = [], None, ""
    lines = markdown.splitlines()
    for at, line in enumerate(lines, start=1):
        marker = _FENCE.match(line)
        if opened is not None:
            if line.startswith(fence):
                found.append(Block(opened[0], opened[1], tuple(lines[opened[0] : at - 1])))
                opened = None
        elif marker and marker[1].startswith("`"):
            opened, fence = (at, marker[2]), marker[1]
        elif line.startswith("    ") and (at == 1 or not lines[at - 2].strip()):
            found.append(Block(at - 1, "indented", (line,)))
    return found


def _literal(node: ast.expr) -> str | None:
    """A string as a user would read it: a value in an f-string is the word ``X``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _literal(node.left), _literal(node.right)
        return f"{left or 'X'}{right or 'X'}" if left or right else None
    return None


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _shown(call: ast.Call) -> Sequence[ast.expr]:
    """The arguments of a call that a user reads."""
    name = _called(call)
    if _MESSAGES.search(name) or name == "warn":
        return [*call.args, *(word.value for word in call.keywords)]
    titles = [word.value for word in call.keywords if word.arg in ("title", "help")]
    return titles + (list(call.args[:1]) if name in _TITLED else [])


_PROGRAM: Final = re.compile(r"[{}]{2}|^(#!|\^|<)|\\[a-z]|^\s*(#|--) ", re.MULTILINE)
"""Marks a literal that is a script, a regular expression or HTML."""
_LABEL: Final = 3
"""Words of the longest label: a sentence has more."""


def _quiet(tree: ast.AST) -> set[ast.expr]:
    """Docstrings, and the parts of f-strings, which are read with the whole."""
    found: set[ast.expr] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            found.update(part for part in node.values if isinstance(part, ast.Constant))
    return found


def docstrings(source: str) -> list[Sentence]:
    """Every sentence of a module's docstrings, tables and code left out."""
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    prose = [
        (node.lineno, node.value) for node in texts if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return [
        sentence
        for line, text in prose
        for at, paragraph in paragraphs(text)
        if "=====" not in paragraph
        for sentence in split(line + at - 1, paragraph)
    ]


def printed(source: str) -> list[Sentence]:
    """Every string of a module that reads as prose, wherever it is printed: more than three words, and no program."""
    tree = ast.parse(source)
    quiet = _quiet(tree)
    found: list[Sentence] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant | ast.JoinedStr) or node in quiet:
            continue
        text = _literal(node)
        if text and not _PROGRAM.search(text):
            found += [each for part in text.split(": ") for each in split(node.lineno, part)]
    return [each for each in found if len(word_list(each.text)) > _LABEL]


def messages(source: str) -> list[Sentence]:
    """The errors, warnings, table titles and option helps of a module, read from its source."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    texts = [(node.lineno, text) for call in calls for node in _shown(call) if (text := _literal(node))]
    found = [sentence for line, text in texts for part in text.split(": ") for sentence in split(line, part)]
    return [Sentence(each.line, each.text) for each in found]


_STEP: Final = re.compile(r"^    (?:Given|When|Then|And|But) +(?=\S)")


def story(text: str) -> list[Sentence]:
    """The sentences of a scenario's text: its title, steps and numbers; no picture."""
    found: list[Sentence] = []
    held = ""
    for at, line in enumerate([*text.splitlines(), ""], start=1):
        step = _STEP.match(line)
        if held and (step or not line.strip()):
            found += split(at, held.replace(": ", ". "))
            held = ""
        if step:
            held = line[step.end() :]
        elif held:
            held = f"{held} {line.strip()}"
        elif line.strip() and not line.startswith("        "):
            found += split(at, line.strip())
    return found
