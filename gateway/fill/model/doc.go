// Package model checks the concurrency of live fill with a Promela model. spin explores every state of it. The
// package has only tests.
//
// fills.pml models callers that share the fill of a path, the queue, the workers, and the end of the service and its
// next beginning. It names the Go functions that its processes stand for. Each guard names the property that fails
// without it: TestModels removes the guards one by one.
//
// # Properties
//
//   - No fill that the queue took is lost. One fill of a path runs at a time, and none for a flight that has ended.
//   - A flight ends once. Every caller gets an answer or gives up.
//   - The object of a fill is held until the last caller has left, and no longer.
//   - Run returns. Then no fill runs.
//
// # Invariants
//
// The model allows everything that the code can do. A caller that gives up appears only as "may end now". It leaves
// open how a fill ends. It omits the fairness between clients, what is read of a fill before its end, and records: a
// record that is lost or late costs a request to an origin. The race detector checks the memory model.
//
// # One check
//
// See package allium/internal/testkit/promela. To see the path to a failure:
//
//	spin -DCALLERS=3 -a fills.pml && gcc -o pan pan.c && ./pan -a -N single
//	spin -DCALLERS=3 -t -p -g fills.pml
package model
