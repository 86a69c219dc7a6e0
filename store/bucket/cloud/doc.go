// Package cloud adds an S3 bucket to a store in a local directory. The bucket holds the
// bytes of large objects, their outboards, and copies of the log's segments. The directory
// keeps the index, the segments and the outboards.
//
// The index is only in the directory and can be rebuilt from the segments in the bucket.
// Every byte read from the bucket is unverified: the store verifies it. A node uses the
// bucket only after it has registered its name there ([Cloud.Open]). Several nodes may
// use one bucket when all of them are configured to share it; then no node deletes objects.
//
// A put of a large object calls [Cloud.Put], which returns when the bucket has the outboard
// and the bytes. A read calls [Cloud.OpenObject], whose file sends ranged requests and reads
// ahead. A removal adds the object to a list in the index ([Cloud.Remove]). [Cloud.Serve]
// deletes the objects on that list, copies new log to the bucket, and looks for the bucket
// while it cannot be reached. docs/running/bucket.md lists the names in the bucket.
package cloud
