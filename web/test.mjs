// node test.mjs: the tests in test/, built by esbuild and run by Node's own runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";

const made = mkdtempSync(join(tmpdir(), "neso-web-"));
let status = 1;
try {
  const entryPoints = readdirSync("test").filter((f) => f.endsWith(".test.ts")).map((f) => join("test", f));
  await build({
    entryPoints, bundle: true, platform: "node", format: "esm", target: "node20",
    outdir: made, outExtension: { ".js": ".mjs" }, logLevel: "warning",
  });
  const files = readdirSync(made).map((f) => join(made, f));
  status = spawnSync(process.execPath, ["--test", "--test-reporter=dot", ...files], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(made, { recursive: true });
}
process.exit(status);
