from ledger.cli import ledger
from ledger.console import guard

guard(ledger)
