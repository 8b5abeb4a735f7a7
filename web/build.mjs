// node build.mjs DIR: what the server embeds, built into DIR.
import { cpSync, mkdirSync } from "node:fs";
import { build } from "esbuild";

const out = process.argv[2];
if (!out) {
  console.error("usage: node build.mjs DIR");
  process.exit(2);
}
mkdirSync(out, { recursive: true });
await build({
  entryPoints: ["src/main.ts", "style.css"],
  entryNames: "[name]",
  bundle: true,
  format: "esm",
  target: ["es2022", "chrome109", "firefox115", "safari16.4"],
  minify: true,
  charset: "utf8",
  legalComments: "none",
  outdir: out,
  logLevel: "warning",
});
cpSync("index.html", `${out}/index.html`);
