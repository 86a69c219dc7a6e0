package api

import (
	"context"
	"io"
	"iter"

	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// Store is the part of the API that needs no network.
type Store interface {
	Reader
	// Add stores a tar stream. Each entry at the top level of the tar yields one
	// Added, in order, once it is durable and, unless o.NoPin is set, pinned. Names in
	// the tar are never used as paths on the node's file system. With o.File, Add may add that file and
	// leave the tar unread.
	Add(ctx context.Context, tar io.Reader, o AddOptions, progress ProgressFunc) iter.Seq2[Added, error]
	// Keep reports for each of 1 to MaxRoots objects whether the store has the whole
	// object. Objects that it has count as used now. A store in RAM returns amnesia,
	// because it keeps nothing for long.
	Keep(ctx context.Context, roots []b3.Root) ([]bool, error)
	// Verify reads objects again and verifies them. An empty key means every object in
	// the store, and every object that pins promise and that is missing. A bad object
	// is a value, not an error. With o.Repair it is fetched again first.
	Verify(ctx context.Context, key string, o VerifyOptions) iter.Seq2[Verified, error]
	// Pin keeps an object in the store, and with o.Recursive everything below it.
	Pin(ctx context.Context, key string, o PinOptions) (Pin, error)
	// Unpin removes the pin with that label (empty: all of the object's pins).
	Unpin(ctx context.Context, key, label string) error
	// GC removes objects that nothing holds: the least recently used ones down to the
	// low-water mark, or with o.All every one. With o.List it calls removed for each;
	// an error of removed ends the collection.
	GC(ctx context.Context, o GCOptions, progress ProgressFunc, removed func(GCObject) error) (GCReport, error)
	// Damage lists the places in the store that recoveries and checks found damaged.
	Damage(ctx context.Context) (DamageReport, error)
	// AcceptDamage ends all open damage and gives up the data that is lost. It returns
	// the damage that it accepted.
	AcceptDamage(ctx context.Context) (DamageReport, error)
	// StatStore says what the store holds, from counters.
	StatStore(ctx context.Context) (StoreStat, error)
	// GCWhy says what keeps an object. The store need not have the object.
	GCWhy(ctx context.Context, key string) (GCWhy, error)
	// Pins yields the pins by address.
	Pins(ctx context.Context) iter.Seq2[Pin, error]
}

var storeVerbs = []*Verb{
	verbVerify.Verb, verbPin.Verb, verbUnpin.Verb, verbPins.Verb, verbGC.Verb, verbGCWhy.Verb, verbDamage.Verb,
	verbAcceptDamage.Verb, verbStatStore.Verb, adminGC.Verb, adminRepair.Verb,
}

type verifyRequest struct {
	Key string `query:"key" doc:"what to verify; empty: every object in the store"`
	VerifyOptions
}

// ReadOnly reports whether the check changes nothing.
func (r *verifyRequest) ReadOnly() bool { return !r.Repair }

// ReadOnly reports whether the collection removes nothing.
func (o *GCOptions) ReadOnly() bool { return o.Dry }

var (
	verbVerify = items(Spec{
		ID: "Verify", Path: "verify", Op: capability.Repair, Tree: true, Manages: true, Slow: true,
		Doc:    "Reads and verifies objects. A bad object is an item, not an error.",
		Answer: "the objects, as they are read",
	}, func(n Node, ctx context.Context, r verifyRequest) iter.Seq2[Verified, error] {
		return n.Verify(ctx, r.Key, r.VerifyOptions)
	})
	verbPin = value(Spec{
		ID: "Pin", Path: "pin/add", Admin: "pin", Op: capability.Pin, Tree: true,
		Doc: "Pins an object.", Answer: "the pin",
	}, func(n Node, ctx context.Context, r PinRequest) (Pin, error) {
		return n.Pin(ctx, r.Key, PinOptions{Recursive: r.Recursive, Label: r.Label, Target: r.Target})
	})
	verbUnpin = value(Spec{
		ID: "Unpin", Path: "pin/rm", Admin: "unpin", Op: capability.Unpin, Manages: true,
		Doc: "Removes the pin with that label, or all pins of the object.", Answer: "done",
	}, func(n Node, ctx context.Context, r UnpinRequest) (none, error) {
		return none{}, n.Unpin(ctx, r.Key, r.Label)
	})
	verbPins = items(Spec{
		ID: "Pins", Path: "pin/ls", Doc: "Lists the pins in the order of their addresses.", Answer: "the pins",
	}, plainItems(Node.Pins))
	verbGC = run(Spec{
		ID: "GC", Path: "gc/run", Op: capability.GC,
		Doc:    "Removes objects that neither a pin nor a running operation needs.",
		Answer: "the removed objects if list is true, progress, and a report",
	}, Node.GC)
	adminGC = value(Spec{
		ID: "AdminGC", Admin: "gc", Op: capability.GC,
		Doc: "Removes objects that neither a pin nor a running operation needs.", Answer: "what was removed",
	}, func(n Node, ctx context.Context, r GCRequest) (GCReport, error) {
		o := GCOptions{All: r.All, Dry: r.Dry, Fast: r.Fast}
		return n.GC(ctx, o, func(Progress) {}, func(GCObject) error { return nil })
	})
	verbGCWhy = value(Spec{
		ID: "GCWhy", Path: "gc/why", Manages: true,
		Doc: "Explains why the store keeps an object.", Answer: "what keeps it",
	}, byKey(Node.GCWhy))
	verbDamage = value(Spec{
		ID: "Damage", Path: "store/damage",
		Doc: "Lists the damage that recoveries and checks found in the store.", Answer: "the damage, oldest first",
	}, plain(Node.Damage))
	verbAcceptDamage = value(Spec{
		ID: "AcceptDamage", Path: "store/damage/accept", Op: capability.Repair,
		Doc:    "Accepts all open damage as lost. Evictions and writes continue then.",
		Answer: "the damage that was open and is accepted now",
	}, plain(Node.AcceptDamage))
	verbStatStore = value(Spec{
		ID: "StatStore", Path: "store", Doc: "Reports what the store holds, from counters.", Answer: "the store",
	}, plain(Node.StatStore))
	adminRepair = value(Spec{
		ID: "AdminRepair", Admin: "repair", Op: capability.Repair, Manages: true,
		Doc:    "Reads and verifies an object or the whole store, and fetches what is damaged or missing.",
		Answer: "what was found and repaired",
	}, func(n Node, ctx context.Context, r RepairRequest) (Repaired, error) { return repair(ctx, n, r) })
)

// repair verifies and repairs objects, and counts them.
func repair(ctx context.Context, n Node, r RepairRequest) (Repaired, error) {
	done := Repaired{Roots: []b3.Root{}}
	for v, err := range n.Verify(ctx, r.Key, VerifyOptions{Repair: true}) {
		if err != nil {
			return done, err
		}
		if v.Again {
			continue
		}
		done.Objects++
		done.Bytes += v.Size
		if v.Repaired {
			done.Repaired++
		}
		if v.Error == nil {
			continue
		}
		if done.Bad++; len(done.Roots) < MaxBadRoots {
			done.Roots = append(done.Roots, v.Root)
		}
	}
	return done, nil
}

// Verify implements Store.
func (r remoteStore) Verify(ctx context.Context, key string, o VerifyOptions) iter.Seq2[Verified, error] {
	return verbVerify.seq(ctx, r.caller, verifyRequest{key, o})
}

// Pin implements Store.
func (r remoteStore) Pin(ctx context.Context, key string, o PinOptions) (Pin, error) {
	return verbPin.send(ctx, r.caller, PinRequest{Key: key, Recursive: o.Recursive, Label: o.Label, Target: o.Target})
}

// Pin keeps an object.
func (a Admin) Pin(ctx context.Context, r PinRequest) (Pin, error) { return verbPin.repeat(ctx, a, r) }

// Unpin implements Store.
func (r remoteStore) Unpin(ctx context.Context, key, label string) error {
	return verbUnpin.do(ctx, r.caller, UnpinRequest{Key: key, Label: label})
}

// Unpin removes an object's pins.
func (a Admin) Unpin(ctx context.Context, r UnpinRequest) error {
	_, err := verbUnpin.repeat(ctx, a, r)
	return err
}

// Pins implements Store.
func (r remoteStore) Pins(ctx context.Context) iter.Seq2[Pin, error] {
	return verbPins.seq(ctx, r.caller, none{})
}

// GC implements Store.
func (r remoteStore) GC(
	ctx context.Context, o GCOptions, progress ProgressFunc, removed func(GCObject) error,
) (GCReport, error) {
	return verbGC.send(ctx, r.caller, o, progress, removed)
}

// GC removes objects that nothing holds, down to the low-water mark or all of them.
func (a Admin) GC(ctx context.Context, r GCRequest) (GCReport, error) {
	return adminGC.repeat(ctx, a, r)
}

// GCWhy implements Store.
func (r remoteStore) GCWhy(ctx context.Context, key string) (GCWhy, error) {
	return verbGCWhy.send(ctx, r.caller, keyRequest{key})
}

// Damage implements Store.
func (r remoteStore) Damage(ctx context.Context) (DamageReport, error) {
	return verbDamage.send(ctx, r.caller, none{})
}

// AcceptDamage implements Store.
func (r remoteStore) AcceptDamage(ctx context.Context) (DamageReport, error) {
	return verbAcceptDamage.send(ctx, r.caller, none{})
}

// StatStore implements Store.
func (r remoteStore) StatStore(ctx context.Context) (StoreStat, error) {
	return verbStatStore.send(ctx, r.caller, none{})
}

// Repair reads objects again and fetches those that are damaged or missing.
func (a Admin) Repair(ctx context.Context, r RepairRequest) (Repaired, error) {
	return adminRepair.repeat(ctx, a, r)
}

// PinRequest is the body of /admin/pin.
type PinRequest struct {
	Key       string  `json:"key" query:"key,required"` // b3:… with or without a path below it
	Recursive bool    `json:"recursive,omitempty" query:"recursive"`
	Label     string  `json:"label,omitempty" query:"label"`
	Target    *Target `json:"target,omitempty"` // the durability that the pin asks for; without it, that stays
}

// UnpinRequest is the body of /admin/unpin.
type UnpinRequest struct {
	Key   string `json:"key" query:"key,required"`      // b3:… with or without a path below it
	Label string `json:"label,omitempty" query:"label"` // empty: all of the object's pins
}

// Subject returns the object and the label.
func (r *PinRequest) Subject() Subject { return Subject{Key: r.Key, Label: &r.Label} }

// Subject returns the object and the label.
func (r *UnpinRequest) Subject() Subject { return Subject{Key: r.Key, Label: &r.Label} }

// ReindexRequest is the body of /admin/reindex.
type ReindexRequest struct {
	Key string `json:"key,omitempty"` // the object to announce again; empty: everything that is pinned
}

// Subject returns the object, if there is one.
func (r *ReindexRequest) Subject() Subject { return Subject{Key: r.Key} }

// Reindexed is the result of /admin/reindex.
type Reindexed struct {
	Objects int64          `json:"objects"`         // that were announced
	Failed  int64          `json:"failed"`          // that nobody took
	Error   *status.Report `json:"error,omitempty"` // of the first that failed
}

// RepairRequest is the body of /admin/repair.
type RepairRequest struct {
	Key string `json:"key,omitempty"` // what is proved; empty: every object in the store
}

// Subject returns the object, if there is one.
func (r *RepairRequest) Subject() Subject { return Subject{Key: r.Key} }

// Repaired is the result of /admin/repair.
type Repaired struct {
	Objects  int64     `json:"objects"`   // that were read again
	Bytes    int64     `json:"bytes"`     // of them
	Repaired int64     `json:"repaired"`  // of them that were damaged or missing and are whole again
	Bad      int64     `json:"bad"`       // of them that could not be mended
	Roots    []b3.Root `json:"bad_roots"` // the first MaxBadRoots of those
}

// MaxBadRoots is the maximum number of addresses that Repaired lists.
const MaxBadRoots = 100

// Stored is an object that was sent, or was there already.
type Stored struct {
	Root   b3.Root `json:"root"`
	Size   int64   `json:"size"` // bytes
	New    bool    `json:"new"`  // it was not there before
	Pinned bool    `json:"pinned"`
}
