// Package model checks the concurrency of sessions with Promela models. spin explores
// every state of them. The package has only tests.
//
// # Models
//
// permits.pml models an admission.Budget and the semaphore below it: goroutines that
// take permits, wait, give up and release.
//
// pipeline.pml models a node with two sessions that peers opened: readers → ingress
// queue → worker → egress frames → writer. GOAWAY is another producer of frames. The
// model includes requests that a full queue drops, streams that fail, peers that send
// nothing, Service.Drain, and the end of Service.Run.
//
// Each model names the Go functions that its processes stand for. Each guard names the
// property that fails without it: TestModels removes the guards one by one.
//
// # Properties
//
//   - No queue exceeds its capacity, and no permit is granted beyond the limit.
//   - A stream has one writer. After the writer ended, no frame is queued unless the
//     peer is informed.
//   - Every accepted request is answered, or its stream is reset, or the stream is
//     closed and the request was never handled, so its caller may send it again.
//   - No request is answered twice. A stream ends once.
//   - Nothing starts after a Drain that left nothing in flight.
//   - Run returns for any behaviour of the peers, after everything that it started.
//
// # Invariants
//
// A model allows everything that the code can do. It may combine several steps of one
// goroutine if no other goroutine can observe the states between. It leaves open what a
// peer sends and whose request a full queue drops.
//
// The models omit HELLO, ACK and credit, byte budgets, rates, fairness between peers,
// the opener of a session, and the frames that drop_oldest drops. Deadlines appear only
// as "may end now". The race detector checks the memory model. Whether libp2p's streams
// behave as documented is not checked.
//
// The tests of protocols/session run the same two scenarios on the Go code, in every
// order of larger steps (internal/testkit).
//
// # One check
//
// The test writes a model to a temporary directory, spin translates it to C, and gcc
// compiles it. The program searches all states for one property at a time, with every
// guard and without each guard. To see the path to a failure:
//
//	spin -DREQUESTS=2 … -a pipeline.pml && gcc -o pan pan.c && ./pan -a -N nothing_lost
//	spin -DREQUESTS=2 … -t -p -g pipeline.pml
package model
