// What the server says in sentences, in the reader's language: what is wrong with the
// configuration, and why a file has what say in a value. The server speaks English. Each
// of its sentences is in both dictionaries, so the English one is also what finds the
// names and numbers in it; a sentence that is not known, such as the operating system's,
// stays as it is.

import en from "./en.js";
import { currentLanguage, t } from "./i18n.js";

const sentences = Object.keys(en).filter((name) => /^(problem|why)\./.test(name)).map((name) => {
  const parts = en[name].split(/\{(\w+)\}/);
  const pattern = parts.map((part, i) => (i % 2 ? `(?<${part}>.*?)` : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))).join("");
  return { name, fixed: parts.filter((_, i) => i % 2 === 0).join("").length, pattern: new RegExp(`^${pattern}$`, "s") };
}).sort((a, b) => b.fixed - a.fixed); // what says most is what is meant

// problemText is a sentence of the server.
export function problemText(text) {
  if (currentLanguage() === "en" || !text) return text ?? "";
  for (const { name, pattern } of sentences) {
    const match = pattern.exec(text);
    if (!match) continue;
    const args = {};
    for (const [arg, part] of Object.entries(match.groups ?? {})) {
      const known = problemText(part);
      args[arg] = known === part ? part : new String(known); // isolated already
    }
    return t(name, args);
  }
  return text;
}
