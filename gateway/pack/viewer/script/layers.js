// Finds the layers of a pack whose description lists none, in a few of its vector tiles.

import { centerOf, middleOf, tileAt, zoomsOf } from "./place.js";
import { usable } from "./style.js";

// layersInTiles returns the ids of the layers in the tiles in the middle of the pack, at three zooms at most.
export async function layersInTiles(description, url) {
  const [least, most] = zoomsOf(description);
  const wanted = Math.round(centerOf(description)?.zoom ?? least);
  const zooms = new Set([least, Math.min(Math.max(wanted, least), most), most]);
  const [lng, lat] = middleOf(description);
  const found = await Promise.all([...zooms].map(async (z) => {
    const [, x, y] = tileAt(lng, lat, z).split("/");
    try {
      const answer = await fetch(url.replace("{z}", z).replace("{x}", x).replace("{y}", y));
      return answer.status === 200 ? namesIn(new Uint8Array(await answer.arrayBuffer())) : [];
    } catch {
      return []; // the map tells what it cannot load
    }
  }));
  return usable(found.flat());
}

// namesIn returns the names of the layers of a Mapbox Vector Tile. It throws where the tile is none.
export function namesIn(bytes) {
  const names = [];
  fields(bytes, 0, bytes.length, (field, from, to) => {
    if (field !== 3) return; // Tile.layers
    fields(bytes, from, to, (field, from, to) => {
      if (field === 1) names.push(new TextDecoder().decode(bytes.subarray(from, to))); // Layer.name
    });
  });
  return names;
}

// fields calls each with the fields of a protobuf message that have a length: number, beginning and end.
function fields(bytes, at, end, each) {
  const varint = () => {
    let v = 0;
    for (let scale = 1; at < end && scale < 2 ** 64; scale *= 128) {
      const b = bytes[at++];
      v += (b & 127) * scale;
      if (b < 128) return v;
    }
    throw new RangeError("a number in the tile does not end");
  };
  while (at < end) {
    const key = varint();
    switch (key % 8) {
      case 0: varint(); break;
      case 1: at += 8; break;
      case 5: at += 4; break;
      case 2: {
        const length = varint();
        const from = at;
        at += length;
        if (at > end) throw new RangeError("the tile ends within a field");
        each(Math.floor(key / 8), from, at);
        break;
      }
      default: throw new RangeError("the tile is no protobuf");
    }
  }
}
