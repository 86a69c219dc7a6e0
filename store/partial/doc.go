// Package partial keeps objects that are not whole: downloads under way, what is left
// of those that were cut off, and those who read them meanwhile.
//
// A Table holds the objects in use. An Ingest writes proved items, a View reads what
// is here. A checkpoint notes the record of an object and the bitmap of its groups in
// the form that this package defines, so that a later ingest goes on from there.
package partial
