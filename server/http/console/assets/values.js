// Values by their type: short for a list, and an editor for each.

import { button, h, put, tablist } from "./dom.js";
import { createEditor, faultText } from "./editor.js";
import { bytes as size, t } from "./i18n.js";
import { format, read } from "./json.js";

export const TYPES = ["string", "int", "double", "bool", "bytes", "json"];

const SHOWN_BYTES = 64 * 1024; // longer octets are not shown for editing
const narrow = matchMedia("(max-width: 760px)");
const MIN = -(2n ** 63n), MAX = 2n ** 63n - 1n;

// shorten is a value on one line of a list.
export function shorten(type, value) {
  if (type === "bytes") {
    const head = octets(String(value).slice(0, 64)) ?? new Uint8Array();
    const n = octetCount(value);
    return `${[...head.slice(0, 24)].map(hex).join(" ")}${n > 24 ? " …" : ""}`;
  }
  return String(value).slice(0, 300).replace(/\s+/g, " ");
}

const hex = (byte) => byte.toString(16).padStart(2, "0");

function octetCount(base64) {
  const text = String(base64);
  return (text.length / 4) * 3 - (text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0);
}

// octets decodes base64; null if it is none.
function octets(base64) {
  try {
    return Uint8Array.from(atob(base64.replace(/\s+/g, "")), (c) => c.charCodeAt(0));
  } catch {
    return null;
  }
}

function base64(list) {
  let text = "";
  for (let i = 0; i < list.length; i += 8192) text += String.fromCharCode(...list.subarray(i, i + 8192));
  return btoa(text);
}

// valueText is a value to be read, in full.
export function valueText(type, value) {
  if (type !== "json") return type === "bytes" ? hexLines(octets(value) ?? new Uint8Array()) : String(value);
  const { root } = read(value);
  return root ? format(value, root) : value;
}

function hexLines(list) {
  const lines = [];
  const each = narrow.matches ? 8 : 16;
  for (let i = 0; i < list.length; i += each) lines.push([...list.subarray(i, i + each)].map(hex).join(" "));
  return lines.join("\n");
}

// createValue makes an editor: {el, value, fault, focus, close}. value is what
// goes to the server; fault says what is wrong with it, "" if nothing is.
export function createValue(type, initial, { onInput, onSave }) {
  const make = { string: textValue, json: jsonValue, int: intValue, double: doubleValue, bool: boolValue, bytes: bytesValue }[type];
  return make(initial, onInput, onSave);
}

// startOf is what a value of another type begins with when the type is changed.
export function startOf(type, value) {
  const text = typeof value === "string" ? value.trim() : "";
  const fits = { string: true, int: intFault(text) === "", double: doubleFault(text) === "", bool: /^(true|false)$/.test(text), json: text !== "" && !read(text).fault };
  if (fits[type]) return text;
  return { string: "", int: "0", double: "0", bool: "false", json: "{}", bytes: "" }[type];
}

function textValue(initial, onInput, onSave) {
  const editor = createEditor({ label: t("store.value"), mode: "text", id: "value", onInput, onSave });
  editor.value = initial;
  // A text area keeps only line feeds: what has carriage returns is changed by an edit, and only by one.
  const shown = editor.area.value;
  return { el: editor.el, fault: "", get value() {
    return editor.area.value === shown ? initial : editor.area.value;
  }, focus: () => editor.area.focus(), close: editor.close };
}

function jsonValue(initial, onInput, onSave) {
  const editor = createEditor({ label: t("store.value"), id: "value", onInput, onSave });
  editor.value = valueText("json", initial);
  const shown = editor.area.value;
  return { el: editor.el, get fault() {
    const fault = editor.fault;
    return fault ? faultText(fault) : "";
  }, get value() {
    return editor.area.value === shown ? initial : editor.area.value;
  }, focus: () => editor.area.focus(), close: editor.close, format: editor.format };
}

function intFault(text) {
  if (!/^-?(0|[1-9][0-9]*)$/.test(text)) return t("value.notInt");
  const n = BigInt(text);
  return n < MIN || n > MAX ? t("value.intRange") : "";
}

function doubleFault(text) {
  return /^[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|nan)$/.test(text) ? "" : t("value.notDouble");
}

function line(initial, onInput, onSave, faultOf, mode) {
  const note = h("p", { class: "fault", role: "alert" });
  const check = () => {
    const fault = faultOf(input.value.trim());
    input.setAttribute("aria-invalid", Boolean(fault));
    put(note, fault);
  };
  const input = h("input", { type: "text", class: "mono value-line", id: "value", inputmode: mode, autocomplete: "off", "aria-label": t("store.value"), prop: { value: initial }, on: {
    input: () => {
      check();
      onInput();
    },
    keydown: (event) => {
      if (event.key === "Enter" || ((event.ctrlKey || event.metaKey) && event.key === "s")) {
        event.preventDefault();
        onSave?.();
      }
    },
  } });
  check();
  return { el: h("div", { class: "value-box" }, input, note), get fault() {
    return faultOf(input.value.trim());
  }, get value() {
    return input.value.trim();
  }, focus: () => input.focus(), close() {} };
}

const intValue = (initial, onInput, onSave) => line(initial, onInput, onSave, intFault, "numeric");
const doubleValue = (initial, onInput, onSave) => line(initial, onInput, onSave, doubleFault, "decimal");

function boolValue(initial, onInput) {
  const choice = (value) => h("label", { class: "choice" }, h("input", { type: "radio", name: "value-bool", value, id: `value-${value}`, prop: { checked: String(initial) === value }, on: { change: onInput } }), value);
  const both = [choice("true"), choice("false")];
  return { el: h("div", { class: "choices mono", role: "radiogroup", "aria-label": t("store.value") }, both), fault: "", get value() {
    return String(both[0].firstChild.checked);
  }, focus: () => both[0].firstChild.focus(), close() {} };
}

