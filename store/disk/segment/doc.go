// Package segment provides the write-ahead log of the store, which also holds the bytes of
// small objects. It commits changes in groups, replays the log after a crash, and compacts
// segments that are mostly garbage. Package record defines the format of a segment;
// FORMAT.md defines the log.
//
// The log and the files of large objects are the truth, and the index is derived from them.
// The log knows nothing of those files but their names. It tells the bucket that holds
// their bytes of each removal (Bucket).
//
// Invariants:
//
//   - Only the goroutine in Serve appends to the log and changes the index. While it plans
//     a batch, what it reads in the index stays true.
//   - A change is acknowledged after its record is written and synced, and the index batch
//     is applied. The index itself is synced less often; the log after its watermark
//     restores the rest.
//   - A failed write of a batch may be repeated. After a failed sync the content of the
//     disk is unknown, so the log refuses every further change until it is opened again.
//   - Waiting objects and changes are bounded in bytes (Options.ObjectBudget,
//     Options.ChangeBudget). Put, AddFiles and Remove wait while a batch is full.
//
// One request: Put appends a small object to the current objectBatch (objectQueue.add),
// wakes the writer, and waits for the batch's ticket. AddFiles, Remove, SetPins and the
// other operations add a change to the current changeBatch (queue.submit). Serve takes both
// (queue.takeBatch). Log.commit begins a new segment if the batch does not fit (roll),
// works out the records and the index changes (Log.plan), writes and syncs the segment
// (write), and applies the index batch (enterIndex). queue.finishBatch then closes the
// tickets.
//
// When the store opens, Recover replays the log behind the index's watermark and tells a
// torn last batch from damage. Recount counts objects and the live bytes of each segment,
// unless RestoreTotals finds them. Compactor.Serve copies the live records out of segments
// that are less than half live, and retires their files.
package segment
