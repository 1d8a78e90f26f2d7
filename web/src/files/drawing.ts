// A drawing, as PNG and as SVG.

import { type Box, CanvasPen, type Pen, type Raster } from "../draw/pen";
import { SvgPen } from "../draw/svgpen";

export interface Drawing {
  readonly width: number;
  readonly height: number;
  readonly title: string;
  draw(pen: Pen): void;
}

const DENSITY = 2;

export async function png({ width, height, draw }: Drawing): Promise<Blob> {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.ceil(width * DENSITY), Math.ceil(height * DENSITY)];
  draw(new CanvasPen(canvas.getContext("2d")!, DENSITY));
  return new Promise((done, failed) => {
    canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("the picture is too large for this browser"))));
  });
}

export function svg({ width, height, title, draw }: Drawing): string {
  const pen = new SvgPen(document, dataUrl, Math.ceil(width), Math.ceil(height), title);
  draw(pen);
  return pen.written();
}

function dataUrl(image: Raster, part: Box): string {
  const canvas = document.createElement("canvas");
  const [left, top] = [Math.floor(part.x), Math.floor(part.y)];
  canvas.width = Math.max(1, Math.ceil(part.x + part.width) - left);
  canvas.height = Math.max(1, Math.ceil(part.y + part.height) - top);
  canvas.getContext("2d")!.drawImage(image, -left, -top);
  return canvas.toDataURL("image/png");
}
