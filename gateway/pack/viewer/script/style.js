// The style of a map, made of what the pack has. It has no text, so it needs no fonts.

// Hues in degrees that people tell apart: greens lie farther apart than blues do.
const hues = [0, 28, 50, 80, 125, 165, 190, 212, 240, 268, 295, 330];
const mostLayers = 200;
export const deepest = 24; // the greatest zoom of the library

// vectorLayers returns the ids of the layers of a description: the first mostLayers of them, each once.
export function vectorLayers(description) {
  const listed = Array.isArray(description.vector_layers) ? description.vector_layers : [];
  return usable(listed.map((layer) => layer?.id));
}

// usable returns the ids that can be drawn: the first mostLayers texts that are not empty, each once.
export function usable(ids) {
  return [...new Set(ids.filter((id) => typeof id === "string" && id !== ""))].slice(0, mostLayers);
}

// huesOf returns a hue for each layer, which depends on the layer's id. No two of the first 24 layers share one. Those
// of the second dozen lie between those of the first.
export function huesOf(ids) {
  const taken = new Set();
  return new Map(ids.map((id) => {
    let at = 0x811c9dc5; // FNV-1a
    for (let i = 0; i < id.length; i++) at = Math.imul(at ^ id.charCodeAt(i), 0x01000193) >>> 0;
    const between = taken.size < hues.length ? 0 : 11;
    const hueAt = () => hues[at % hues.length] + between;
    for (let tries = 0; tries < hues.length && taken.has(hueAt()); tries++) at += 5;
    taken.add(hueAt());
    return [id, hueAt()];
  }));
}

// colorOf returns the color of a hue, which has a contrast of 3 or more with the ground of the map.
export function colorOf(hue, dark) {
  return dark ? `hsl(${hue}, 75%, 68%)` : `hsl(${hue}, 70%, 32%)`;
}

// groundOf returns the color of the map where it has nothing.
export function groundOf(dark) {
  return dark ? "#1c1b24" : "#ffffff";
}

const kinds = [
  { kind: "fill", filter: ["==", "$type", "Polygon"], paint: { "fill-opacity": 0.25 } },
  { kind: "line", filter: ["!=", "$type", "Point"], paint: { "line-width": 1.25 } },
  {
    kind: "circle", filter: ["==", "$type", "Point"],
    paint: { "circle-radius": ["interpolate", ["linear"], ["zoom"], 2, 2.5, 14, 5], "circle-opacity": 0.85 },
  },
];

// drawnAs returns the ids of the style's layers that draw a layer of the pack.
export function drawnAs(id) {
  return kinds.map(({ kind }) => `${kind}:${id}`);
}

// paints calls set with each color of the style: the layer of the style, the property, and the color.
export function paints(colors, dark, set) {
  set("ground", "background-color", groundOf(dark));
  for (const [id, hue] of colors) {
    for (const { kind } of kinds) set(`${kind}:${id}`, `${kind}-color`, colorOf(hue, dark));
  }
}

// styleOf returns the style. colors has the layers with their hues, and is null for tiles that are images.
export function styleOf({ url, minzoom, maxzoom, box, colors, dark, still }) {
  const source = {
    type: colors ? "vector" : "raster", tiles: [url], minzoom, maxzoom: Math.min(maxzoom, deepest),
    ...(box && box[0] < box[2] ? { bounds: box } : {}), ...(colors ? {} : { tileSize: 256 }),
  };
  const layers = [{ id: "ground", type: "background" }];
  if (colors) {
    for (const { kind, filter, paint } of kinds) {
      for (const id of colors.keys()) {
        layers.push({
          id: `${kind}:${id}`, type: kind, source: "pack", "source-layer": id, filter, paint: { ...paint },
        });
      }
    }
  } else {
    layers.push({
      id: "images", type: "raster", source: "pack", paint: { "raster-fade-duration": still ? 0 : 200 },
    });
  }
  const byId = new Map(layers.map((layer) => [layer.id, layer]));
  paints(colors ?? new Map(), dark, (id, property, color) => {
    const layer = byId.get(id);
    layer.paint = { ...layer.paint, [property]: color };
  });
  return { version: 8, transition: { duration: 0, delay: 0 }, sources: { pack: source }, layers };
}
