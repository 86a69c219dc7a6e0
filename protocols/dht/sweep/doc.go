// Package sweep publishes a node's provider records again before they expire
// (SPEC §5). It runs go-libp2p-kad-dht's SweepingProvider, which goes through
// the key space once per interval, region by region: one exploration finds the
// peers of a region, and every record that belongs there is given to its K
// closest, so that a cycle costs lookups by the size of the network and not by
// the number of objects. The library's ADD_PROVIDER messages become our signed
// PUT on their way out.
//
// What belongs to whom:
//
//   - the library keeps the keys (its resettable keystore), the schedule and
//     the history of regions done, all in Deps.Datastore, and resumes from it;
//   - Deps.Roots says what is announced. It is listed at the start, before the
//     first region, and every hour; the keystore is replaced when the listing
//     changed. What is no longer listed drops out then, at most an hour later,
//     and its records expire by themselves. Memory is bounded: a listing goes
//     through in batches and no key is looked up;
//   - [Sweep.Add] schedules a root that the announcer has just published;
//   - this package keeps its own book of when each part of the key space is
//     due (4096 cells), written from acknowledgements alone and kept over
//     restarts. The lag is read from it, not from the library's belief: a
//     region that the library takes for done and whose records nobody took
//     stays due. What is due and waits in no queue of the library is published
//     again by itself.
//
// What only a listing brings, and neither Add nor an earlier run, is due at
// once when nothing else is announced in its cell, else with its region, at
// most an interval later.
//
// One cycle, walked through: Run lists the roots and starts the library, which
// asks for the peers closest to this node until there are any (0.1 s, doubling,
// at most a minute). It estimates how many bits of prefix hold K peers, puts
// the regions that have keys into the schedule, and publishes those that have
// no success in the history of the last interval. From then on each region has
// its place in the cycle; one that fails is tried again every five minutes.
package sweep
