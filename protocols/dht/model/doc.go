// Package model checks the concurrency of discovery with a Promela model. spin explores every state of it. The package
// has only tests.
//
// pipeline.pml models requests that become lookups, the probes of a lookup, the queue of their results to the one
// writer of a bucket of the routing table, and the shutdown. It names the Go functions that its processes stand for.
// Each guard names the property that fails without it: TestModels removes the guards one by one.
//
// # Properties
//
//   - A bucket has one writer at a time.
//   - Lookups, the requests that wait for one, the probes of each and the updates of a bucket are bounded.
//   - A probe ends once for its lookup, whether it is answered, canceled or both.
//   - The table ends after the lookups that use it.
//   - Every request ends, and Run returns. Then no lookup, probe or writer runs, and none begins.
//
// # Guards, and what they are in the code
//
//	runs         admission.begin counts a lookup only while admission.running is set, under one hold of admission.mu
//	line, place  the gate admission.gate: waiting places, places
//	alpha        kad.Lookup probes at most α + β peers at a time
//	in_flight    driver.handleReply drops the reply of a probe that driver.perform has canceled
//	not_open     Table.open starts a writer only if bucket.queue is nil, under Table.mu
//	table_runs   Table.open starts none once Table.close has run
//	space        limits.Queue.Put: the capacity of the channel
//	lookups_end  Service.Run waits for running.lookups before it cancels the context of the table
//	writers_end  Table.Run waits for Table.writers
//
// # Invariants
//
// The model allows everything that the code can do. Deadlines, hedges and answers appear only as "may end now". It
// omits what kad.Lookup decides (package kad tests that), retries, dials, the provider exchange and what is persisted.
// An update that is queued when the table ends stays in the queue: the next Run applies it. The race detector checks
// the memory model.
//
// # One check
//
// See package allium/internal/testkit/promela. To see the path to a failure:
//
//	spin -DCALLERS=2 -a pipeline.pml && gcc -o pan pan.c && ./pan -a -N single
//	spin -DCALLERS=2 -t -p -g pipeline.pml
package model
