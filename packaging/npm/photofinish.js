#!/usr/bin/env node
// Starts the program of this platform, which npm installs as an optional dependency, and ends as it ends.
"use strict";

const { spawn } = require("node:child_process");
const { isatty } = require("node:tty");
const { optionalDependencies, version } = require("./package.json");

function fail(text) {
  console.error(`photofinish: ${text}`);
  process.exit(1);
}

const wanted = `photofinish-gateway-${process.platform}-${process.arch}`;
if (!(wanted in optionalDependencies)) {
  const there = Object.keys(optionalDependencies).map((name) => name.replace("photofinish-gateway-", "")).join(", ");
  fail(`there is no program for ${process.platform}-${process.arch}, only for ${there}. Build it from its source: cargo install`);
}
let program;
try {
  program = require.resolve(`${wanted}/bin/photofinish`);
} catch {
  fail(
    `the package ${wanted} is missing. npm leaves it out with --omit=optional or --no-optional, and where package-lock.json was ` +
      `written on another system. Install it: npm install ${wanted}@${version}; or remove node_modules and package-lock.json, and ` +
      `run npm install again.`,
  );
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => fail(`cannot start ${program}: ${error.message}`));
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
// Ctrl-C reaches the program too: it is in the same group of the terminal, and a second signal would end it at once.
process.on("SIGINT", () => [0, 1, 2].some((fd) => isatty(fd)) || child.kill("SIGINT"));
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
