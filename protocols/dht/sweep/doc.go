// Package sweep publishes a node's provider records again before they expire (SPEC §5).
//
// It runs go-libp2p-kad-dht's SweepingProvider, which goes through the key space once per
// interval, region by region. One exploration finds the peers of a region, and each record of
// the region is sent to its K closest peers. The lookups of a cycle therefore depend on the
// size of the network and not on the number of objects. The library's ADD_PROVIDER messages
// are replaced with this node's signed PUT.
//
// Who keeps what:
//
//   - The library keeps the keys (its resettable keystore), the schedule and the history of
//     completed regions in Deps.Datastore, and resumes from them.
//   - Deps.Roots lists what is announced. It is read at the start, before the first region,
//     and every hour. If the listing changed, the keystore is replaced. An object that is no
//     longer listed is dropped at most an hour later, and its records then expire. Memory is
//     bounded: a listing is processed in batches and no key is looked up.
//   - [Sweep.Add] schedules a root that has just been published.
//   - This package records when each part of the key space is due (4096 cells). It updates the
//     table only from acknowledgements and keeps it across restarts. The lag comes from this
//     table: a region whose records no peer took stays due, even if the library considers it
//     done. A due cell that waits in no queue of the library is published again.
//
// A root that only a listing names, and neither Add nor an earlier run, is due at once if
// nothing else is announced in its cell. Otherwise it is due with its cell, at most an interval
// later.
//
// One cycle: [Sweep.Run] lists the roots and starts the library. The library asks for the peers
// closest to this node until there are any (after 0.1 s, doubling up to a minute). It estimates how
// many bits of prefix hold K peers, schedules the regions that have keys, and publishes those
// without a success in the last interval. From then on each region has its time in the cycle. A
// region that fails is tried again every five minutes.
package sweep
