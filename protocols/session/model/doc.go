// Package model checks the concurrency of sessions: Promela models of it, which
// spin explores state by state. It holds tests only.
//
// The models. permits.pml is an admission.Budget and the semaphore below it:
// takers that wait, give up and give back. pipeline.pml is a node with two
// sessions that peers opened: readers → ingress queue → worker → egress frames
// → writer, with GOAWAY as another producer of frames, requests shed from a
// full queue, streams that fail and peers that say nothing, and the end of it
// all: Service.Drain, then the end of Service.Run. Each names the Go functions
// that its processes stand for, and each of its guards names the property that
// fails without it: TestModels takes the guards away one by one.
//
// The properties: no queue above its capacity and no permit too many; one
// writer; no frame queued after the writer's end unless the peer is told; what
// was admitted is answered, or the stream is reset, or it is closed and the
// request was never handled, so that its caller may send it again; no answer
// twice; a stream ends once; nothing begins after a Drain that left nothing;
// Run returns whatever peers do, and after everything that it started.
//
// Invariants: a model never does less than the code may do. Where it is
// coarser (several steps of one goroutine as one) nobody can look in between;
// where it is vague (what a peer sends, whom a full queue sheds) it allows
// everything.
//
// What is not modelled: HELLO, ACK and credit, byte budgets, rates, deadlines
// other than as "may end now", fairness between lanes, the side of a session
// that asks, what drop_oldest drops from the egress, memory models (the race
// detector has those), and whether libp2p's streams do what they say.
//
// The tests of protocols/session run the same two scenarios over the Go code
// itself, in every order of fewer and larger steps (internal/testkit).
//
// One check, walked through: the test writes a model to a temporary directory,
// spin turns it into a C program, gcc compiles it, and the program searches all
// states for one property at a time, with every guard and without each. To see the path to a failure: spin
// -DREQUESTS=2 … -a pipeline.pml && gcc -o pan pan.c && ./pan -a -N
// nothing_lost && spin -DREQUESTS=2 … -t -p -g pipeline.pml.
package model
