// Package meta provides the types that the packages of a store share: entries of
// objects, pins, timestamps, totals, findings of damage, and the outcomes of failed
// reads and writes. It imports no other package of the store.
//
// [Entry] describes a visible object, [Pair] its two files if it is large,
// [Staging] a large object that is being written, [Totals] the counters of a
// backend. [Backend] is the interface of one. [Clock] gives timestamps that garbage
// collection can rely on.
// [ReadError] and [WriteError] give an error of the disk its outcome.
package meta
