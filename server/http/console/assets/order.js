// The order of names.

// compareKeys orders as the server does, by the bytes of UTF-8, which is the
// order of code points and not that of JavaScript's 16-bit units.
export function compareKeys(a, b) {
  const n = Math.min(a.length, b.length);
  let i = 0;
  while (i < n && a.charCodeAt(i) === b.charCodeAt(i)) i++;
  if (i === n) return a.length - b.length;
  const x = a.charCodeAt(i), y = b.charCodeAt(i);
  const surrogate = (c) => c >= 0xd800 && c <= 0xdfff;
  if (surrogate(x) !== surrogate(y)) return surrogate(x) ? 1 : -1;
  return x - y;
}

// place is the index at which key stands, or would stand, in a sorted list.
export function place(list, key, keyOf = (item) => item.key) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareKeys(keyOf(list[middle]), key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

// merge joins two sorted lists of items that have different keys.
export function merge(a, b) {
  const out = [];
  let i = 0;
  for (const item of b) {
    const end = place(a, item.key);
    while (i < end) out.push(a[i++]);
    out.push(item);
  }
  while (i < a.length) out.push(a[i++]);
  return out;
}
