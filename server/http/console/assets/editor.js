// A text area with line numbers, colours and faults marked as one types. What is
// seen is a layer beneath the text area, of which only the visible lines exist;
// what is typed into is the browser's own text area, with its undo, its input
// methods and its accessibility.

import { debounce, h, nextFrame, put } from "./dom.js";
import { indentOf } from "./endings.js";
import { t } from "./i18n.js";
import { format, read } from "./json.js";
import { HIDDEN, LEFTWARD, shown } from "./names.js";

const LINE = 20; // px, as --line in the style sheet
const PAD = 8;
const LONG = 4000; // longer lines are not coloured
const TOKEN = /("(?:[^"\\]|\\.)*"?)(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)\b|([{}[\],:])|([^\s"{}[\],:]+)/g;

// faultText says what is wrong, in the reader's language.
export function faultText(fault) {
  return t(`json.${fault.why}`, { found: fault.found === "\n" ? "\\n" : fault.found });
}

export function createEditor({ label, mode = "json", readOnly = false, onInput = () => {}, onSave, id }) {
  const lines = h("div", { class: "ed-numbers", "aria-hidden": "true" });
  const layer = h("div", { class: "ed-layer", "aria-hidden": "true" });
  const status = h("div", { class: "ed-status", role: "status", id: `${id}-status` });
  const area = h("textarea", {
    class: "ed-text", id, spellcheck: "false", autocomplete: "off", autocapitalize: "off", wrap: "off", readonly: readOnly,
    "aria-label": label, "aria-describedby": `${id}-status`,
  });
  const el = h("div", { class: `editor ${readOnly ? "readonly" : ""}` },
    h("div", { class: "ed-body" }, h("div", { class: "ed-gutter" }, lines), h("div", { class: "ed-main" }, layer, area)), status);

  let text = ""; // of the area, whose own value costs a copy each time
  let starts = [0]; // of lines
  let parsed = { root: null, fault: null, duplicates: [] };
  let marks = []; // {line, from, to, kind}
  let tabLeaves = false;
  let leftward = false; // something in the text is written from right to left

  function measure() {
    text = area.value;
    starts = [0];
    for (let i = text.indexOf("\n"); i >= 0; i = text.indexOf("\n", i + 1)) starts.push(i + 1);
  }

  function place(offset) {
    let low = 0, high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle] <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low, column: offset - starts[low] };
  }

  function check(quiet) {
    if (mode !== "json") return;
    parsed = read(text);
    const { fault, duplicates } = parsed;
    marks = [];
    if (fault) {
      const at = place(fault.offset);
      marks.push({ line: at.line, from: at.column, to: at.column + Math.max(1, fault.found?.length ?? 1), kind: "bad" });
    }
    for (const twice of duplicates) {
      const at = place(twice.offset);
      marks.push({ line: at.line, from: at.column, to: at.column + twice.end - twice.offset, kind: "odd" });
    }
    leftward = LEFTWARD.test(text);
    const hidden = text.search(HIDDEN);
    if (hidden >= 0) {
      const at = place(hidden);
      marks.push({ line: at.line, from: at.column, to: at.column + 1, kind: "odd" });
    }
    area.setAttribute("aria-invalid", Boolean(fault));
    tell(fault ? { offset: fault.offset, text: faultText(fault), kind: "bad" }
      : duplicates.length ? { offset: duplicates[0].offset, text: t("json.duplicate", { key: duplicates[0].key }), kind: "odd" }
        : hidden >= 0 ? { offset: hidden, text: t("json.hidden", { mark: shown(text[hidden]) }), kind: "odd" } : null);
    draw();
    if (quiet !== true) onInput(api);
  }

  function tell(fault) {
    if (!fault) {
      put(status, h("span", { class: "ok" }, readOnly ? t("editor.readonly") : t("editor.valid")), readOnly || !onSave ? null : h("span", { class: "hint" }, t("editor.keys")));
      return;
    }
    const at = place(fault.offset);
    put(status, h("button", { type: "button", class: `ed-fault ${fault.kind}`, on: { click: () => api.goto(fault.offset) } },
      h("b", null, t("editor.place", { line: String(at.line + 1), column: String(at.column + 1) })), " ", fault.text));
  }

  function lineText(line) {
    return text.slice(starts[line], line + 1 < starts.length ? starts[line + 1] - 1 : text.length);
  }

  // typing is the line that is being typed into, -1 for none.
  const typing = () => (document.activeElement === area && !readOnly ? place(area.selectionStart).line : -1);

  function draw() {
    // Each key and value keeps its direction to itself, but for the line where the
    // cursor is: the text area beneath, which has the cursor, does not know of that.
    const apart = leftward ? typing() : null;
    const first = Math.max(0, Math.floor((area.scrollTop - PAD) / LINE) - 2);
    const last = Math.min(starts.length, Math.ceil((area.scrollTop + area.clientHeight) / LINE) + 2);
    const numbers = [], rows = [];
    for (let line = first; line < last; line++) {
      const here = marks.filter((mark) => mark.line === line);
      const number = h("div", { class: here.length ? `ed-number ${here[0].kind}` : "ed-number" }, String(line + 1));
      const row = h("div", { class: "ed-line" }, coloured(lineText(line), here, mode, apart !== null && line !== apart));
      number.style.top = row.style.top = `${line * LINE + PAD}px`;
      numbers.push(number);
      rows.push(row);
    }
    lines.replaceChildren(...numbers); // also while a button is down, which may be what scrolls
    layer.replaceChildren(...rows);
    layer.style.transform = `translate(${-area.scrollLeft}px, ${-area.scrollTop}px)`;
    lines.style.transform = `translateY(${-area.scrollTop}px)`;
    el.style.setProperty("--digits", String(starts.length).length);
  }

  const redraw = nextFrame(draw);
  const soon = debounce(150, check);

  function changed() {
    measure();
    if (text.length > 200_000) {
      draw();
      soon();
    } else check();
    if (mode !== "json") {
      draw();
      onInput(api);
    }
  }

  area.addEventListener("input", changed);
  const moved = () => leftward && redraw();
  for (const event of ["focus", "blur", "keyup", "pointerup"]) area.addEventListener(event, moved);
  area.addEventListener("scroll", () => {
    draw();
    redraw();
  }, { passive: true });
  area.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
      event.preventDefault();
      onSave?.();
      return;
    }
    if (event.key === "Escape") {
      tabLeaves = true; // so that Tab is no trap for the keyboard
      return;
    }
    if (event.key === "Tab" && !tabLeaves && !readOnly && !event.ctrlKey && !event.altKey) {
      event.preventDefault();
      indent(event.shiftKey);
    } else if (event.key === "Enter" && !readOnly && !event.isComposing) {
      event.preventDefault();
      newline();
    } else tabLeaves = tabLeaves && event.key === "Shift";
  });

  // type changes the text so that the browser can undo it.
  function type(typed) {
    if (!document.execCommand("insertText", false, typed)) area.setRangeText(typed, area.selectionStart, area.selectionEnd, "end");
  }

  function newline() {
    const before = area.value.slice(area.value.lastIndexOf("\n", area.selectionStart - 1) + 1, area.selectionStart);
    const pad = /^[ \t]*/.exec(before)[0];
    const opens = mode === "json" && /[{[]\s*$/.test(before);
    const closes = opens && /^\s*[}\]]/.test(area.value.slice(area.selectionEnd, area.selectionEnd + 1));
    type(`\n${pad}${opens ? indentOf(text) : ""}${closes ? `\n${pad}` : ""}`);
    if (closes) area.selectionStart = area.selectionEnd = area.selectionEnd - pad.length - 1;
    if (area.selectionStart === area.value.length) area.scrollTop = area.scrollHeight;
  }

  function indent(back) {
    const from = area.value.lastIndexOf("\n", area.selectionStart - 1) + 1;
    const whole = area.selectionStart !== area.selectionEnd;
    const unit = indentOf(text);
    if (!whole && !back) return type(unit);
    const end = area.selectionEnd;
    const before = area.value.slice(from, end);
    const after = before.replace(/^/gm, back ? "" : unit).replace(back ? /^ {1,4}|^\t/gm : /(?!)/g, "");
    if (before === after) return;
    area.setSelectionRange(from, end);
    type(after);
    if (whole) area.setSelectionRange(from, from + after.length);
  }

  const watcher = new ResizeObserver(redraw);
  watcher.observe(area);

  const api = {
    el,
    area,
    get value() {
      return text;
    },
    set value(content) {
      if (content === text) return; // or the cursor would move
      area.value = content;
      area.scrollTop = area.scrollLeft = 0;
      measure();
      if (mode === "json") check(true);
      else draw();
    },
    // seenFault is the one that is marked, which in a long text may be a moment old.
    get seenFault() {
      return parsed.fault;
    },
    get fault() {
      if (mode !== "json") return null;
      return read(text).fault;
    },
    // format indents the text; a text with a fault stays as it is.
    format() {
      const { root, fault } = read(text);
      if (fault) return api.goto(fault.offset);
      const end = text.endsWith("\n") ? "\n" : "";
      const tidy = format(text, root, indentOf(text)) + end;
      if (tidy === text) return;
      area.focus();
      area.select();
      type(tidy);
      area.setSelectionRange(0, 0);
      area.scrollTop = 0;
    },
    goto(offset) {
      area.focus();
      area.setSelectionRange(offset, offset);
      area.scrollTop = Math.max(0, place(offset).line * LINE - area.clientHeight / 2);
    },
    // find marks the next place where a piece of text stands, whatever its case.
    find(piece) {
      const offset = text.toLowerCase().indexOf(piece.toLowerCase());
      if (offset < 0) return;
      api.goto(offset);
      area.setSelectionRange(offset, offset + piece.length);
    },
    redraw,
    close() {
      soon.cancel();
      watcher.disconnect();
    },
  };
  measure();
  if (mode === "json") check(true);
  return api;
}

