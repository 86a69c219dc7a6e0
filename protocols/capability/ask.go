package capability

import (
	"slices"
	"time"

	"allium/protocols/b3"
)

// Op is what a request does; the caveat "op in …" lists them.
type Op string

// The operations that need a capability.
const (
	Get      Op = "get"      // read an object, where a node's policy asks who does
	Put      Op = "put"      // store an object: PUT and POST /o, uploads, add
	Fetch    Op = "fetch"    // bring an object into the store
	Pin      Op = "pin"      // keep what is stored
	Unpin    Op = "unpin"    // let it go
	GC       Op = "gc"       // collect what nothing keeps
	Repair   Op = "repair"   // verify, and fetch again what is damaged
	Announce Op = "announce" // tell others what is here
	Connect  Op = "connect"  // connections to peers
	Faults   Op = "faults"   // what a node of a testnet does wrong
	Reload   Op = "reload"   // read the node's files again
	Drain    Op = "drain"    // stop the node
)

// Ops are all operations.
func Ops() []Op {
	return []Op{Get, Put, Fetch, Pin, Unpin, GC, Repair, Announce, Connect, Faults, Reload, Drain}
}

// Known reports whether o is one of Ops.
func (o Op) Known() bool { return slices.Contains(Ops(), o) }

// Ask is a request as caveats see it.
type Ask struct {
	Op     Op
	Object b3.Root // zero: it names none, so a caveat on objects refuses it
	Later  bool    // which object shows later, and is asked about again before anything is done to it
	Below  bool    // what the object leads to, too: a caveat on objects must then name it whole
	Name   string  // empty: it names none, so a caveat on names refuses it
	Label  string  // of the pin that it makes or removes; empty: it makes none, or leaves that to the grant
	Method string  // of HTTP, or the operation of an OAP request
	Bytes  int64   // size of what is stored, −1 while it is unknown
	Again  bool    // one more thing that the same request wants: it takes nothing from the rate
}

// Grant is what a verified capability leaves its bearer.
type Grant struct {
	ID       string    // names the capability in logs, with all that was made of it: 32 hex digits
	Branch   string    // names it as it was shown, with all that is made of that: 32 hex digits
	KeyID    uint32    // the root key that it was minted by
	Expires  time.Time // never zero
	MaxBytes int64     // most that this request may store; −1: no bound
	Label    string    // that pins have; empty: any
}
