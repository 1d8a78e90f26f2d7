// The worker of an exported page: unpacks what the page holds, and computes what it is asked.

import { inflated } from "./inflate";
import { unpacked } from "./pack";
import { atlasOf, columnOf, marginsOf, rowOf, tileOf } from "./pooling";
import { StoredLayer } from "./stored";
import type { Answered, Asked } from "./local";

const layers = new Map<string, Promise<StoredLayer>>();

async function answer({ question }: Asked): Promise<unknown> {
  if (question.kind === "load") {
    const bytes = inflated(question.base64);
    layers.set(question.name, bytes.then((found) => new StoredLayer(unpacked(found))));
    await layers.get(question.name);
    return null;
  }
  const layer = await layers.get(question.layer)!;
  switch (question.kind) {
    case "tile":
      return tileOf(layer, question.heads, question.place, question.exact);
    case "margins":
      return marginsOf(layer, question.heads);
    case "row":
      return rowOf(layer, question.query);
    case "column":
      return columnOf(layer, question.heads, question.key);
    case "atlas":
      return atlasOf(layer, question.size);
  }
}

self.onmessage = async ({ data }: MessageEvent<Asked>) => {
  const said: Answered = { id: data.id };
  try {
    said.answer = await answer(data);
  } catch (failure) {
    said.error = failure instanceof Error ? failure.message : String(failure);
  }
  self.postMessage(said);
};
