// Package persist keeps a copy of records that are held in RAM in a datastore, for the next start. The records of the
// DHT are such: requests are answered from RAM, and the publishers send again the records that a crash loses.
//
// Invariants:
//
//   - Only a [Persister] writes to its datastore. It writes changes every second, in one
//     synced batch: a crash loses at most the changes of one second and never half a batch.
//   - A [Table] verifies a record that is read back like one from a stranger.
//   - Changes that wait are bounded. If a deletion was dropped, the datastore has a record
//     that RAM lacks; a scan deletes it within the hour.
//   - A record that was refused while the clock may have been wrong stays on disk, and is
//     read again when the clock is right.
//
// One record: a table stores it and adds its key to its [Changes]. Within a second the
// persister takes the changes, asks the table for the value of each key, and writes them; a
// key without a value is deleted. After a start the persister reads the datastore in the
// background and passes each entry to [Table.Restore]. After the datastore was replaced by
// an empty one, it reads what that has and then writes all records again.
package persist
