// Line ends and indents as the writer of a file has them. A text area knows line
// feeds only, so what came with others gets them back when it is saved.

// withFeeds is text as a text area holds it.
export const withFeeds = (text) => text.replace(/\r\n?/g, "\n");

// withEndings gives the lines of edited the ends they have in original: each line
// that has not changed its own, others that of the line they replace, new ones the
// most frequent.
export function withEndings(original, edited) {
  if (!original.includes("\r")) return edited;
  const ends = original.match(/\r\n|\r|\n/g);
  const before = withFeeds(original).split("\n"), after = edited.split("\n");
  const usual = ["\r\n", "\n", "\r"].map((end) => [ends.filter((e) => e === end).length, end]).sort(([a], [b]) => b - a)[0][1];
  const most = Math.min(before.length, after.length);
  let head = 0, tail = 0;
  while (head < most && before[head] === after[head]) head++;
  while (tail < most - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const shift = before.length - after.length;
  return after.map((line, i) => {
    if (i === after.length - 1) return line;
    if (i >= after.length - tail) return line + ends[i + shift];
    return line + ((i < before.length - tail && ends[i]) || usual);
  }).join("");
}

// indentOf is what a text indents by, four blanks if it does not.
export const indentOf = (text) => /\n([ \t]+)[^\s]/.exec(text)?.[1] ?? "    ";
