// Package blob holds large objects as files, and the files of objects that are
// not whole yet: puts, downloads and uploads, with the notes beside them. It
// stages an object, publishes it, removes it, and takes over what a crash left.
// Where a Remote has the bytes, only outboards are here. FORMAT.md says the files
// byte by byte.
package blob
