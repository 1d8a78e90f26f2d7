// The files a build is made from.

import { readdirSync } from "node:fs";
import { join } from "node:path";

const FOLDERS = ["making", "src"];
const FILES = ["index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.js"];

/** Their names, relative to the folder of the page, with forward slashes, sorted by character codes. */
export function sources(web) {
  const found = [...FILES];
  for (const folder of FOLDERS) {
    for (const entry of readdirSync(join(web, folder), { recursive: true, withFileTypes: true })) {
      if (entry.isFile()) {
        found.push(join(entry.parentPath, entry.name).slice(join(web, "/").length).replaceAll("\\", "/"));
      }
    }
  }
  return found.sort((one, other) => (one < other ? -1 : one > other ? 1 : 0));
}