function bytesValue(initial, onInput, onSave) {
  let held = initial; // base64
  let fault = "";
  let mode = "hex";
  let editor = null;
  const tabs = tablist(t("value.form"));
  const place = h("div", { class: "value-place", id: "value-panel", role: "tabpanel", "aria-label": t("store.value") });
  const note = h("p", { class: "meta" });
  const problem = h("p", { class: "fault", role: "alert" });
  const picker = h("input", { type: "file", id: "value-file", class: "hidden", tabindex: "-1", "aria-hidden": "true", on: { change: async () => {
    const file = picker.files[0];
    if (!file) return;
    take(base64(new Uint8Array(await file.arrayBuffer())));
    draw();
  } } });

  const readers = {
    hex: (text) => {
      const digits = text.replace(/[\s:,]+/g, "");
      if (!/^([0-9a-fA-F]{2})*$/.test(digits)) return [null, t("value.notHex")];
      return [base64(Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16))), ""];
    },
    base64: (text) => {
      const list = octets(text);
      return list ? [base64(list), ""] : [null, t("value.notBase64")];
    },
    text: (text) => [base64(new TextEncoder().encode(text)), ""],
  };
  const asText = () => {
    try {
      const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(octets(held) ?? new Uint8Array());
      return /[\u0000-\u0008\u000b-\u001f]/.test(text) ? null : text;
    } catch {
      return null;
    }
  };

  function take(value) {
    held = value;
    fault = "";
    onInput();
  }

  function typed() {
    const [value, wrong] = readers[mode](editor.area.value);
    fault = wrong;
    if (!wrong) held = value;
    describe();
    onInput();
  }

  function describe() {
    put(problem, fault);
    put(note, size(octetCount(held)));
    const long = octetCount(held) > SHOWN_BYTES;
    const text = long ? null : asText();
    tabs.draw(["hex", "base64", "text"].map((name) => ({
      id: `bytes-${name}`, text: t(`value.${name}`), chosen: mode === name, panel: "value-panel",
      disabled: long || (name === "text" && text === null), title: name === "text" && text === null ? t("value.noText") : null,
      go: () => {
        mode = name;
        fault = "";
        draw();
      },
    })));
  }

  function draw() {
    const long = octetCount(held) > SHOWN_BYTES;
    const text = long ? null : asText();
    if (mode === "text" && text === null) mode = "hex";
    editor?.close();
    editor = null;
    if (long) put(place, h("p", { class: "note" }, t("value.tooLong", { size: size(octetCount(held)) })));
    else {
      editor = createEditor({ label: t("store.value"), mode: "text", id: "value", onInput: typed, onSave });
      editor.value = mode === "hex" ? hexLines(octets(held) ?? new Uint8Array()) : mode === "base64" ? held : text;
      put(place, editor.el);
    }
    describe();
  }

  function download() {
    const url = URL.createObjectURL(new Blob([octets(held)], { type: "application/octet-stream" }));
    h("a", { href: url, download: "value.bin" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  draw();
  return {
    el: h("div", { class: "value-box grows" }, h("div", { class: "value-tools" }, tabs.el, note, picker,
      button(t("value.upload"), () => picker.click()), button(t("value.download"), download)), place, problem),
    get fault() {
      return fault;
    },
    get value() {
      return held;
    },
    focus: () => editor?.area.focus(),
    close: () => editor?.close(),
  };
}

// ---- time to live

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

// duration reads "90s" or "1h 30m" as ms; a bare number are seconds; null if it
// is neither.
export function duration(text) {
  const wanted = text.trim().toLowerCase();
  if (/^\d+$/.test(wanted)) return Number(wanted) * 1000;
  if (!/^(\d+(\.\d+)?\s*(ms|s|m|h|d|w)\s*)+$/.test(wanted)) return null;
  let sum = 0;
  for (const [, n, unit] of wanted.matchAll(/(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)/g)) sum += Number(n) * UNITS[unit];
  return Math.round(sum);
}

// createTTL lets one choose when a key ends: never, after a while, or as it does
// now. expires is the present end in ms, if there is one.
export function createTTL(expires, onInput) {
  const select = h("select", { id: "ttl-mode", "aria-label": t("store.expires"), on: { change: changed } },
    expires ? h("option", { value: "keep" }, t("ttl.keep")) : null, h("option", { value: "never" }, t("ttl.never")), h("option", { value: "after" }, t("ttl.after")));
  const input = h("input", { type: "text", class: "mono", id: "ttl", placeholder: "90s, 10m, 1h 30m, 7d", "aria-label": t("ttl.after"), autocomplete: "off", on: { input: changed } });
  const note = h("span", { class: "fault", role: "alert" });
  const api = {
    el: h("div", { class: "ttl" }, select, input, note),
    get changed() {
      return select.value !== (expires ? "keep" : "never");
    },
    get fault() {
      return select.value === "after" && !(duration(input.value) > 0) ? t("ttl.bad") : "";
    },
    // fields are what the server is told. A write that says nothing lets the key end never.
    get fields() {
      if (select.value === "keep") return { expires };
      return select.value === "after" ? { ttl: duration(input.value) } : {};
    },
  };
  function changed(event) {
    input.hidden = select.value !== "after";
    if (event?.target === select && !input.hidden) input.focus();
    put(note, event?.target === input ? api.fault : "");
    onInput();
  }
  input.hidden = true;
  return api;
}
