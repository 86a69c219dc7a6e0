// Package lookup finds what names stand for (SPEC §6, Names).
//
// Invariants:
//
//   - A record is verified before it comes here. The record of a name with the highest sequence number counts. [Names]
//     never goes back behind the highest that this node has seen, whatever a later lookup returns or gossip brings:
//     [namestore.Seen], which is the cache, refuses it.
//   - Two values that a zone signed with one sequence number are no answer, but the error
//     equivocation, which shows both.
//   - A record is remembered for its TTL ± 10 %, and never past its not_after as a fresh one.
//     That no record was found is remembered for Config.NegativeTTL.
//   - One lookup of a name runs at a time, for any number of callers. A caller that leaves does
//     not end it. Lookups that run, and those that wait, are bounded; more are busy.
//   - A chain of names has at most [name.MaxSteps] steps and no loop.
//
// One request: [Names.Resolve] looks into the cache. If the record is fresh, that is the
// answer. If its TTL has passed, and the caller takes a record that is as stale, it is the
// answer too, and a lookup goes on behind it. Otherwise the caller joins the lookup of the
// name or starts one, as one of the caller's [providers.Tasks], and waits for it within
// Config.Deadline. A value that is another name is resolved in the same way. [Names.Observe]
// takes up a record that came by another way, such as one that this node has published.
//
// The package owns no goroutine.
package lookup
