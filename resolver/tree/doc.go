// Package tree fetches directories: everything that a manifest names, many small
// objects in one request and large ones by a transfer each.
//
// It walks depth first, as far as what it waits for lets it, and its memory is
// bounded whatever the tree. The root is stored last, so that an unfinished tree
// is never taken for a whole one.
package tree
