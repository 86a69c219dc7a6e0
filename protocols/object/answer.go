package object

import (
	"bytes"
	"errors"
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// answer verifies the frames of one answer. It does no I/O, so tests can pass it any
// sequence of frames.
type answer interface {
	// frame handles the next frame of the answer. done reports whether it was the
	// last frame. The stream can then serve another request, even if err is not nil.
	// After an error before the last frame, the stream must be reset.
	frame(f oap.Frame) (done bool, err error)
}

// getAnswer is the answer to a get.
//
// Invariants: the sink gets Begin, Item calls and End for one object after the
// other. End follows every Begin that succeeded. If the whole answer is valid, every
// object gets an End.
type getAnswer struct {
	req   *GetRequest
	sink  Sink
	hash  *b3.HashQueue // nil: no limit on hashing
	count func(n int)   // counts n verified bytes

	wait func(n int) error // waits until n bytes may come in; nil: at once

	i     int      // index of the current object
	begun bool     // whether the START of the object was accepted
	size  int64    // the size that START claims, in bytes
	proof *b3.Walk // the walk of the size proof, until it is complete
	walk  *b3.Walk // the walk of the ranges
}

func (a *getAnswer) frame(f oap.Frame) (done bool, err error) {
	switch {
	case f.Flags&^(oap.FlagResp|oap.FlagStart|oap.FlagEnd|oap.FlagComp) != 0:
		err = violation("flags %s on an answer", f.Flags)
	case f.Code != 0 && f.Flags.Has(oap.FlagStart):
		err = violation("a status starts an object")
	case f.Code != 0:
		return a.status(f)
	case f.Flags.Has(oap.FlagEnd):
		err = violation("the answer ends without a status")
	case f.Flags.Has(oap.FlagStart):
		err = a.start(f)
	case f.Flags.Has(oap.FlagComp):
		err = violation("items are compressed")
	case a.begun:
		err = a.items(f.Payload)
	default:
		err = violation("items before their object starts")
	}
	return false, a.endObject(err)
}

// endObject calls End for an object that has begun, with err, and returns err or the
// error of the sink.
func (a *getAnswer) endObject(err error) error {
	if err == nil || !a.begun {
		return err
	}
	a.begun = false
	var own *sinkError
	if errors.As(err, &own) {
		return err
	}
	if serr := a.sink.End(a.i, err); serr != nil {
		return &sinkError{serr}
	}
	return err
}

func (a *getAnswer) start(f oap.Frame) error {
	if a.begun {
		return violation("an object starts inside another")
	}
	var w wireStart
	if err := oap.DecodeJSON(f.Payload, &w, false); err != nil {
		return violation("malformed start of object %d: %w", a.i, err)
	}
	root := a.req.Objs[a.i]
	switch {
	case w.Obj != root:
		return violation("the answer has %s in the place of %s", w.Obj, root)
	case w.Size < 0 || w.Size > MaxObject:
		return violation("%s cannot have %d bytes", root, w.Size)
	case a.req.MaxSize > 0 && w.Size > a.req.MaxSize:
		return status.Errorf(status.BodyCap, "the peer says that %s has %d bytes, more than the limit of %d",
			root, w.Size, a.req.MaxSize)
	}
	var err error
	if a.walk, err = a.hash.Walk(root, w.Size, a.req.Ranges); err != nil {
		return err
	}
	a.size, a.proof = w.Size, nil
	if a.req.SizeProof {
		if a.proof, err = a.hash.SizeProof(root, w.Size); err != nil {
			return err
		}
	}
	if err := a.sink.Begin(a.i, w.Size); err != nil {
		return &sinkError{err}
	}
	a.begun = true
	return nil
}

// items verifies the items in a frame; a frame has only whole items.
func (a *getAnswer) items(p []byte) error {
	if a.wait != nil {
		if err := a.wait(len(p)); err != nil {
			return &sinkError{err}
		}
	}
	walk := a.walk
	if a.proof != nil {
		walk = a.proof
	}
	err := acceptItems(walk, p, violation, func(proved b3.Proved) error {
		a.count(len(proved.Data()))
		if err := a.sink.Item(a.i, proved); err != nil {
			return &sinkError{err}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if a.proof != nil {
		if _, more := a.proof.Next(); more {
			return violation("the size proof is not one frame")
		}
		a.proof = nil
	}
	return nil
}

// status handles a status frame. It ends the object, and for some outcomes the
// whole request.
func (a *getAnswer) status(f oap.Frame) (done bool, err error) {
	end, last := f.Flags.Has(oap.FlagEnd), a.i == len(a.req.Objs)-1
	if f.Code == codeOf(status.OK) {
		if err := a.complete(f, end == last); err != nil {
			return false, a.endObject(err)
		}
	} else {
		err = remoteError(f)
		switch o := status.Of(err); {
		case end && ofRequest(o):
			return true, a.endObject(err)
		case end != last || ofRequest(o):
			return false, a.endObject(violation("object %d of %d ends the answer out of turn: %w",
				a.i+1, len(a.req.Objs), err))
		}
	}
	i := a.i
	a.i, a.begun, a.walk, a.proof = i+1, false, nil, nil
	if err := a.sink.End(i, err); err != nil {
		return end, &sinkError{err}
	}
	return end, nil
}

// complete checks that the object with status ok is complete. inTurn says whether
// END is set on the last object and only there.
func (a *getAnswer) complete(f oap.Frame, inTurn bool) error {
	switch {
	case !a.begun:
		return violation("status ok for an object that never started")
	case !inTurn:
		return violation("object %d of %d ends the answer out of turn", a.i+1, len(a.req.Objs))
	case len(f.Payload) > 0:
		return violation("status ok with a payload")
	}
	if err := a.acceptEmpty(); err != nil {
		return err
	}
	if a.proof != nil {
		return violation("status ok without the size proof")
	}
	if item, more := a.walk.Next(); more {
		return violation("status ok, but %s and the items after it are missing", item)
	}
	return nil
}

// acceptEmpty accepts the one group of the empty object, which a peer may send without a
// frame (OAP1.md §13.5).
func (a *getAnswer) acceptEmpty() error {
	for a.size == 0 {
		walk := a.walk
		if a.proof != nil {
			walk = a.proof
		}
		if _, more := walk.Next(); !more {
			return nil
		}
		if err := a.items(nil); err != nil {
			return err
		}
	}
	return nil
}

// haveAnswer is the answer to a have.
type haveAnswer struct {
	present []b3.Presence // set by frame
	groups  []byte        // set by frame: bits of the groups of one object that the peer has in part
	most    int           // bytes of groups that were asked for
}

func (a *haveAnswer) frame(f oap.Frame) (done bool, err error) {
	const must = oap.FlagResp | oap.FlagEnd
	switch {
	case f.Flags&^(oap.FlagStart|oap.FlagComp) != must:
		return false, violation("flags %s on an answer", f.Flags)
	case f.Code != codeOf(status.OK):
		return true, remoteError(f)
	case len(f.Payload) < len(a.present), len(f.Payload) > len(a.present)+a.most:
		return false, violation("presence of %d objects, want %d", len(f.Payload), len(a.present))
	}
	present, groups := f.Payload[:len(a.present)], f.Payload[len(a.present):]
	a.groups = bytes.Clone(groups)
	for i, b := range present {
		if a.present[i] = b3.Presence(b); a.present[i] > b3.Partial {
			return false, violation("presence %d", b)
		}
	}
	return true, nil
}

// violation returns the error for an answer that breaks OAP1.md §9.
func violation(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return status.Errorf(status.Upstream, "the peer broke the protocol: %w", err)
}

// sinkError is an error of the caller's Sink. Get returns it unchanged.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }
func (e *sinkError) Unwrap() error { return e.err }
