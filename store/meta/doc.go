// Package meta holds what every part of a store names: an object, a pin, a
// time, totals, damage, and the outcome of a read or a write that failed. It is
// the leaf: it imports no other part of the store.
package meta
