// A map as it is on the screen: tiles, those further up where one is missing, edges, margins, the chosen cell.

import { BROKEN } from "../data/broken";
import type { Margins } from "../data/source";
import type { Tiles } from "../data/tiles";
import { pixelOf, shownOn } from "./axis";
import { bars } from "./bars";
import { brokenRuns, drawBrokenLegend, hatchBroken } from "./brokencells";
import { type Names, drawColumnLabels, drawRowLabels, drawTitles } from "./edges";
import type { Frame } from "./frame";
import type { Box, Pen } from "./pen";
import { SIDE, type TilePlace, ancestors, highest, tileSize, tilesOnScreen } from "./pyramid";
import type { Theme } from "./theme";
import { type Look, type Statistic, roundTop, tileImage, tileTop } from "./tileimages";
import { type Curve, largest } from "./tone";
import type { Cell, Extent, Viewport } from "./viewport";
import { amount } from "./weight";

export interface MapPicture {
  readonly extent: Extent;
  readonly view: Viewport;
  readonly frame: Frame;
  readonly tiles: Tiles;
  readonly names: Names;
  readonly margins: Margins | null;
  readonly heads: number; // that are averaged
  readonly statistic: Statistic;
  readonly curve: Curve;
  readonly theme: Theme;
  readonly difference: boolean;
  readonly cursor: Cell | null;
  readonly hover: Cell | null;
  readonly row?: number | null; // a query that is marked from end to end
  readonly density: number;
  readonly top: number | null; // given, or found on the screen
}

export interface Drawn {
  readonly top: number;
  readonly found: number; // the top that would be taken if none were given
  readonly approximate: boolean; // some of what is shown
  readonly covered: boolean; // something everywhere
  readonly broken: boolean; // some of what is shown is no number
}

const GRID = 9; // pixels to a token from which cells are told apart by lines

/** The tiles a view needs; first of all that of the whole map, which stands in for all the others. */
export function neededTiles(tiles: Tiles, view: Viewport, extent: Extent, density: number): TilePlace[] {
  const whole = { down: highest(extent.queries), across: highest(extent.keys), row: 0, column: 0 };
  return tiles.get(whole) ? [...tilesOnScreen(view, density), whole] : [whole, ...tilesOnScreen(view, density)];
}

export function drawMap(pen: Pen, picture: MapPicture): Drawn {
  const { frame, theme, view, names } = picture;
  pen.fill({ x: 0, y: 0, width: frame.width, height: frame.height }, theme.paper);
  const places = tilesOnScreen(view, picture.density);
  const found = topOnScreen(picture, places);
  const top = picture.top ?? found;
  const look: Look = { statistic: picture.statistic, tone: { top, curve: picture.curve }, theme, difference: picture.difference };
  let [approximate, covered, broken] = [false, true, false];
  pen.within(mapBox(picture), () => {
    for (const place of places) {
      const tile = picture.tiles.get(place);
      approximate ||= tile?.approximate ?? true;
      const drawn = drawPlace(pen, picture, place, look);
      covered &&= drawn !== null;
      broken ||= drawn === "broken";
    }
    drawGrid(pen, picture);
  });
  pen.outline(mapBox(picture), theme.line, 1);
  drawCursor(pen, picture);
  drawTitles(pen, frame, names, theme);
  if (broken) drawBrokenLegend(pen, frame.width - 8, 9, theme);
  const marked = picture.hover ?? picture.cursor ?? (picture.row == null ? null : { query: picture.row, key: null });
  drawRowLabels(pen, frame, view.down, names, theme, marked?.query ?? null);
  drawColumnLabels(pen, frame, view.across, names, theme, marked?.key ?? null);
  if (picture.margins && frame.right.width) drawMargins(pen, picture, picture.margins);
  return { top, found, approximate, covered, broken };
}

