// Draws a pack as a map on its page. It takes the description and the tiles from the node that sent the page, and
// shows what the pack's author wrote as text only.

import maplibregl from "maplibre-gl/dist/maplibre-gl-csp.js";
import { describe } from "./found.js";
import { layersInTiles } from "./layers.js";
import { boundsOf, centerOf, degrees, tileAt, zoomsOf } from "./place.js";
import { colorOf, deepest, drawnAs, huesOf, paints, styleOf, vectorLayers } from "./style.js";
import { count, element, shown } from "./text.js";

const $ = (id) => document.getElementById(id);
const viewer = $("viewer");
const darkness = matchMedia("(prefers-color-scheme: dark)");
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;

// say tells what goes on, and empties the line where nothing does. state is for those who wait: loading, drawn, failed.
function say(text, state) {
  $("status").textContent = text;
  $("status").hidden = text === "";
  if (state) viewer.dataset.state = state;
}

async function load() {
  let answer;
  try {
    answer = await fetch(viewer.dataset.description);
  } catch {
    throw new Error("the node cannot be reached. Load the page again");
  }
  if (!answer.ok) throw new Error(`the description of the pack was answered with ${answer.status}. Load the page again`);
  return answer.json();
}

// tilesOf returns the URL of the tiles at the node that sent the page, whatever that takes its own name to be.
function tilesOf(description) {
  const path = /^https?:\/\/[^/]*(\/.*)$/.exec(description.tiles?.[0] ?? "")?.[1];
  if (!path) throw new Error("the description of the pack names no tiles");
  return location.origin + path;
}

// toggles adds a check box for each layer of the pack.
function toggles(map, colors) {
  const list = $("layers");
  for (const [id, hue] of colors) {
    const label = element("label");
    const box = element("input");
    const swatch = element("span", undefined, "swatch");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => {
      for (const drawn of drawnAs(id)) map.setLayoutProperty(drawn, "visibility", box.checked ? "visible" : "none");
    });
    const paint = () => { swatch.style.backgroundColor = colorOf(hue, darkness.matches); };
    darkness.addEventListener("change", paint);
    paint();
    label.append(box, swatch, element("span", shown(id)));
    list.append(label);
  }
  list.hidden = colors.size === 0;
}

// begin moves the map to where it begins: the bounds of the pack, its center, or the whole world.
function begin(map, description, lowest) {
  const box = boundsOf(description);
  const wanted = centerOf(description);
  if (box) {
    const east = box[2] < box[0] ? box[2] + 360 : box[2]; // over the date line
    const whole = map.cameraForBounds([[box[0], box[1]], [east, box[3]]], { padding: 16 });
    if (whole && (whole.zoom >= lowest || !wanted)) {
      map.jumpTo({ center: whole.center, zoom: Math.max(whole.zoom, lowest) });
      return;
    }
  }
  if (wanted) map.jumpTo({ center: wanted.center, zoom: Math.max(wanted.zoom, lowest) });
  else map.jumpTo({ center: [0, 0], zoom: lowest });
}

async function draw() {
  const description = await load();
  const url = tilesOf(description);
  const vector = viewer.dataset.vector === "true";
  let colors = null;
  if (vector) {
    let ids = vectorLayers(description);
    if (!ids.length) ids = await layersInTiles(description, url);
    colors = huesOf(ids);
  }
  const [minzoom, maxzoom] = zoomsOf(description);
  if (minzoom > deepest) throw new Error(`its tiles begin at zoom ${minzoom}, and maps are drawn down to ${deepest}`);
  const smaller = vector ? 0 : 1; // an image has half the width that the library takes for a tile's
  const lowest = minzoom - smaller;
  viewer.hidden = false;
  maplibregl.setWorkerUrl(viewer.dataset.worker);
  const map = new maplibregl.Map({
    container: "map",
    style: styleOf({
      url, minzoom, maxzoom, box: boundsOf(description), colors, dark: darkness.matches, still,
    }),
    minZoom: lowest, maxZoom: Math.min(maxzoom + 3, deepest),
    attributionControl: false, maplibreLogo: false, dragRotate: false, pitchWithRotate: false, touchPitch: false,
    fadeDuration: 0, locale: { "Map.Title": `Map of ${viewer.dataset.name}` },
  });
  map.touchZoomRotate.disableRotation();
  map.keyboard.disableRotation();
  map.addControl(new maplibregl.ScaleControl(), "bottom-left");
  const canvas = map.getCanvas();
  canvas.setAttribute("aria-describedby", "keys");

  const zoomNow = () => map.getZoom() + smaller; // of the pack's tiles
  const tileOf = (place) => {
    const zoom = zoomNow();
    const z = Math.min(Math.max(vector ? Math.floor(zoom) : Math.round(zoom), minzoom), maxzoom);
    return `tile ${tileAt(place.lng, place.lat, z)}, ${degrees(place.lng)}, ${degrees(place.lat)}`;
  };
  const locate = () => {
    $("position").textContent = `Zoom ${zoomNow().toFixed(1)}; in the middle ${tileOf(map.getCenter())}`;
  };
  const look = (point) => {
    const near = [[point.x - 4, point.y - 4], [point.x + 4, point.y + 4]];
    const features = vector ? map.queryRenderedFeatures(near) : [];
    const place = map.unproject(point);
    const where = tileOf(place.wrap());
    describe($("found"), where[0].toUpperCase() + where.slice(1), features, colors, darkness.matches);
  };
  let failed = 0;
  map.on("error", ({ error }) => {
    failed++;
    const why = error?.status ? `the answer was ${error.status}` : "it cannot be reached, or not be read";
    say(`${count(failed, "part")} of the map could not be loaded: ${why}. Load the page again to try again.`);
  });
  map.on("move", locate);
  map.on("click", (e) => look(e.point));
  map.on("webglcontextlost", () => say("The browser has stopped drawing. Load the page again."));
  canvas.addEventListener("keydown", (e) => {
    if (e.key === "Enter") look(map.project(map.getCenter()));
  });
  // The library does not look again after the last tile of a view was 404, and so is never idle.
  const nudge = setInterval(() => map.triggerRepaint(), 500);
  map.on("idle", () => {
    clearInterval(nudge);
    viewer.dataset.state = "drawn";
    if (failed) return;
    say(vector && !colors.size ? "The pack names no layers, and none was found in the middle of it." : "");
  });
  map.once("style.load", () => { // before that a map refuses changes
    const paint = () => {
      paints(colors ?? new Map(), darkness.matches, (id, property, color) => map.setPaintProperty(id, property, color));
    };
    darkness.addEventListener("change", paint);
    paint();
    if (vector) toggles(map, colors);
  });
  $("closer").addEventListener("click", () => map.zoomIn());
  $("farther").addEventListener("click", () => map.zoomOut());
  $("whole").addEventListener("click", () => begin(map, description, lowest));
  begin(map, description, lowest);
  locate();
}

say("Loading the map …", "loading");
draw().catch((error) => {
  viewer.hidden = true;
  const gl = /webgl/i.test(error.message);
  say(gl ? "This browser cannot draw the map: it has no WebGL. The facts below are all there is."
    : `The map cannot be drawn: ${shown(error.message)}.`, "failed");
});
