// Names and values that programs and people made up, as they are shown: what the
// browser would not show is spelled out, and writing from right to left stays
// inside its own part of a path instead of turning the line around.

import { h } from "./dom.js";

// HIDDEN has no look of its own and changes that of others: controls, marks and
// overrides of direction. The joiners of Persian and of emoji are not among them.
export const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
export const LEFTWARD = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const JSON_STRING = /("(?:[^"\\]|\\.)*")/;

const escaped = (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;

// shown spells out what is hidden.
export const shown = (text) => text.replace(HIDDEN, escaped);

// isolated is for text that goes into a sentence, a title or a label.
export function isolated(text) {
  const plain = shown(text);
  return LEFTWARD.test(plain) ? `\u2068${plain}\u2069` : plain;
}

// name shows a name whose parts stand from left to right, whatever they are
// written in: a path reads in one direction only.
export function name(text) {
  return h("bdi", { dir: "ltr" }, parts(String(text), /([/:.,;|#@=\s]+)/));
}

// value shows a value on one line. JSON keeps its order as names do.
export function value(text, type) {
  return type === "json" ? json(text) : h("bdi", null, spelled(String(text)));
}

// json shows a piece of JSON.
export function json(text) {
  return h("bdi", { dir: "ltr" }, parts(String(text), JSON_STRING));
}

function parts(text, between) {
  if (!LEFTWARD.test(text)) return spelled(text);
  return text.split(between).map((part) => (LEFTWARD.test(part) ? h("bdi", null, spelled(part)) : spelled(part)));
}

function spelled(text) {
  const out = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    out.push(text.slice(from, match.index), h("span", { class: "spelled" }, escaped(match[0])));
    from = match.index + 1;
  }
  return from ? [...out, text.slice(from)] : text;
}