/** The box the map fills: all of its frame, or less when it is small. */
export function mapBox({ frame: { map }, view }: Pick<MapPicture, "frame" | "view">): Box {
  const [x, y] = [map.x + pixelOf(view.across, 0), map.y + pixelOf(view.down, 0)];
  const right = Math.min(map.x + map.width, map.x + pixelOf(view.across, view.across.size));
  const bottom = Math.min(map.y + map.height, map.y + pixelOf(view.down, view.down.size));
  const [left, above] = [Math.max(map.x, x), Math.max(map.y, y)];
  return { x: left, y: above, width: right - left, height: bottom - above };
}

function topOnScreen({ tiles, statistic, extent }: MapPicture, places: readonly TilePlace[]): number {
  let most = 0;
  for (const place of places) {
    const tile = tiles.get(place) ?? ancestors(place, extent).map((above) => tiles.get(above)).find(Boolean);
    if (tile) most = Math.max(most, tileTop(tile, statistic));
  }
  return roundTop(most);
}

/** What was drawn: null where nothing was there yet. */
function drawPlace(pen: Pen, picture: MapPicture, place: TilePlace, look: Look): "numbers" | "broken" | null {
  const { tiles, view, frame, extent, density } = picture;
  const source = [place, ...ancestors(place, extent)].find((each) => tiles.get(each));
  if (!source) {
    pen.fill(frame.map, picture.theme.hiddenInk);
    return null;
  }
  const tile = tiles.get(source)!;
  const image = tileImage(tile, look);
  const size = tileSize(place, extent);
  const [tall, wide] = [2 ** place.down, 2 ** place.across];
  const [top, left] = [place.row * SIDE * tall, place.column * SIDE * wide];
  const [bottom, right] = [Math.min(extent.queries, top + size.rows * tall), Math.min(extent.keys, left + size.columns * wide)];
  const [steps, strides] = [2 ** source.down, 2 ** source.across];
  const [above, before] = [source.row * SIDE * steps, source.column * SIDE * strides];
  const part = {
    x: (left - before) / strides,
    y: (top - above) / steps,
    width: (right - left) / strides,
    height: (bottom - top) / steps,
  };
  const x = frame.map.x + pixelOf(view.across, left);
  const y = frame.map.y + pixelOf(view.down, top);
  const onto = { x, y, width: (right - left) * view.across.scale, height: (bottom - top) * view.down.scale };
  const cell = Math.min(view.across.scale * strides, view.down.scale * steps) * density;
  const cells = { values: tile[look.statistic], rows: tile.rows, columns: tile.columns };
  const smooth = !brokenRuns(cells).length && (source !== place || cell < 3); // no numbers are not mixed with others
  pen.image(image, part, onto, smooth);
  return hatchBroken(pen, cells, part, onto, picture.theme) ? "broken" : "numbers";
}

function drawGrid(pen: Pen, { view, frame, theme }: MapPicture): void {
  const { map } = frame;
  if (view.across.scale >= GRID) {
    for (let key = shownOn(view.across)[0] + 1; key < shownOn(view.across)[1]; key++) {
      pen.fill({ x: map.x + pixelOf(view.across, key) - 0.5, y: map.y, width: 1, height: map.height }, theme.paper);
    }
  }
  if (view.down.scale >= GRID) {
    for (let query = shownOn(view.down)[0] + 1; query < shownOn(view.down)[1]; query++) {
      pen.fill({ x: map.x, y: map.y + pixelOf(view.down, query) - 0.5, width: map.width, height: 1 }, theme.paper);
    }
  }
}

function drawCursor(pen: Pen, picture: MapPicture): void {
  const { view, frame, theme } = picture;
  const box = mapBox(picture);
  pen.within({ x: box.x - 2, y: box.y - 2, width: box.width + 4, height: box.height + 4 }, () => {
    if (picture.row != null) {
      const y = frame.map.y + pixelOf(view.down, picture.row);
      pen.outline({ x: box.x, y, width: box.width, height: Math.max(3, view.down.scale) }, theme.mark, 2);
    }
    for (const [cell, thick] of [[picture.hover, 1], [picture.cursor, 2]] as const) {
      if (!cell) continue;
      const x = frame.map.x + pixelOf(view.across, cell.key);
      const y = frame.map.y + pixelOf(view.down, cell.query);
      const [width, height] = [Math.max(3, view.across.scale), Math.max(3, view.down.scale)];
      if (thick === 2 && Math.min(width, height) < 8) {
        pen.line([[box.x, y + height / 2], [box.x + box.width, y + height / 2]], theme.mark, 0.6);
        pen.line([[x + width / 2, box.y], [x + width / 2, box.y + box.height]], theme.mark, 0.6);
      }
      pen.outline({ x, y, width, height }, theme.mark, thick);
    }
  });
}

