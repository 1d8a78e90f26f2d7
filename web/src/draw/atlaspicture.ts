// The atlas as a drawing: a row of small maps for each layer, or all of them in the order of a measure.

import type { Layer } from "../data/manifest";
import type { AtlasData } from "../data/source";
import type { Drawing } from "../files/drawing";
import type { Head } from "../state/heads";
import { plain } from "./plain";
import type { Theme } from "./theme";
import { brokenRuns, drawBrokenLegend } from "./brokencells";
import { cellsOf, drawThumbnail, thumbnailSize } from "./thumbnail";
import type { Curve } from "./tone";
import { amount } from "./weight";

interface Given {
  readonly title: string;
  readonly rows: readonly { title: string; heads: readonly Head[] }[];
  readonly found: ReadonlyMap<number, AtlasData>;
  readonly layers: readonly Layer[];
  readonly side: number;
  readonly theme: Theme;
  readonly curve: Curve;
}

const [GAP, EDGE, CAPTION, HEAD] = [12, 16, 16, 22];
const ACROSS = 12; // maps in a line, at most

export function drawAtlas({ title, rows, found, layers, side, theme, curve }: Given): Drawing {
  const across = Math.min(ACROSS, Math.max(...rows.map((row) => row.heads.length)));
  const lines = rows.map((row) => Math.ceil(row.heads.length / across));
  const line = side + CAPTION + GAP;
  const width = Math.max(320, 2 * EDGE + across * (side + GAP) - GAP);
  const height = 2 * EDGE + HEAD + lines.reduce((sum, count) => sum + HEAD + count * line, 0);
  return {
    width,
    height,
    title,
    draw(pen) {
      pen.fill({ x: 0, y: 0, width, height }, theme.paper);
      pen.text(EDGE, EDGE + 6, plain(title, 60), { ink: theme.ink, size: 15, bold: true });
      let [y, broken] = [EDGE + HEAD, false];
      rows.forEach((row, index) => {
        pen.text(EDGE, y + 9, plain(row.title, 60), { ink: theme.ink, size: 12 });
        row.heads.forEach((head, place) => {
          const left = EDGE + (place % across) * (side + GAP);
          const top = y + HEAD + Math.floor(place / across) * line;
          const atlas = found.get(head.layer);
          if (atlas) {
            const [wide, tall] = thumbnailSize(atlas, side);
            drawThumbnail(pen, atlas, head.head, { x: left, y: top, width: wide, height: tall }, theme, curve, false);
            broken ||= brokenRuns(cellsOf(atlas, head.head)).length > 0;
          }
          const value = Number.isNaN(head.value) ? "" : ` ${amount(head.value)}`;
          const name = value ? `${plain(layers[head.layer].name, 14)}.${head.head}${value}` : String(head.head);
          pen.text(left, top + side + 9, name, { ink: theme.faint, size: 9.5 });
        });
        y += HEAD + lines[index] * line;
      });
      if (broken) drawBrokenLegend(pen, width - EDGE, EDGE + 6, theme);
    },
  };
}
