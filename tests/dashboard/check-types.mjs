#!/usr/bin/env node
// Checks the types of the pages: see README.md. `--kits DIR` has TypeScript; `--openapi FILE` the document of the gateway.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { declarations } from "./api-types.mjs";

const repository = resolve(import.meta.dirname, "../..");
const { values: options } = parseArgs({ options: { kits: { type: "string", default: "." }, openapi: { type: "string" } } });
if (!options.openapi) throw new Error("--openapi FILE is missing: the answer of /api/openapi.json");

const settings = {
  compilerOptions: {
    allowJs: true, checkJs: true, strict: true, noEmit: true, target: "es2023", module: "esnext", moduleResolution: "bundler",
    lib: ["es2023", "dom", "dom.iterable"], types: [],
  },
  files: ["app.js", "api.d.ts"],
};

// The vendored scripts are checked as what types/vendor says of them, so they must not lie beside it.
const folder = mkdtempSync(join(tmpdir(), "photofinish-types-"));
try {
  cpSync(join(repository, "crates/serve/src/dashboard/site"), folder, { recursive: true });
  rmSync(join(folder, "vendor"), { recursive: true });
  cpSync(join(import.meta.dirname, "types/vendor"), join(folder, "vendor"), { recursive: true });
  writeFileSync(join(folder, "api.d.ts"), declarations(JSON.parse(readFileSync(options.openapi, "utf8"))));
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(settings));
  execFileSync(process.execPath, [resolve(options.kits, "node_modules/typescript/lib/tsc.js"), "-p", folder], { stdio: "inherit" });
  console.log("ok   types");
} catch {
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true });
}
