// Package gc decides what a store keeps: which objects pins reach, which may be
// evicted, and whether a write still has space.
//
// A Collector runs collections and answers why an object is kept. An Account counts
// what is stored and reserved. Neither holds an object or a file.
package gc
