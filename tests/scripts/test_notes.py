#!/usr/bin/env python3
"""Tests of packaging/notes. Offline, a second:

    python3 tests/scripts/test_notes.py
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHANGELOG = """# Changelog

## [Unreleased]

- Not yet.

## [0.2.0] - 2026-12-01

### Racing

- A [link](docs/a.md#b), and [one](https://example.com/x) elsewhere.

## [0.1.0]

- The first.

## [0.0.1]
"""


def notes(*words):
    with tempfile.TemporaryDirectory() as place:
        changelog = pathlib.Path(place) / "CHANGELOG.md"
        changelog.write_text(CHANGELOG)
        command = [sys.executable, ROOT / "packaging/notes", "--changelog", changelog, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        return done.returncode, done.stdout, done.stderr


class Notes(unittest.TestCase):
    def test_those_of_the_version_and_no_others(self):
        self.assertEqual(notes("0.2.0"), (0, "### Racing\n\n- A link, and [one](https://example.com/x) elsewhere.\n", ""))
        self.assertEqual(notes("0.1.0"), (0, "- The first.\n", ""))

    def test_links_lead_to_the_version(self):
        code, said, _ = notes("0.2.0", "--base", "https://example.com/v0.2.0/")
        self.assertEqual(code, 0)
        self.assertIn("[link](https://example.com/v0.2.0/docs/a.md#b), and [one](https://example.com/x)", said)

    def test_a_version_without_notes_is_an_error(self):
        for version in ("0.3.0", "0.0.1", "0.1", "0.2.0] - 2026"):
            code, said, why = notes(version)
            self.assertEqual((code, said), (1, ""), version)
            self.assertIn(f"says nothing of {version}", why)

    def test_this_version_has_notes(self):
        version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]
        done = subprocess.run([ROOT / "packaging/notes", version], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("### Racing", done.stdout)
        self.assertNotRegex(done.stdout, r"\]\((?!https?://)")


if __name__ == "__main__":
    unittest.main()
