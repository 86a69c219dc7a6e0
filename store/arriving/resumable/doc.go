// Package resumable receives objects in pieces, over any number of requests and restarts of
// the store.
//
// Invariants:
//
//   - No byte that was acknowledged is lost, except by the disk. A crash costs an append in
//     progress at most about noteBytes or noteAge.
//   - Space and quota for the whole object are reserved when the upload begins. They are
//     released once, when it ends.
//   - One append to an upload runs at a time (Table.lock). At most Deps.MaxOpen uploads are
//     incomplete, and those that one capability began leave places for others (places).
//
// One upload: Table.New reserves space and quota and records the upload in the backend.
// Table.Append writes behind the bytes that are stored, hashes them, and saves the offset
// and the state of the hash (appending.receivePart, save). The append with the last byte
// publishes the object (commit), pins it and records the upload as done (Table.complete).
// Table.Serve removes uploads to which nothing came for Deps.TTL, or whose capability ended.
package resumable
