"""One Report, three views: text, JSON and one self-contained HTML page."""
