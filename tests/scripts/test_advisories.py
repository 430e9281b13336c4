#!/usr/bin/env python3
"""Tests of scripts/advisories on invented advisories. Offline, a second:

    python3 tests/scripts/test_advisories.py
"""

import datetime
import hashlib
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts/advisories"
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("advisories", str(SCRIPT))
advisories = importlib.util.module_from_spec(importlib.util.spec_from_loader("advisories", LOADER))
LOADER.exec_module(advisories)

ADVISORY = """```toml
[advisory]
id = "{id}"
package = "{package}"
date = "{date}"
{more}

[versions]
patched = {patched}
```

# Something is wrong with {package}

Words.
"""


class Versions(unittest.TestCase):
    def test_versions_are_ordered(self):
        texts = ["0.0.9", "0.1.0-alpha", "0.1.0-alpha.2", "0.1.0-alpha.10", "0.1.0-alpha.x", "0.1.0-rc.1", "0.1.0", "0.1.9", "0.1.10", "0.10.0", "1.0.0"]
        versions = [advisories.version(text) for text in texts]
        self.assertEqual(sorted(versions), versions)
        self.assertEqual(advisories.version("1.2.3+build.7"), advisories.version("1.2.3"))

    def test_requirements(self):
        for requirement, inside, outside in [
            (">= 1.2.3", ["1.2.3", "2.0.0"], ["1.2.2", "1.2.3-rc.1"]),
            (">=1.2", ["1.2.0", "1.10.0"], ["1.1.9"]),
            ("> 1.2.3", ["1.2.4"], ["1.2.3"]),
            ("> 1.2", ["1.3.0"], ["1.2.9"]),
            ("< 0.5.0", ["0.4.9", "0.5.0-alpha"], ["0.5.0"]),
            ("<= 1.2", ["1.2.9"], ["1.3.0"]),
            ("<= 1.2.3", ["1.2.3"], ["1.2.4"]),
            ("= 1.2.3", ["1.2.3"], ["1.2.4"]),
            ("= 1", ["1.9.0"], ["2.0.0"]),
            ("^0.3.24", ["0.3.24", "0.3.99"], ["0.3.23", "0.4.0"]),
            ("^ 1.2.3 ", ["1.9.0"], ["2.0.0"]),
            ("^0.0.3", ["0.0.3"], ["0.0.4"]),
            ("^0.0", ["0.0.9"], ["0.1.0"]),
            ("^0", ["0.9.0"], ["1.0.0"]),
            ("1.2", ["1.2.0", "1.9.0"], ["2.0.0", "1.1.0"]),
            ("~1.2.3", ["1.2.9"], ["1.3.0", "1.2.2"]),
            ("~1", ["1.9.0"], ["2.0.0"]),
            (">= 0.4.2, < 0.5.0", ["0.4.2"], ["0.5.0", "0.4.1"]),
            ("*", ["0.0.0"], []),
        ]:
            for text in inside:
                self.assertTrue(advisories.matches(advisories.version(text), requirement), f"{text} is {requirement}")
            for text in outside:
                self.assertFalse(advisories.matches(advisories.version(text), requirement), f"{text} is not {requirement}")
        with self.assertRaises(ValueError):
            advisories.matches(advisories.version("1.0.0"), "about 1")


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.database = pathlib.Path(folder.name) / "root", pathlib.Path(folder.name) / "database"
        self.vendor = self.root / "crates/serve/src/dashboard/site/vendor"
        self.vendor.mkdir(parents=True)
        (self.vendor / "a.js").write_text("import './b.js'")
        digest = hashlib.sha256(b"import 'b'").hexdigest()
        changed = [{"from": "'b'", "to": "'./b.js'"}]
        file = {"name": "a.js", "from": "dist/a.mjs", "sha256": digest, "changed": changed}
        (self.vendor / "vendored.json").write_text(json.dumps([{"package": "a", "version": "1.0.0", "files": [file]}]))
        self.lock("h2", "0.4.1")
        self.deny("")
        self.advisory("RUSTSEC-1", "h2", '["^0.3.24", ">= 0.4.2"]')

    def lock(self, name, version, source=advisories.REGISTRY):
        package = f'[[package]]\nname = "{name}"\nversion = "{version}"\n' + (f'source = "{source}"\n' if source else "")
        (self.root / "Cargo.lock").write_text(f'version = 4\n[[package]]\nname = "own"\nversion = "0.1.0"\n{package}')

    def deny(self, text):
        (self.root / "deny.toml").write_text(f'[advisories]\nyanked = "deny"\n{text}')

    def advisory(self, name, package, patched, more="", date="2026-01-02"):
        folder = self.database / "crates" / package
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(ADVISORY.format(id=name, package=package, date=date, patched=patched, more=more))

    def run_script(self, *words):
        command = [sys.executable, SCRIPT, "--root", self.root, "--snapshot", self.root / "snapshot.json", *words]
        ran = subprocess.run(command, capture_output=True, text=True)
        return ran.returncode, ran.stdout + ran.stderr

    def check(self):
        code, said = self.run_script("--update", self.database)
        self.assertEqual(code, 0, said)
        return self.run_script()

    def test_a_locked_version_is_found_unless_it_is_fixed_ignored_or_not_ours(self):
        code, said = self.check()
        self.assertEqual(code, 1, said)
        self.assertIn("FOUND h2 0.4.1: RUSTSEC-1, vulnerability: Something is wrong with h2 (fixed in ^0.3.24 or >= 0.4.2)", said)
        age = (datetime.date.today() - datetime.date(2026, 1, 2)).days
        self.assertIn(f"1 crates against 1 advisories, the newest {age} days old (2026-01-02)", said)
        for version in ["0.3.24", "0.4.2", "1.0.0"]:
            self.lock("h2", version)
            self.assertEqual(self.check()[0], 0, version)
        self.lock("h2", "0.4.1", source="")
        self.assertEqual(self.check()[0], 0, "a crate of our own")
        self.lock("h2", "0.4.1")
        for ignore in ['ignore = ["RUSTSEC-1"]', 'ignore = [{ id = "RUSTSEC-1", reason = "not reached" }]']:
            self.deny(ignore)
            self.assertEqual(self.check()[0], 0, ignore)

    def test_kinds_and_systems(self):
        for more, expected in [
            ('informational = "unmaintained"', 1),
            ('informational = "unsound"', 1),
            ('informational = "notice"', 0),
            ('withdrawn = "2026-02-02"', 0),
            ('[affected]\nos = ["windows"]', 0),
            ('[affected]\nos = ["windows", "linux"]', 1),
        ]:
            self.advisory("RUSTSEC-1", "h2", "[]", more)
            self.advisory("RUSTSEC-2", "other", "[]")
            self.assertEqual(self.check()[0], expected, more)

    def test_without_a_snapshot_it_says_how_to_make_one(self):
        code, said = self.run_script()
        self.assertEqual(code, 2, said)
        self.assertIn("--update DIR", said)
        code, said = self.run_script("--update", self.root)
        self.assertEqual(code, 1, said)
        self.assertIn("checkout", said)

    def test_a_vendored_file_that_differs_is_found(self):
        self.lock("h2", "1.0.0")
        self.assertEqual(self.check()[0], 0)
        for change in [lambda: (self.vendor / "a.js").write_text("import './b.js';"), lambda: (self.vendor / "a.js").unlink()]:
            change()
            code, said = self.run_script()
            self.assertEqual(code, 1, said)
            self.assertIn("FOUND a.js is not dist/a.mjs of a 1.0.0", said)


if __name__ == "__main__":
    unittest.main()
