// What became of a text: which of its tokens stayed, by the longest common subsequence.

/** For each token of the new text, whether it is one of the old text that stayed in its order. */
export function kept(old: readonly string[], now: readonly string[]): boolean[] {
  const width = now.length + 1;
  const longest = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      const at = i * width + j;
      longest[at] = old[i] === now[j] ? longest[at + width + 1] + 1 : Math.max(longest[at + width], longest[at + 1]);
    }
  }
  const found: boolean[] = now.map(() => false);
  for (let i = 0, j = 0; i < old.length && j < now.length; ) {
    if (old[i] === now[j]) {
      found[j] = true;
      i++;
      j++;
    } else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i++;
    else j++;
  }
  return found;
}
