// Where a map begins, and what tile a place lies in.

const edge = 85.0511; // the latitude where Web Mercator ends

// boundsOf returns west, south, east and north of a description, or null where it has no area.
export function boundsOf({ bounds }) {
  if (!Array.isArray(bounds) || bounds.length !== 4 || !bounds.every(Number.isFinite)) return null;
  const clamp = (v, most) => Math.min(Math.max(v, -most), most);
  const [west, south, east, north] = [
    clamp(bounds[0], 180), clamp(bounds[1], edge), clamp(bounds[2], 180), clamp(bounds[3], edge),
  ];
  return west === east || south >= north ? null : [west, south, east, north];
}

// centerOf returns the longitude, latitude and zoom that a description wants shown, or null.
export function centerOf({ center }) {
  if (!Array.isArray(center) || center.length < 2 || !center.every(Number.isFinite)) return null;
  const [lng, lat, zoom = 0] = center;
  return Math.abs(lng) > 180 || Math.abs(lat) > edge ? null : { center: [lng, lat], zoom };
}

// zoomsOf returns the least and the greatest zoom of a description, each from 0 to 31.
export function zoomsOf({ minzoom, maxzoom }) {
  const whole = (v, otherwise) => Number.isInteger(v) && v >= 0 && v <= 31 ? v : otherwise;
  const least = whole(minzoom, 0);
  return [least, Math.max(least, whole(maxzoom, 22))];
}

// tileAt returns the tile of a zoom that a place lies in, as z/x/y.
export function tileAt(lng, lat, z) {
  const n = 2 ** z;
  const within = (v) => Math.min(Math.max(Math.floor(v * n), 0), n - 1);
  const turned = ((lng + 180) / 360) % 1;
  const rad = Math.min(Math.max(lat, -edge), edge) * Math.PI / 180;
  const y = (1 - Math.asinh(Math.tan(rad)) / Math.PI) / 2;
  return `${z}/${within(turned < 0 ? turned + 1 : turned)}/${within(y)}`;
}

// middleOf returns a place that a description says is in the pack.
export function middleOf(description) {
  const wanted = centerOf(description);
  if (wanted) return wanted.center;
  const box = boundsOf(description);
  if (!box) return [0, 0];
  const east = box[2] < box[0] ? box[2] + 360 : box[2];
  return [(box[0] + east) / 2, (box[1] + box[3]) / 2];
}

// degrees returns an angle to about a meter, and 0 without a sign.
export function degrees(angle) {
  return (Math.round(angle * 1e5) / 1e5 || 0).toFixed(5);
}