function drawMargins(pen: Pen, picture: MapPicture, margins: Margins): void {
  const { view, frame, theme, density } = picture;
  const box = mapBox(picture);
  const style = { ink: theme.faint, size: 10.5 };
  const rows = bars(margins.entropy, view.down, density, "mean");
  const most = largest(rows.map((bar) => bar.value)) || 1;
  const right = { ...frame.right, x: box.x + box.width + 8 };
  pen.within({ ...right, y: box.y, height: box.height }, () => {
    for (const bar of rows) {
      const gap = bar.past - bar.from >= GRID ? 1 : 0;
      const width = bar.value === BROKEN ? right.width : (bar.value / most) * right.width;
      drawBar(pen, { x: right.x, y: frame.map.y + bar.from + gap / 2, width, height: bar.past - bar.from - gap }, bar.value, theme);
    }
  });
  // A row of averaged heads looks more widely than its heads do: theirs is what is known.
  const told = picture.heads > 1 ? ["entropy:", "heads’ mean"] : ["entropy"];
  [...told, `≤ ${amount(most)} nats`].forEach((line, place) => {
    pen.text(right.x, box.y + box.height + 11 + 13 * place, line, style);
  });
  const columns = bars(margins.received, view.across, density, "most");
  const mass = largest(columns.map((bar) => bar.value)) || 1;
  const bottom = { ...frame.bottom, y: box.y + box.height + 8 };
  pen.within({ ...bottom, width: box.width }, () => {
    for (const bar of columns) {
      const gap = bar.past - bar.from >= GRID ? 1 : 0;
      const height = bar.value === BROKEN ? bottom.height : (bar.value / mass) * bottom.height;
      drawBar(pen, { x: frame.map.x + bar.from + gap / 2, y: bottom.y, width: bar.past - bar.from - gap, height }, bar.value, theme);
    }
  });
  pen.text(box.x - 7, bottom.y + 6, "received", { ...style, align: "right" });
  pen.text(box.x - 7, bottom.y + 19, `≤ ${amount(mass)}`, { ...style, align: "right" });
}

function drawBar(pen: Pen, box: Box, value: number, theme: Theme): void {
  pen.fill(box, value === BROKEN ? theme.brokenInk : theme.bar);
  if (value === BROKEN) pen.hatch(box, theme.hatch);
}

/** The cells on the screen, for a table or a file: level, first query and key, number. */
export function* shownCells(picture: MapPicture): Generator<{ query: number; key: number; value: number; tall: number; wide: number }> {
  const { tiles, view, statistic } = picture;
  const [rows, columns] = [shownOn(view.down), shownOn(view.across)];
  for (const place of tilesOnScreen(view, picture.density)) {
    const tile = tiles.get(place);
    if (!tile) continue;
    const [tall, wide] = [2 ** place.down, 2 ** place.across];
    for (let index = 0; index < tile.mass.length; index++) {
      const query = (place.row * SIDE + Math.floor(index / tile.columns)) * tall;
      const key = (place.column * SIDE + (index % tile.columns)) * wide;
      if (query + tall <= rows[0] || query >= rows[1] || key + wide <= columns[0] || key >= columns[1]) continue;
      yield { query, key, value: tile[statistic][index], tall, wide };
    }
  }
}

/** The number drawn at a cell of single tokens, if the tile that holds it is there. */
export function valueAt(tiles: Tiles, { query, key }: Cell, statistic: Statistic): number | null {
  const tile = tiles.get({ down: 0, across: 0, row: Math.floor(query / SIDE), column: Math.floor(key / SIDE) });
  return tile ? tile[statistic][(query % SIDE) * tile.columns + (key % SIDE)] : null;
}
