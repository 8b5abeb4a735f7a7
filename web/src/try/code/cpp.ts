// The call in C++, over libcurl.

import { asBytes } from "../call";
import { headLength, type Prepared } from "./parts";
import { cpp as str } from "./quote";

export function cpp(p: Prepared): string {
  const { call, wire } = p;
  const file = p.fileOf.get("head");
  const toFile = !call.stream && call.outputs.some(asBytes);
  const literal = (s: string | Uint8Array): string => {
    const n = typeof s === "string" ? new TextEncoder().encode(s).length : s.length;
    return `std::string(\n      ${str(s, "      ")},\n      ${n})`;
  };
  const read = p.files.length > 0;
  const body = [file ? `content("${file}")` : literal(wire.head)];
  for (const part of wire.parts) {
    const name = p.fileOf.get(part);
    body.push(name ? `content("${name}")` : literal(part));
  }
  const headers = [`Content-Type: ${wire.parts.length ? "application/octet-stream" : "application/json"}`];
  if (wire.parts.length) headers.push(`Inference-Header-Content-Length: ${headLength(wire)}`);
  const includes = ["<curl/curl.h>", "<cstdio>", "<cstdlib>", "<string>", ...(read ? ["<fstream>", "<iterator>"] : [])];
  return [
    "// g++ -std=c++17 call.cpp -lcurl -o call && ./call",
    ...includes.map((i) => `#include ${i}`),
    "",
    ...(read
      ? [
          "static std::string content(const char* file) {",
          "  std::ifstream in(file, std::ios::binary);",
          '  if (!in) std::fprintf(stderr, "cannot read %s\\n", file), std::exit(1);',
          "  return {std::istreambuf_iterator<char>(in), {}};",
          "}",
          "",
        ]
      : []),
    "int main() {",
    `  const std::string body = ${body.join(" + ")};`,
    "  curl_slist* headers = nullptr;",
    ...headers.map((l) => `  headers = curl_slist_append(headers, "${l}");`),
    ...(call.keys
      ? [
          '  const char* key = std::getenv("NESO_KEY");',
          '  headers = curl_slist_append(headers, (std::string("Authorization: Bearer ") + (key ? key : "")).c_str());',
        ]
      : []),
    "  CURL* curl = curl_easy_init();",
    `  curl_easy_setopt(curl, CURLOPT_URL, ${str(p.address)});`,
    "  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);",
    "  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());",
    "  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));",
    ...(toFile ? ['  std::FILE* out = std::fopen("answer.bin", "wb");', "  curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);"] : []),
    "  const CURLcode code = curl_easy_perform(curl); // writes the answer to " + (toFile ? "the file" : "the standard output"),
    "  long status = 0;",
    "  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);",
    '  std::fprintf(stderr, "\\n%s, HTTP status %ld\\n", curl_easy_strerror(code), status);',
    ...(toFile ? ["  std::fclose(out);"] : []),
    "  curl_slist_free_all(headers);",
    "  curl_easy_cleanup(curl);",
    "  return code == CURLE_OK && status == 200 ? 0 : 1;",
    "}",
  ].join("\n");
}
