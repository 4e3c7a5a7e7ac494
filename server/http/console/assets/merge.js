// Differences of two texts and what becomes of three, by line. Everything here is a function of
// its arguments.

// diffLines is what only a has, what only b has and what both have, in order: {kind, text},
// kind left, right or same.
export function diffLines(a, b) {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
  const same = (lines) => lines.map((text) => ({ kind: "same", text }));
  return [...same(a.slice(0, head)), ...middle(x, y), ...same(a.slice(a.length - tail))];
}

// middle is the longest common subsequence; texts too long for its table are shown
// one after the other.
function middle(x, y) {
  const only = (kind, lines) => lines.map((text) => ({ kind, text }));
  if (x.length * y.length > 4_000_000) return [...only("left", x), ...only("right", y)];
  const width = y.length + 1;
  const best = new Uint32Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i--) {
    for (let k = y.length - 1; k >= 0; k--) {
      best[i * width + k] = x[i] === y[k] ? best[(i + 1) * width + k + 1] + 1 : Math.max(best[(i + 1) * width + k], best[i * width + k + 1]);
    }
  }
  const out = [];
  let i = 0, k = 0;
  while (i < x.length && k < y.length) {
    if (x[i] === y[k]) {
      out.push({ kind: "same", text: x[i++] });
      k++;
    } else if (best[(i + 1) * width + k] >= best[i * width + k + 1]) out.push({ kind: "left", text: x[i++] });
    else out.push({ kind: "right", text: y[k++] });
  }
  return [...out, ...only("left", x.slice(i)), ...only("right", y.slice(k))];
}

// near are the rows of a difference with three lines around each part; what is left out
// between is a row of the kind gap.
export function near(rows) {
  const keep = new Uint8Array(rows.length);
  rows.forEach((row, i) => {
    if (row.kind !== "same") keep.fill(1, Math.max(0, i - 3), i + 4);
  });
  const out = [];
  rows.forEach((row, i) => {
    if (keep[i]) out.push(row);
    else if (out.at(-1)?.kind !== "gap") out.push({ kind: "gap", text: "⋯" });
  });
  return keep.includes(1) ? out : [];
}

// places tells for each line of base where it is in other, -1 for nowhere.
function places(base, other) {
  const at = new Int32Array(base.length).fill(-1);
  let i = 0, k = 0;
  for (const { kind } of diffLines(base, other)) {
    if (kind === "same") at[i++] = k++;
    else if (kind === "left") i++;
    else k++;
  }
  return at;
}

const equal = (a, b) => a.length === b.length && a.every((line, i) => line === b[i]);

// merge3 merges two texts that began as the same. It returns the parts of the result in order:
// {lines} where it is clear, with by theirs, mine or both if that is not of base; and
// {base, theirs, mine}, a conflict, where both have changed the same lines otherwise.
export function merge3(base, theirs, mine) {
  const [b, t, m] = [base, theirs, mine].map((text) => text.split("\n"));
  const inTheirs = places(b, t), inMine = places(b, m);
  const parts = [];
  const add = (lines, by) => {
    if (!lines.length) return;
    const last = parts.at(-1);
    if (last?.lines && last.by === by) last.lines.push(...lines);
    else parts.push({ lines: [...lines], by });
  };
  let i = 0, k = 0, l = 0; // how far it has come in each
  while (i < b.length || k < t.length || l < m.length) {
    let next = i;
    while (next < b.length && (inTheirs[next] < 0 || inMine[next] < 0)) next++;
    const [toT, toM] = next < b.length ? [inTheirs[next], inMine[next]] : [t.length, m.length];
    settle(b.slice(i, next), t.slice(k, toT), m.slice(l, toM));
    if (next < b.length) add([b[next]]);
    [i, k, l] = [next + 1, toT + 1, toM + 1];
  }
  return parts;

  function settle(was, left, right) {
    if (equal(left, right)) return add(left, equal(left, was) ? undefined : "both");
    if (equal(right, was)) return left.length ? add(left, "theirs") : parts.push({ lines: [], by: "theirs" });
    if (equal(left, was)) return right.length ? add(right, "mine") : parts.push({ lines: [], by: "mine" });
    // What both begin or end with is no part of the conflict.
    const most = Math.min(left.length, right.length);
    let head = 0, tail = 0;
    while (head < most && left[head] === right[head]) head++;
    while (tail < most - head && left.at(-1 - tail) === right.at(-1 - tail)) tail++;
    add(left.slice(0, head), "both");
    parts.push({ base: was, theirs: left.slice(head, left.length - tail), mine: right.slice(head, right.length - tail) });
    add(left.slice(left.length - tail), "both");
  }
}

// conflicts are those of the parts that are one.
export const conflicts = (parts) => parts.filter((part) => !part.lines);

// joined is the text of the parts; choices says of each conflict whether it is theirs, mine or
// both, which is what it is if nothing is said: nothing is lost.
export function joined(parts, choices = []) {
  let n = 0;
  return parts.flatMap((part) => {
    if (part.lines) return part.lines;
    const choice = choices[n++] ?? "both";
    return [...(choice === "mine" ? [] : part.theirs), ...(choice === "theirs" ? [] : part.mine)];
  }).join("\n");
}
