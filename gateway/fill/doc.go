// Package fill serves the assets of configured sources, and fills them from their origins: live fill (SPEC §9).
//
// A source is a directory of the store or the network, or an origin behind base URLs. The answer of an origin is stored
// as an object, and a record says which object a path became and how long that is fresh. A stored object is served as
// any other: with its strong ETag, ranges and its verified encoding.
//
// Invariants:
//
//   - A client names a source and a path. Nothing else of its request decides whom the node asks; package origin says
//     what an origin can make it do.
//   - One fill runs for a path at a time. It belongs to nobody who asked: it ends with its own deadlines, or when the
//     node drains. At most Config.Fills run, and 512 wait. A hit never waits behind a fill.
//   - The bytes of a fill are in the file of the store's put, once. Those who wait read them from there at their own
//     speed. The memory of a fill does not depend on its size.
//   - The bytes of an origin are not proved while they arrive, because nobody knows their address yet. The last one is
//     held back until the object is stored. So an answer that looks whole is whole. If a fill fails half-way, or its
//     object is denied or does not fit, the answers of all waiting clients are cut.
//   - The bytes of a source with a manifest have a known address. Nobody gets one of them before all are proved,
//     because an origin has no tree of hashes with which a part could be. A mirror that sent others is not asked for
//     that path again before a pause, and for other paths after the other mirrors.
//   - A fill is cache: not pinned, evicted as any other object, and announced only if the source says so.
//   - Offline, no client of an origin exists, and nothing is looked up in the DNS.
//
// One request, walked through: GET /edge/assets/maps/style.json. The handler finds the source and checks the path. The
// table of records has no record, so the request joins the fill of the path, or begins one. A worker takes the fill
// from the queue and asks the origin, which answers 200 with a strong ETag. The fill is written to the audit log. The
// put of the store writes group after group, and tells the fill of each; every waiting request sends it to its client.
// The put ends, the record is written, and the last bytes go out. The next request finds the record and is served from
// the store. When the record is no longer fresh, a fill asks the origin with If-None-Match. If the origin fails, or
// says nothing within Params.Stale, the stored copy is served for Config.MaxStale, with Age and Warning, unless the
// origin has forbidden that. The fill goes on, one for all clients.
package fill
