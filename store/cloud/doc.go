// Package cloud is what a bucket adds to a store in a directory: it has the bytes
// of large objects, of which only the outboards are files here, and copies of the
// segments of the log. The index, which stays here, says what there is.
// docs/running/bucket.md lists the names in the bucket.
package cloud
