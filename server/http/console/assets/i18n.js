// Words in two languages, and numbers and times as each writes them.

import en from "./en.js";
import { isolated } from "./names.js";
import zh from "./zh.js";

const dictionaries = { en, zh };
const KEY = "confcenter.language";

let language = pick();
let plurals, numbers, dates, times;
setUp();

function pick() {
  const kept = remembered(KEY);
  if (kept in dictionaries) return kept;
  for (const wanted of navigator.languages ?? []) {
    const short = wanted.slice(0, 2).toLowerCase();
    if (short in dictionaries) return short;
  }
  return "en";
}

function setUp() {
  const tag = language === "zh" ? "zh-CN" : "en";
  document.documentElement.lang = tag;
  plurals = new Intl.PluralRules(tag);
  numbers = new Intl.NumberFormat(tag, { maximumFractionDigits: 1 });
  dates = new Intl.DateTimeFormat(tag, { dateStyle: "medium", timeStyle: "medium", hour12: false });
  times = new Intl.DateTimeFormat(tag, { timeStyle: "medium", hour12: false });
}

// remembered and remember keep a choice in this browser, if it lets us.
export function remembered(key) {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

export function remember(key, value) {
  try {
    if (value) localStorage.setItem(key, value);
    else localStorage.removeItem(key);
  } catch {
    // Then for this visit only.
  }
}

export const currentLanguage = () => language;

export function switchLanguage(to) {
  language = to;
  remember(KEY, to);
  setUp();
}

// t is the text of that name. A text that depends on a number is a pair: for one,
// and for more; the number is args.n. Whatever a text is about stays as it is inside
// it, also if it is written the other way. An unknown name shows itself.
export function t(name, args = {}) {
  let text = dictionaries[language][name] ?? dictionaries.en[name] ?? name;
  if (Array.isArray(text)) text = plurals.select(args.n) === "one" ? text[0] : text[1];
  return text.replace(/\{(\w+)\}/g, (all, arg) => {
    const value = args[arg];
    return typeof value === "number" ? numbers.format(value) : value === undefined || value === null ? all : typeof value === "string" ? isolated(value) : String(value);
  });
}

// has tells whether there is a text of that name.
export const has = (name) => name in dictionaries.en;

export const number = (n) => numbers.format(n);

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${numbers.format(n)} ${units[unit]}`;
}

export const dateTime = (ms) => dates.format(ms);
export const time = (ms) => times.format(ms);

// span is a duration in its greatest units.
export function span(ms, units = 2) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const parts = [
    [Math.floor(seconds / 86400), "span.d"],
    [Math.floor((seconds % 86400) / 3600), "span.h"],
    [Math.floor((seconds % 3600) / 60), "span.m"],
    [seconds % 60, "span.s"],
  ];
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) return t("span.s", { n: 0 });
  return parts.slice(first, first + units).filter(([n]) => n > 0).map(([n, unit]) => t(unit, { n })).join(" ");
}

// ago is a moment as people say it, in its greatest unit.
export function ago(ms, now = Date.now()) {
  return now - ms < 1500 ? t("span.now") : t("span.ago", { span: span(now - ms, 1) });
}

// latency is a short duration given in seconds.
export function latency(seconds) {
  if (seconds < 0.001) return `${numbers.format(seconds * 1e6)} µs`;
  if (seconds < 1) return `${numbers.format(seconds * 1e3)} ms`;
  return `${numbers.format(seconds)} s`;
}
