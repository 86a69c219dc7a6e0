// Package fsys is the file system as a store uses it: the names in its
// directory, files that are replaced whole and durably, and the layers above the
// machine's: space for removals on a full disk, files given up when the process
// has no descriptor left, and changes in RAM above a disk that takes none.
package fsys