// coloured are the pieces of a line. Strings of JSON do not span lines, so that
// each line can be coloured without the others. apart: no piece turns others around.
function coloured(text, marks, mode, apart) {
  const pieces = []; // {from, to, kind}
  if (mode === "json" && text.length <= LONG) {
    for (const match of text.matchAll(TOKEN)) {
      const kind = match[1] ? (match[2] ? "key" : "string") : match[3] ? "number" : match[4] ? "word" : match[5] ? "mark" : "";
      pieces.push({ from: match.index, to: match.index + (match[1] ?? match[0]).length, kind });
    }
  }
  const cuts = new Set([0, text.length]);
  for (const { from, to } of [...pieces, ...marks]) {
    cuts.add(Math.min(from, text.length));
    cuts.add(Math.min(to, text.length));
  }
  const at = [...cuts].sort((a, b) => a - b);
  const out = [];
  let piece = 0;
  for (let i = 0; i + 1 < at.length; i++) {
    const [from, to] = [at[i], at[i + 1]];
    while (piece < pieces.length && pieces[piece].to <= from) piece++;
    const kind = piece < pieces.length && pieces[piece].from <= from ? pieces[piece].kind : "";
    const mark = marks.find((m) => m.from <= from && to <= m.to);
    const names = [kind && `tk-${kind}`, mark && `mk-${mark.kind}`].filter(Boolean).join(" ");
    out.push(names ? h(apart ? "bdi" : "span", { class: names }, text.slice(from, to)) : text.slice(from, to));
  }
  const end = marks.find((m) => m.from >= text.length);
  if (end) out.push(h("span", { class: `mk-${end.kind}` }, " "));
  return out;
}
