// Package index is the one database of a store: a typed table for each kind of
// key, and the batch that changes several of them together. Of objects and pins
// it is a cache of the log, never the truth: it may lag, and is made anew from the
// log when it is damaged. FORMAT.md lists its keys. Nobody else sees a key, a
// value or a batch of Pebble.
package index
