"""What of a LaTeX source is text: comments, listings, labels and lengths as blanks of the same length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from recompute import grammar
from recompute.documents.draft import blanked

_GROUP = r"\s*\{[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*\}"
_OPTION = r"(?:[ \t]*\[[^\[\]]*\])"
_QUIET = re.compile(
    r"\\begin\{(?P<env>verbatim\*?|lstlisting|minted|comment|filecontents\*?)\}[\s\S]*?(?:\\end\{(?P=env)\}|\Z)"
    r"|\\(?:verb\*?|lstinline)(?P<bar>[^\w\s*{\[])[^\r\n]*?(?P=bar)|(?P<escape>\\[^a-zA-Z])|%[^\r\n]*"
)
# Commands whose arguments are no text, by how many of them are not.
_ARGUMENTS = {
    0: r"footnotemark|centering|item|includegraphics(?!\s*[\[{])|linebreak|num(?=\[)|cmidrule\([^)]*\)(?=\{)",
    1: r"label|[a-zA-Z]*ref|[cC]ite[a-zA-Z]*|bibitem|includegraphics|input|include|bibliography|bibliographystyle"
    r"|usepackage|documentclass|[vh]space|end|cellcolor|rowcolor|columncolor|color|textcolor|href|url|tnote|pagestyle"
    r"|textsuperscript|scalebox|hypersetup|captionsetup|sisetup|cline|cmidrule(?:\([^)]*\))?|(?:SI|qty)(?=\[)"
    r"|newcolumntype|thispagestyle|pagenumbering|fontsize|parbox",
    2: r"setlength|addtolength|setcounter|addtocounter|(?:re)?newcommand|providecommand|rule|resizebox|definecolor",
}
_NO_TEXT = re.compile(
    "|".join(
        rf"\\(?:{names})\*?(?![a-zA-Z]){_OPTION}*(?:{_GROUP}){{{count}}}" for count, names in sorted(_ARGUMENTS.items())
    )
    + rf"|\\begin\{{[^{{}}]*\}}(?:{_OPTION}|{_GROUP}(?=\s*(?:\n|\\|%)))*"
)
_STYLED = re.compile(r"(?<![-+\u2212\u2013$])\\(?:text[a-z]{2}|emph|text|math[a-z]{2}|underline|num|bm)\{([^{}]*)(\})")
_COMMAND = re.compile(
    r"(?<![-+\u2212\u2013{a-zA-Z])\\(?!(?:times|cdot|textminus|pm|SI|qty|textsuperscript)(?![a-zA-Z]))[a-zA-Z]+\*?"
)


def uncommented(source: str) -> str:
    """The source without comments, listings, what stands before the document, and what stands after it."""
    text = blanked(source, (match.span() for match in _QUIET.finditer(source) if match["escape"] is None))
    begun, ended = text.find("\\begin{document}"), text.find("\\end{document}")
    around = [(0, begun)] if begun > 0 else []
    return blanked(text, [*around, (ended, len(text))] if ended > begun else around)


def spoken(text: str) -> str:
    """Uncommented text without labels, lengths, file names and styling. Every number in it stands as in the source,
    with what is between it and its unit.
    """
    if "\\" in text:
        text = blanked(text, (match.span() for match in _NO_TEXT.finditer(text)))
        for _ in range(3):  # styles within styles
            text = blanked(text, _styles(text))
        text = blanked(text, (match.span() for match in _COMMAND.finditer(text)))
    return re.sub("~", lambda tie: tie[0] if grammar.UNIT.match(text, tie.start()) else " ", text)


def _styles(text: str) -> Iterator[tuple[int, int]]:
    for match in _STYLED.finditer(text):
        yield match.start(), match.start(1)
        if not grammar.UNIT.match(text, match.start(2)):
            yield match.span(2)


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """LaTeX as a reader sees it."""
    if "\\" in text or "{" in text or "$" in text or "~" in text:
        text = re.sub(r"\\footnote(?:\[[^\]]*\])?\{[^{}]*\}", "", _NO_TEXT.sub("", text))
        text = re.sub(r"\$?\^(?:\{[^{}]*\}|\\\w+|\w)\$?|\\textsuperscript\{[^{}]*\}", "", text)
        text = (
            text.replace("\\%", "%")
            .replace("\\&", "&")
            .replace("\\_", "_")
            .replace("{,}", ",")
            .replace("\\,", "\u2009")
        )
        text = re.sub(r"[$~]", lambda sign: " " if sign[0] == "~" else "", text)
    if "\\" in text or "{" in text:
        from pylatexenc.latex2text import LatexNodes2Text

        try:
            text = LatexNodes2Text(keep_comments=False).latex_to_text(text.replace("%", "\\%"), tolerant_parsing=True)
        except (RecursionError, ValueError, IndexError, AttributeError):  # more braces than it can follow
            text = re.sub(r"[{}]|\\[a-zA-Z]*", "", text)
    return " ".join(text.split())
