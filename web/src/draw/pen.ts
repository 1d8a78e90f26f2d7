// What pictures are drawn with. One pen draws on a canvas, another writes SVG, so that a file holds what was shown.

export interface TextStyle {
  readonly ink: string;
  readonly size: number; // pixels
  readonly align?: "left" | "center" | "right";
  readonly turn?: number; // degrees, clockwise
  readonly bold?: boolean;
}

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export type Point = readonly [number, number];
export type Raster = HTMLCanvasElement | OffscreenCanvas;

export interface Pen {
  fill(box: Box, ink: string): void;
  hatch(box: Box, ink: string): void; // with slanted lines, which go on from one box to the next
  outline(box: Box, ink: string, thick: number): void;
  line(points: readonly Point[], ink: string, thick: number): void;
  area(points: readonly Point[], ink: string): void; // closed and filled
  curve(from: Point, to: Point, ink: string, thick: number): void; // leaves and arrives sideways
  text(x: number, y: number, text: string, style: TextStyle): void; // y is the middle of the line
  image(image: Raster, part: Box, onto: Box, smooth: boolean): void;
  within(box: Box, draw: () => void): void;
}

export const FACE = 'ui-sans-serif, system-ui, "Segoe UI", "Liberation Sans", "DejaVu Sans", sans-serif';

export const HATCH = { apart: 6, thick: 1.4 }; // pixels

/** Slanted lines as a pattern, as sharp as the screen. */
function hatching(context: CanvasRenderingContext2D, density: number, ink: string): CanvasPattern | string {
  const side = Math.round(HATCH.apart * density);
  const image = new OffscreenCanvas(side, side);
  const lines = image.getContext("2d")!;
  lines.strokeStyle = ink;
  lines.lineWidth = HATCH.thick * density;
  lines.beginPath();
  for (const from of [-side, 0, side]) {
    lines.moveTo(from - side / 2, side * 1.5);
    lines.lineTo(from + side * 1.5, -side / 2);
  }
  lines.stroke();
  const pattern = context.createPattern(image, "repeat");
  pattern?.setTransform(new DOMMatrix().scale(1 / density));
  return pattern ?? ink;
}

export class CanvasPen implements Pen {
  private readonly hatches: Record<string, CanvasPattern | string> = {};

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly density: number,
  ) {
    context.setTransform(density, 0, 0, density, 0, 0);
    context.textBaseline = "middle";
  }

  /** Edges on whole pixels of the screen, so that neighbours neither overlap nor leave a seam. */
  private sharp(value: number): number {
    return Math.round(value * this.density) / this.density;
  }

  fill({ x, y, width, height }: Box, ink: string): void {
    const [left, top] = [this.sharp(x), this.sharp(y)];
    this.context.fillStyle = ink;
    this.context.fillRect(left, top, this.sharp(x + width) - left, this.sharp(y + height) - top);
  }

  hatch({ x, y, width, height }: Box, ink: string): void {
    const [left, top] = [this.sharp(x), this.sharp(y)];
    this.context.fillStyle = (this.hatches[ink] ??= hatching(this.context, this.density, ink));
    this.context.fillRect(left, top, this.sharp(x + width) - left, this.sharp(y + height) - top);
  }

  outline({ x, y, width, height }: Box, ink: string, thick: number): void {
    this.context.strokeStyle = ink;
    this.context.lineWidth = thick;
    this.context.strokeRect(x, y, width, height);
  }

  line(points: readonly Point[], ink: string, thick: number): void {
    this.trace(points);
    this.context.strokeStyle = ink;
    this.context.lineWidth = thick;
    this.context.stroke();
  }

  area(points: readonly Point[], ink: string): void {
    this.trace(points);
    this.context.closePath();
    this.context.fillStyle = ink;
    this.context.fill();
  }

  curve([x0, y0]: Point, [x1, y1]: Point, ink: string, thick: number): void {
    const middle = (x0 + x1) / 2;
    this.context.beginPath();
    this.context.moveTo(x0, y0);
    this.context.bezierCurveTo(middle, y0, middle, y1, x1, y1);
    this.context.strokeStyle = ink;
    this.context.lineWidth = thick;
    this.context.stroke();
  }

  text(x: number, y: number, text: string, { ink, size, align = "left", turn = 0, bold = false }: TextStyle): void {
    const { context } = this;
    context.font = `${bold ? "600 " : ""}${size}px ${FACE}`;
    context.fillStyle = ink;
    context.textAlign = align;
    context.direction = "ltr";
    if (!turn) {
      context.fillText(text, x, y);
      return;
    }
    context.save();
    context.translate(x, y);
    context.rotate((turn * Math.PI) / 180);
    context.fillText(text, 0, 0);
    context.restore();
  }

  image(image: Raster, part: Box, onto: Box, smooth: boolean): void {
    const [left, top] = [this.sharp(onto.x), this.sharp(onto.y)];
    const [right, bottom] = [this.sharp(onto.x + onto.width), this.sharp(onto.y + onto.height)];
    this.context.imageSmoothingEnabled = smooth;
    this.context.drawImage(image, part.x, part.y, part.width, part.height, left, top, right - left, bottom - top);
  }

  within({ x, y, width, height }: Box, draw: () => void): void {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }

  private trace(points: readonly Point[]): void {
    this.context.beginPath();
    points.forEach(([x, y], place) => (place ? this.context.lineTo(x, y) : this.context.moveTo(x, y)));
  }
}
