// JSON as text: read with places, so that faults can be shown where they are, and
// printed again without touching numbers and strings. JSON.parse would round
// 64-bit numbers and tells every browser's own story about errors.

// MAX_DEPTH is the server's limit for documents.
export const MAX_DEPTH = 512;

class Fault extends Error {
  constructor(offset, why, found) {
    super(why);
    this.offset = offset;
    this.why = why; // the name of a message, see the dictionaries' "json." entries
    this.found = found;
  }
}

const DIGITS = /[0-9]*/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const BLANK = /[ \t\r\n]*/y;
const WORDS = { t: "true", f: "false", n: "null" };

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.depth = 0;
    this.duplicates = [];
  }

  fault(why, offset = this.at) {
    if (this.text === "") return new Fault(0, "empty");
    if (this.text.charCodeAt(0) === 0xfeff) return new Fault(0, "bom");
    if (offset >= this.text.length) return new Fault(this.text.length, "early");
    return new Fault(offset, why, String.fromCodePoint(this.text.codePointAt(offset)));
  }

  blanks() {
    BLANK.lastIndex = this.at;
    BLANK.test(this.text);
    this.at = BLANK.lastIndex;
  }

  value() {
    const c = this.text[this.at];
    if (c === "{") return this.object();
    if (c === "[") return this.array();
    if (c === '"') return this.string();
    if (c === "-" || (c >= "0" && c <= "9")) return this.number();
    if (c === undefined || !/[A-Za-z]/.test(c)) throw this.fault("value");
    const word = WORDS[c];
    if (!word || !this.text.startsWith(word, this.at)) throw this.fault("literal");
    this.at += word.length;
    return { kind: word, start: this.at - word.length, end: this.at };
  }

  number() {
    const start = this.at;
    if (this.text[this.at] === "-") this.at++;
    if (this.text[this.at] === "0") this.at++;
    else this.digits();
    if (this.text[this.at] === ".") {
      this.at++;
      this.digits();
    }
    if (this.text[this.at] === "e" || this.text[this.at] === "E") {
      this.at++;
      if (this.text[this.at] === "+" || this.text[this.at] === "-") this.at++;
      this.digits();
    }
    if (!Number.isFinite(Number(this.text.slice(start, this.at)))) throw this.fault("range", start);
    return { kind: "number", start, end: this.at };
  }

  digits() {
    DIGITS.lastIndex = this.at;
    DIGITS.test(this.text);
    if (DIGITS.lastIndex === this.at) throw this.fault("number");
    this.at = DIGITS.lastIndex;
  }

  string() {
    const start = this.at++;
    for (;;) {
      PLAIN.lastIndex = this.at;
      PLAIN.test(this.text);
      this.at = PLAIN.lastIndex;
      const c = this.text[this.at];
      if (c === '"') {
        this.at++;
        return { kind: "string", start, end: this.at, value: this.unquote(start) };
      }
      if (c !== "\\") throw this.fault("control");
      this.escape();
    }
  }

  escape() {
    const c = this.text[this.at + 1];
    if (c === undefined) throw this.fault("early", this.text.length);
    if (c !== "u") {
      if (!'"\\/bfnrt'.includes(c)) throw this.fault("escape", this.at + 1);
      this.at += 2;
      return;
    }
    const unit = this.unit(this.at);
    if (unit >= 0xdc00 && unit <= 0xdfff) throw this.fault("surrogate");
    if (unit >= 0xd800 && unit <= 0xdbff) {
      const low = this.text.startsWith("\\u", this.at + 6) ? this.unit(this.at + 6) : 0;
      if (low < 0xdc00 || low > 0xdfff) throw this.fault("surrogate");
      this.at += 6;
    }
    this.at += 6;
  }

  unit(at) {
    const digits = this.text.slice(at + 2, at + 6);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw this.fault("unicode", at);
    return parseInt(digits, 16);
  }

  unquote(start) {
    const raw = this.text.slice(start, this.at);
    return raw.includes("\\") ? JSON.parse(raw) : raw.slice(1, -1);
  }

  deeper() {
    if (++this.depth > MAX_DEPTH) throw this.fault("depth");
    this.at++;
    this.blanks();
  }

  object() {
    const node = { kind: "object", start: this.at, end: 0, members: [] };
    const seen = new Set();
    this.deeper();
    while (this.text[this.at] !== "}" || node.members.length) {
      if (this.text[this.at] !== '"') throw this.fault("key");
      const key = this.string();
      if (seen.has(key.value)) this.duplicates.push({ offset: key.start, end: key.end, key: key.value });
      seen.add(key.value);
      this.blanks();
      if (this.text[this.at] !== ":") throw this.fault("colon");
      this.at++;
      this.blanks();
      node.members.push({ key: key.value, start: key.start, keyEnd: key.end, value: this.value() });
      this.blanks();
      if (this.text[this.at] === "}") break;
      if (this.text[this.at] !== ",") throw this.fault("member");
      this.at++;
      this.blanks();
    }
    return this.closed(node);
  }

  array() {
    const node = { kind: "array", start: this.at, end: 0, items: [] };
    this.deeper();
    while (this.text[this.at] !== "]" || node.items.length) {
      node.items.push(this.value());
      this.blanks();
      if (this.text[this.at] === "]") break;
      if (this.text[this.at] !== ",") throw this.fault("element");
      this.at++;
      this.blanks();
    }
    return this.closed(node);
  }

  closed(node) {
    this.depth--;
    node.end = ++this.at;
    return node;
  }
}

// read takes text apart: {root, fault, duplicates}; root is null if there is a
// fault {offset, why, found}.
export function read(text) {
  const reader = new Reader(text);
  try {
    reader.blanks();
    const root = reader.value();
    reader.blanks();
    if (reader.at < text.length) throw reader.fault("trailing");
    return { root, fault: null, duplicates: reader.duplicates };
  } catch (fault) {
    if (fault instanceof Fault) return { root: null, fault, duplicates: [] };
    throw fault;
  }
}

// format indents as the server does when it writes a file.
export function format(text, root, indent = "    ") {
  const out = [];
  const print = (node, pad) => {
    const list = node.members ?? node.items;
    if (!list) return out.push(text.slice(node.start, node.end));
    const [open, close] = node.members ? "{}" : "[]";
    if (!list.length) return out.push(open, close);
    out.push(open);
    list.forEach((part, i) => {
      out.push(i ? ",\n" : "\n", pad, indent);
      if (node.members) out.push(text.slice(part.start, part.keyEnd), ": ");
      print(node.members ? part.value : part, pad + indent);
    });
    out.push("\n", pad, close);
  };
  print(root, "");
  return out.join("");
}

// member is the member of an object node by its key, the first one as on the server.
export function member(node, key) {
  return node?.members?.find((m) => m.key === key)?.value;
}

// plain turns a node into what JSON.parse would give.
export function plain(text, node) {
  return JSON.parse(text.slice(node.start, node.end));
}

// pointer appends a key to a JSON pointer.
export function pointer(base, key) {
  return `${base}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
