// Package zones keeps what a home directory has of names: the keys of own zones, petnames, and
// the zone maps of others (SPEC §6).
//
// The files below the home directory are
//
//	zones/<zone key>.key   the private key of a zone, mode 0600
//	petnames               short names that the user chose, a text that may be edited
//	zone-maps.seen         the highest number of each map that a node has read
//
// Invariants:
//
//   - A key is never printed, logged or in an error. A file that other users can read, or that
//     is not exactly the key of the zone in its name, is refused.
//   - A key file is never replaced. A change of the petnames is atomic, and one runs at a time.
//   - No two short names of a home directory look alike, unless they are equal. Equal ones have
//     an order: petnames first, then the maps as they are configured.
//   - A map that cannot be read, or has expired, hides the maps behind it: a short name never
//     changes its zone because a file is damaged.
//   - A map never takes the place of one of the same signer, in the same file, with a higher number, also
//     after a restart.
//   - With amnesia nothing is written.
//
// # One short name
//
// `allium zone import --petname alice k51…` calls [Zones.SetPetname], which reads the petnames
// and the maps, refuses a name that looks like another, and replaces the file. Later somebody
// asks for blog.alice: [Zones.ShortNames] reads the files, and [ShortNames.Expand] returns the
// name with the key of the zone, and [Found] with where the short name was.
package zones
