package capability

import (
	"slices"
	"time"

	"allium/protocols/b3"
)

// Op is the operation of a request; the caveat "op in …" lists the allowed ones.
type Op string

// The operations that need a capability.
const (
	Get      Op = "get"      // read an object, if the node's policy requires a token for it
	Put      Op = "put"      // store an object: PUT and POST /o, uploads, add
	Fetch    Op = "fetch"    // fetch an object from peers into the store
	Pin      Op = "pin"      // pin a stored object
	Unpin    Op = "unpin"    // remove a pin
	GC       Op = "gc"       // collect unpinned objects
	Repair   Op = "repair"   // verify objects and fetch damaged ones again
	Announce Op = "announce" // publish which objects the node has
	Publish  Op = "publish"  // publish and withdraw names of own zones
	Connect  Op = "connect"  // connect to peers and disconnect them
	Faults   Op = "faults"   // inject faults into a node of a testnet
	Reload   Op = "reload"   // reload the node's files
	Drain    Op = "drain"    // drain and stop the node
	Profile  Op = "profile"  // collect profiles and execution traces of the process
)

// Replicate is the operation with which the members of a cluster store objects on each
// other. Only a node mints capabilities for it. A capability allows it only if its first
// caveat is "op in replicate", another one names the node that it is for, and it expires
// within [ReplicateLife]. So no token that a person holds opens the cluster, however its
// bearer narrows it.
const Replicate Op = "replicate"

// ReplicateLife is the longest time that a capability for Replicate may still be valid.
const ReplicateLife = 10 * time.Minute

// Ops returns the operations of capabilities that people mint.
func Ops() []Op {
	return []Op{Get, Put, Fetch, Pin, Unpin, GC, Repair, Announce, Publish, Connect, Faults, Reload, Drain, Profile}
}

// Known reports whether o is one of Ops.
func (o Op) Known() bool { return slices.Contains(Ops(), o) }

// Request is a request with the properties that caveats restrict.
type Request struct {
	Op Op
	// Object is the object that the request names. If it is zero, an object caveat
	// rejects the request, unless ObjectLater is set.
	Object b3.Root
	// ObjectLater means that the object is not known yet. The caller verifies again with
	// the object before it does anything to it.
	ObjectLater bool
	// Recursive means that the request also acts on the objects below Object. An object
	// caveat must then name the whole address.
	Recursive bool
	// Name is the name in the request, normalised, with the key of its zone. If it is
	// empty, a name caveat rejects the request, unless NameLater is set.
	Name string
	// NameLater means that the name is not known yet. The caller verifies again with the
	// name before it does anything to it.
	NameLater bool
	// Label is the label of the pin that the request makes or removes. It is empty
	// if the request makes no pin, or if the pin gets the label of the Grant.
	Label  string
	Method string // the HTTP method, or the operation of an OAP request
	Bytes  int64  // bytes that the request stores; −1 while unknown
	// RateTaken means that Verify already allowed another part of the same request. This
	// call takes nothing from the rate.
	RateTaken bool
}

// Grant is the permission that a verified capability gives for one request.
type Grant struct {
	ID       string    // the capability's id in logs: 32 hex digits, shared by all that is attenuated from it
	Branch   string    // the token's branch: 32 hex digits, shared by all that is attenuated from the token
	KeyID    uint32    // number of the root key that minted it
	Expires  time.Time // never zero
	MaxBytes int64     // most bytes that this request may store; −1: no bound
	Label    string    // the label that pins must have; empty: any
}
