// Puts the script and the style into the page itself, and names what they were made from.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { sources } from "./sources.js";

const WEB = fileURLToPath(new URL("..", import.meta.url));

/** sha256 over the name and the content of every source file, in the order of their names. */
export function sourceHash() {
  const hash = createHash("sha256");
  for (const name of sources(WEB)) {
    hash.update(name).update("\0").update(readFileSync(join(WEB, name))).update("\0");
  }
  return hash.digest("hex");
}

export function onePage() {
  return {
    name: "one-page",
    enforce: "post",
    apply: "build",
    generateBundle(_, bundle) {
      const page = bundle["index.html"];
      const script = Object.values(bundle).find((part) => part.type === "chunk" && part.isEntry);
      const style = Object.values(bundle).find((part) => part.fileName.endsWith(".css"));
      // An inline script ends at the first closing tag, even one within a string.
      const code = script.code
        .trim()
        .replaceAll("</script", "<\\/script")
        .replaceAll("<!--", "<\\!--")
        .replaceAll("https://svelte.dev/e/", "svelte: "); // the page names no address outside itself
      page.source = page.source
        .replace(/\s*<script\b[^>]*src=[^>]*><\/script>/, "")
        .replace(/\s*<link\b[^>]*rel="stylesheet"[^>]*>/, "")
        .replace("sources of this page", () => sourceHash())
        .replace("</head>", () => `  <style>${style.source.trim()}</style>\n  </head>`)
        .replace("</body>", () => `  <script type="module">${code}</script>\n  </body>`);
      delete bundle[script.fileName];
      delete bundle[style.fileName];
    },
  };
}
