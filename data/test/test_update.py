#!/usr/bin/env python3
"""Tests of data/update on invented sources, and the rules that the real files keep. Offline, about a second:

    python3 data/test/test_update.py
"""
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
from collections import Counter

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent
PRICES = ["input", "cached", "written", "output"]


def update(data, *options):
    """Runs the script on the invented sources in `data`: exit code, and all that it printed."""
    inputs = ["--models-dev", data / "models.dev", "--genai-prices", data / "genai_prices.py", "--litellm", data / "litellm.json",
              "--pi", data / "pi", "--vendors", data / "vendors"]
    ran = subprocess.run([sys.executable, DATA / "update", "--data", data, *inputs, *options], capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


compact = json.JSONEncoder(separators=(",", ":")).encode


def rows(path):
    file = json.loads(path.read_text())
    return {(provider, cells[0]): dict(zip(file["columns"], cells)) for provider, rows in file["rows"].items() for cells in rows}


class Invented(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = pathlib.Path(folder.name) / "data"
        shutil.copytree(HERE, self.data)
        self.catalogue = self.data / "catalogue.json"

    def edit(self, name, old, new):
        text = (self.data / name).read_text()
        self.assertIn(old, text)
        (self.data / name).write_text(text.replace(old, new))

    def test_the_same_input_gives_the_same_bytes(self):
        self.assertEqual(update(self.data, "--check"), (0, ""))
        self.catalogue.unlink()
        self.assertEqual(update(self.data)[0], 0)
        self.assertEqual(self.catalogue.read_text(), (HERE / "catalogue.json").read_text())

    def test_a_byte_that_differs_is_found(self):
        self.edit("catalogue.json", '"dear-1",1.5', '"dear-1",1.4')
        self.assertEqual(update(self.data, "--check")[0], 1)

    def test_another_input_than_the_pinned_one_is_refused(self):
        self.edit("litellm.json", "1e-06", "2e-06")
        code, text = update(self.data)
        self.assertEqual(code, 1)
        self.assertRegex(text, "this litellm is not the one in sources.toml: sha256 = [0-9a-f]{64}")
        self.assertEqual(self.catalogue.read_text(), (HERE / "catalogue.json").read_text())

    def test_an_input_can_be_pinned_as_it_is(self):
        self.edit("litellm.json", "1e-06", "2e-06")
        self.assertEqual(update(self.data, "--pin")[0], 0)
        pinned = tomllib.loads((self.data / "sources.toml").read_text())
        today = datetime.date.today().isoformat()
        self.assertEqual((pinned["date"], pinned["litellm"]["date"], pinned["pi"]["date"]), (today, today, "2030-04-01"))
        self.assertEqual(update(self.data, "--check"), (0, ""))

    def test_a_link_that_leads_nowhere_is_passed_over(self):
        os.symlink("../nowhere.toml", self.data / "models.dev/providers/alpha/models/lost.toml")
        self.assertEqual(update(self.data, "--check"), (0, ""))

    def test_it_says_what_was_added_is_gone_and_moved_and_what_is_undecided(self):
        self.edit("catalogue.json", '["dear-1"', '["dear-0"')
        self.edit("catalogue.json", '"small-1","small-1",0.2,null,null,0.8', '"small-1","small-1",0.19,null,null,0.7')
        self.edit("catalogue.json", '"maker/large-1","large-1",1,', '"maker/large-1","large-1",null,')
        text = update(self.data)[1]
        for line in ("added: alpha/dear-1", "retired: alpha/dear-0", "moved: alpha/small-1 output 0.7 -> 0.8",
                     "moved: alpha/maker/large-1 input None -> 1", "undecided: alpha/somebody/large-1, perhaps large-1",
                     "direct hosts: 6 rows with two prices, 3 equal at two, 1 disputed"):
            self.assertIn(line + "\n", text)
        self.assertNotIn("small-1 input", text, "moved by less than 10 %")

    def test_a_vendor_outranks_the_tables_and_what_a_source_dropped_is_retired(self):
        found = {key: (row.get("status"), row.get("retires"), row["seen"]) for key, row in rows(self.catalogue).items()}
        for key, expected in {
            ("delta", "kept-1"): (None, None, "2030-06-01"),  # the vendor lists it, although litellm has it end in January
            ("delta", "past-1"): ("retired", "2030-05-01", "2030-06-01"),  # the vendor's day, although litellm still has it
            ("delta", "unlisted-1"): ("retired", None, "2030-06-01"),  # the vendor's list lacks it
            ("delta", "long-announced-1"): (None, "2030-12-11", "2030-05-20"),
            ("delta", "small-2-0"): (None, "2030-07-03", "2030-05-20"),  # the vendor alone has it: its price is unknown
            ("epsilon", "dropped-1"): ("retired", None, "2030-01-01"),  # the newer source has the provider and lacks it
            ("epsilon", "both-1"): (None, None, "2030-06-01"),
        }.items():
            self.assertEqual(found[key], expected, key)
        for absent in (("delta", "wrong-1"), ("delta", "never-was-1"), ("delta", "paint-1"), ("delta", "shown-1")):
            self.assertNotIn(absent, found)
        self.assertIsNone(rows(self.catalogue)["delta", "small-2-0"]["input"])

    def test_a_router_s_row_has_the_name_that_the_maker_s_own_row_has(self):
        named = {key[1]: row["model"] for key, row in rows(self.catalogue).items() if key[0] == "router"}
        self.assertEqual(named, {"delta/small-2": "small-2", "delta/small-2.0": "small-2-0", "maker/large-1": "large-1"})

    def test_what_no_source_has_any_more_is_kept_as_retired_for_a_year(self):
        self.edit("catalogue.json", '["dear-1","dear-1"', '["dear-9","dear-9",1],\n["dear-1","dear-1"')
        self.edit("catalogue.json", '["dear-9","dear-9",1]', compact(["dear-9", "dear-9", 1] + [None] * 7 + ["l", "2029-06-02"]))
        self.edit("catalogue.json", '["new-1","new-1"', compact(["dear-8", "dear-8", 1] + [None] * 7 + ["l", "2029-06-01"])
                  + ',\n["new-1","new-1"')
        text = update(self.data)[1]
        self.assertIn("retired: alpha/dear-9\n", text)
        self.assertIn("gone: alpha/dear-8\n", text)
        kept = rows(self.catalogue)["alpha", "dear-9"]
        self.assertEqual((kept["status"], kept["seen"], kept["input"]), ("retired", "2029-06-02", None))
        self.assertEqual(update(self.data, "--check"), (0, ""))

    def test_a_person_and_a_link_that_disagree_are_an_error_until_the_row_is_named(self):
        self.edit("identity.toml", 'of = "large-1"\n', 'of = "large-1"\nids = ["maker/large-1"]\n#')
        code, text = update(self.data)
        self.assertEqual(code, 1)
        self.assertIn("alpha:maker/large-1: large-1-fp8 in identity.toml, but linked to maker/large-1", text)
        self.edit("identity.toml", '"maker/large-1"', '"alpha:maker/large-1", "router:maker/large-1"')
        self.assertEqual(update(self.data)[0], 0)
        self.assertEqual(rows(self.catalogue)["alpha", "maker/large-1"]["model"], "large-1-fp8")


class Committed(unittest.TestCase):
    """Rules of the real files that need no input."""

    @classmethod
    def setUpClass(cls):
        cls.text = (DATA / "catalogue.json").read_text()
        cls.file, cls.rows = json.loads(cls.text), rows(DATA / "catalogue.json")
        cls.identity = tomllib.loads((DATA / "identity.toml").read_text())
        cls.sources = tomllib.loads((DATA / "sources.toml").read_text())
        cls.overrides = tomllib.loads((DATA / "overrides.toml").read_text())["row"]

    def test_it_fits_into_200_kb_and_is_in_order(self):
        self.assertLessEqual(len(self.text.encode()), 200_000)
        self.assertEqual(list(self.rows), sorted(self.rows))
        self.assertEqual(self.file["date"], self.sources["date"])
        count = sum(len(rows) for rows in self.file["rows"].values())
        self.assertEqual(len(self.rows), count, "two rows with one id")
        self.assertEqual(sum(line.startswith("[") for line in self.text.splitlines()), count, "one row a line")

    def test_every_hosted_provider_has_rows(self):
        known = tomllib.loads((DATA.parent / "crates/config/src/catalogue.toml").read_text())["provider"]
        hosted = {provider["name"] for provider in known if "key_variable" in provider}
        self.assertEqual({provider for provider, rows in self.file["rows"].items() if rows}, hosted)

    def test_prices_limits_and_kinds_are_possible(self):
        for key, row in self.rows.items():
            for field in PRICES:
                price, free = row.get(field), key[1].endswith(":free")
                self.assertTrue(price is None or 0 < price < 1_000 or free and price == 0, (key, field, price))
            for field in ("context", "max_output"):
                self.assertTrue(row.get(field) is None or type(row[field]) is int and row[field] > 0, (key, field))
            self.assertLessEqual(set((row.get("kinds") or "").split()), {"audio", "image", "pdf", "video"}, key)
            self.assertTrue(row.get("status") == "retired" or re.fullmatch("[-+?]{3}", row["abilities"]), key)
            self.assertRegex(row["seen"], r"^20\d\d-\d\d-\d\d$", key)
            self.assertLessEqual(row["seen"], self.file["date"], key)
            ended = row.get("status") == "retired"
            self.assertTrue(ended or not row.get("retires") or row["retires"] > self.file["date"], key)
            self.assertIn(row.get("status"), (None, "preview", "deprecated", "retired"), key)
            self.assertRegex(row["source"], "^m?g?l?p?v?o?$", key)

    def test_a_price_of_storage_is_no_price_of_a_written_token(self):
        names = tomllib.loads((DATA / "sources.toml").read_text())["providers"]
        stored = [row for (provider, id), row in self.rows.items() if re.search(names[provider].get("storage", "^$"), id)]
        self.assertGreater(len(stored), 8)
        for row in stored:
            self.assertIsNone(row.get("written"), row["id"])
            self.assertEqual({tier[3] for tier in row.get("tiers") or []} - {None}, set(), row["id"])

    def test_identity_toml_decides_each_word_once(self):
        models = self.identity["models"]
        for field in ("ids", "links"):
            words = Counter(word for model in models.values() for word in model.get(field, []))
            self.assertEqual([word for word, count in words.items() if count > 1], [], field)
        named = {row["model"] for row in self.rows.values() if row.get("model")}
        also = [word for model in models.values() for word in model.get("also", [])]
        self.assertEqual([word for word in also if also.count(word) > 1 or word in named], [])
        lower = Counter(name.lower() for name in [*named, *also])
        self.assertEqual([name for name, count in lower.items() if count > 1 or "/" in name], [])

    def test_every_row_was_decided(self):
        nameless = {f"{provider}:{id}" for (provider, id), row in self.rows.items() if not row.get("model")}
        self.assertEqual(nameless, set(self.identity["no_name"]))

    def test_every_decision_is_in_the_catalogue(self):
        spelled = {id.removesuffix(":free") for _, id in self.rows}
        words = {word for model in self.identity["models"].values() for word in model.get("ids", [])}
        for name, model in self.identity["models"].items():
            for word in model.get("ids", []):
                provider, _, id = word.partition(":")
                alone = provider in self.sources["providers"]
                self.assertTrue((id if alone else word) in spelled, f"{name}: no row has the id {word}")
                for key, row in self.rows.items():
                    if key == (provider, id) or not alone and key[1] == word and f"{key[0]}:{word}" not in words:
                        self.assertEqual(row.get("model"), name, key)

    def test_every_correction_is_applied_and_says_where_from(self):
        for change in self.overrides:
            row = self.rows[change["provider"], change["id"]]
            self.assertTrue(row["source"].endswith("o") and change["source"] and change["date"], change)
            for field in change.keys() - {"provider", "source"}:
                self.assertEqual(row[field], change[field], change)


if __name__ == "__main__":
    unittest.main()
