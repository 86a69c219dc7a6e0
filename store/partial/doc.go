// Package partial says what is here of an object that is not whole: its record
// and the bitmap of its groups, as a checkpoint notes them.
package partial
