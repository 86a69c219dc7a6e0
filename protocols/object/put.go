package object

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// PutOptions holds the parameters of a put besides the objects.
type PutOptions struct {
	Capability []byte // a binary macaroon (OAP1.md §7), at most oap.MaxCap bytes
	// Wait, if set, is called before a frame with so many bytes of items is sent, to keep to a rate.
	// Its error ends the put.
	Wait func(ctx context.Context, bytes int) error
	// Repair says that nobody waits for the put: p takes the items at its own rate of repairs, and either
	// side may pause for RepairPause.
	Repair bool
}

// codeRepair is the bit of the code of the frame that begins a put which says [PutOptions.Repair].
const codeRepair = 1

// Put stores an object on p. It returns when the object is durable there; isNew says that p did not have it. Put does
// not send the groups that p has. Put verifies every byte before it sends it, and reports a damaged one with
// obj.Failed. Errors are those of [Client.Get], and what p refuses: unauthenticated, forbidden, busy, quota, denied,
// no_space. After an error a later Put goes on where this one stopped.
func (c *Client) Put(ctx context.Context, p peer.ID, obj b3.Object, o PutOptions) (isNew bool, err error) {
	reader := obj.Reader()
	root, size := reader.Root(), obj.Size()
	if size > MaxObject {
		return false, status.Errorf(status.BadRequest, "%s has %d bytes, more than the protocol allows", root, size)
	}
	ctx, span := c.tracer.Begin(ctx, "put")
	defer func() { span.End(err) }()
	span.Number("allium.bytes", size)
	s := &putOne{obj: obj, reader: reader, size: size}
	w := wirePut{common: newCommon(ctx, opPut), Obj: root, Size: &size}
	if err := c.put(ctx, p, w, o, s); err != nil {
		return false, err
	}
	return s.isNew, nil
}

// SmallObjects are objects of at most one group each, for [Client.PutMany].
type SmallObjects struct {
	Objs  []b3.Root // 1 to MaxPut; with About to MaxTold, of at most MaxToldBytes together
	Sizes []int64   // bytes of each, at most b3.GroupSize
	// About describes the objects to a peer that has announced [oap.FeaturePutCopies], in at most MaxAbout bytes. It
	// may be nil.
	About []byte
	// Reply is called, if About is set, with what the peer says of object i, which is durable there. It does not
	// keep reply.
	Reply func(i int, reply []byte)
	// Open opens object i. PutMany opens one after the other, those that the peer wants, and
	// closes them.
	Open func(ctx context.Context, i int) (b3.Object, error)
}

// PutMany stores small objects on p in one request. It returns the error of each object, nil
// if the object is durable there, when p answered for all of them. An error of Open, or an
// object that is damaged or has another size, ends the put. Otherwise errors are those of
// [Client.Put].
func (c *Client) PutMany(ctx context.Context, p peer.ID, objs SmallObjects, o PutOptions) (_ []error, err error) {
	most := MaxPut
	w := wirePut{Objs: objs.Objs, Sizes: objs.Sizes}
	if objs.About != nil {
		most = MaxTold
		w.Objs, w.Roots, w.About = nil, joined(objs.Objs), rawText.EncodeToString(objs.About)
	}
	switch n := len(objs.Objs); {
	case n == 0 || n > most || len(objs.Sizes) != n:
		return nil, status.Errorf(status.BadRequest, "put of %d objects with %d sizes, want 1 to %d", n,
			len(objs.Sizes), most)
	case slices.Max(objs.Sizes) > b3.GroupSize:
		return nil, status.Errorf(status.BadRequest, "one of the objects has more than %d bytes", b3.GroupSize)
	}
	ctx, span := c.tracer.Begin(ctx, "put")
	defer func() { span.End(err) }()
	span.Number("allium.objects", int64(len(objs.Objs)))
	s := &putMany{SmallObjects: objs}
	w.common = newCommon(ctx, opPut) // of the span
	if err := c.put(ctx, p, w, o, s); err != nil {
		return nil, err
	}
	return s.errs, nil
}

// joined returns the addresses of objects as a put with About has them.
func joined(objs []b3.Root) string {
	p := make([]byte, 0, len(objs)*b3.Size)
	for _, root := range objs {
		p = append(p, root[:]...)
	}
	return rawText.EncodeToString(p)
}

// putter is the part of a put that differs between one object and many.
type putter interface {
	// answered handles a frame of the answer. send reports that the peer now expects items, done
	// that the frame was the last one.
	answered(f oap.Frame) (send, done bool, err error)
	// items sends all items that the peer expects.
	items(ctx context.Context, w *itemWriter) error
}

// put sends a request and runs s on a stream to p.
func (c *Client) put(ctx context.Context, p peer.ID, w wirePut, o PutOptions, s putter) error {
	payload, err := encode(w)
	if err != nil {
		return err
	}
	if len(o.Capability) > oap.MaxCap {
		return status.Errorf(status.FrameOversize, "the capability has %d bytes, at most %d",
			len(o.Capability), oap.MaxCap)
	}
	f := oap.Frame{Header: oap.Header{Flags: oap.FlagReq | oap.FlagStart}, Cap: o.Capability, Payload: payload}
	if o.Repair {
		f.Code = codeRepair
	}
	err = c.ask(ctx, p, opPut, func(st *clientStream) (bool, error) {
		items := &itemWriter{st: st, wait: o.Wait, upload: c.upload, sent: c.metrics.bytesOut.Add}
		return st.put(ctx, c.maxFrame(st.Conn()), f, items, s)
	})
	var own *sinkError
	if errors.As(err, &own) {
		return own.err
	}
	return err
}

// put sends the request in f. It reads the answer, and sends the items beside that as soon
// as the peer expects them: a peer may refuse the put at any time. done reports whether the
// stream can serve another request.
func (c *clientStream) put(
	ctx context.Context, maxFrame uint32, f oap.Frame, w *itemWriter, s putter,
) (done bool, err error) {
	if err := c.begin(ctx, maxFrame, f); err != nil {
		return false, err
	}
	commit := c.cfg.CommitTimeout
	if f.Code == codeRepair {
		commit += c.cfg.RepairPause // p may not have taken the last items yet
		c.setPatience(c.cfg.RepairPause)
		defer c.setPatience(c.cfg.WriteTimeout)
	}
	var sender sync.WaitGroup
	defer sender.Wait()
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var result atomic.Pointer[error] // of the sender; set when it has ended
	begun := false
	for !done && err == nil {
		if f, err = c.next(maxFrame); err != nil {
			break
		}
		var send bool
		if send, done, err = s.answered(f); send {
			begun = true
			c.waitUntil.Store(math.MaxInt64)
			sender.Go(func() {
				err := w.run(sending, maxFrame, s)
				c.waitUntil.Store(time.Now().Add(commit).UnixNano())
				result.Store(&err)
				if err != nil {
					_ = c.ResetWithError(codeCanceled) // wakes the loop above
				}
			})
		}
	}
	if !begun {
		return done, err
	}
	if early := !w.ending.Load(); result.Load() == nil && (early || !done) {
		stop()
		_ = c.ResetWithError(codeCanceled)
		if early && err == nil {
			err = violation("status ok before the last item")
		}
		return false, err
	}
	sender.Wait()
	failed := *result.Load()
	if failed != nil && !done {
		err = failed
	}
	return done && failed == nil, err
}

// putOne is the put of one object.
type putOne struct {
	obj    b3.Object
	reader *b3.Reader
	size   int64

	have  []b3.Range // set when the peer expects items
	begun bool
	isNew bool
}

func (s *putOne) answered(f oap.Frame) (send, done bool, err error) {
	switch f.Flags &^ oap.FlagComp {
	case oap.FlagResp | oap.FlagStart:
		var w wireGroups
		if f.Code != 0 || s.begun {
			return false, false, violation("flags %s, code %d on an answer", f.Flags, f.Code)
		}
		if err := oap.DecodeJSON(f.Payload, &w, false); err != nil {
			return false, false, violation("malformed answer: %w", err)
		}
		s.begun = true
		s.have, err = runsOf(w.Have, s.size)
		return err == nil, false, err
	case oap.FlagResp | oap.FlagEnd:
		if f.Code != codeOf(status.OK) {
			return false, true, putError(f)
		}
		var w wireStored
		if err := oap.DecodeJSON(f.Payload, &w, false); err != nil || w.Stored != s.begun {
			return false, false, violation("malformed answer, stored %t: %w", w.Stored, err)
		}
		s.isNew = w.Stored
		return false, true, nil
	}
	return false, false, violation("flags %s on an answer", f.Flags)
}

func (s *putOne) items(ctx context.Context, w *itemWriter) error {
	proof, err := s.reader.SizeProof()
	if err != nil {
		return &sinkError{err}
	}
	walk, err := s.reader.Walk(missingRuns(s.have, s.size))
	if err != nil {
		return &sinkError{err}
	}
	for more := true; more; {
		var fits bool
		if fits, more, err = w.fill(s.obj, s.reader, proof); err != nil {
			return err
		}
		if !fits {
			return &sinkError{status.Errorf(status.Internal, "a frame of %d bytes does not hold a size proof",
				w.st.cfg.FrameBytes)}
		}
	}
	_, more := walk.Next()
	for {
		if err := w.flush(ctx, !more); err != nil || !more {
			return err
		}
		for fits := true; fits && more; {
			if fits, more, err = w.fill(s.obj, s.reader, walk); err != nil {
				return err
			}
		}
	}
}

// putMany is the put of many small objects.
type putMany struct {
	SmallObjects
	errs   []error // of each object
	wanted []int   // the numbers of the objects that the peer wants; nil before it said so
	ended  int     // those of them that have a status
}

func (s *putMany) answered(f oap.Frame) (send, done bool, err error) {
	flags := f.Flags &^ oap.FlagComp
	end := flags.Has(oap.FlagEnd)
	ok := f.Code == codeOf(status.OK)
	switch {
	case s.wanted != nil && flags&^oap.FlagEnd == oap.FlagResp && f.Code != 0:
		if !ok {
			err = putError(f)
		}
		if last := s.ended == len(s.wanted)-1; end && !last { // what refuses the whole request
			if ok {
				err = violation("status ok ends the answer out of turn")
			}
			return false, !ok, err
		} else if end != last {
			return false, false, violation("object %d of %d ends the answer out of turn", s.ended+1, len(s.wanted))
		}
		if ok && len(f.Payload) > 0 && s.About != nil {
			if len(f.Payload) > MaxReply {
				return false, false, violation("a reply of %d bytes, at most %d", len(f.Payload), MaxReply)
			}
			s.Reply(s.wanted[s.ended], f.Payload)
		}
		s.errs[s.wanted[s.ended]] = err
		s.ended++
		return false, end, nil
	case s.wanted == nil && flags == oap.FlagResp|oap.FlagEnd && !ok:
		return false, true, putError(f)
	case s.wanted == nil && (flags == oap.FlagResp|oap.FlagStart && f.Code == 0 || flags == oap.FlagResp|oap.FlagEnd):
		if err := s.wishes(f.Payload); err != nil {
			return false, false, err
		}
		if end != (len(s.wanted) == 0) {
			return false, false, violation("%d objects are wanted, flags %s", len(s.wanted), f.Flags)
		}
		return !end, end, nil
	}
	return false, false, violation("flags %s, code %d on an answer", f.Flags, f.Code)
}

// wishes takes the peer's wish for each object.
func (s *putMany) wishes(p []byte) error {
	if len(p) != len(s.Objs) {
		return violation("wishes for %d objects, want %d", len(p), len(s.Objs))
	}
	s.errs, s.wanted = make([]error, len(p)), []int{}
	for i, b := range p {
		switch Wish(b) {
		case Wanted:
			s.wanted = append(s.wanted, i)
		case Present:
		case Refused:
			s.errs[i] = status.Errorf(status.NotAllowed, "the peer does not take %s", s.Objs[i])
		default:
			return violation("wish %d", b)
		}
	}
	return nil
}

func (s *putMany) items(ctx context.Context, w *itemWriter) error {
	for _, i := range s.wanted {
		if err := s.item(ctx, w, i); err != nil {
			return err
		}
	}
	return w.flush(ctx, true)
}

// item adds object i to the frame. It sends the frame before if the object does not fit.
func (s *putMany) item(ctx context.Context, w *itemWriter, i int) error {
	obj, err := s.Open(ctx, i)
	if err != nil {
		return &sinkError{err}
	}
	defer obj.Close()
	reader := obj.Reader()
	if reader.Root() != s.Objs[i] || obj.Size() != s.Sizes[i] {
		return &sinkError{status.Errorf(status.Internal, "opened %s of %d bytes in the place of %s of %d bytes",
			reader.Root(), obj.Size(), s.Objs[i], s.Sizes[i])}
	}
	if int(s.Sizes[i]) > w.frame.Available() {
		if err := w.flush(ctx, false); err != nil {
			return err
		}
	}
	walk, err := reader.Walk(nil)
	if err != nil {
		return &sinkError{err}
	}
	_, _, err = w.fill(obj, reader, walk)
	return err
}

// putError returns the error in a status frame of a put. Besides what a peer may report of
// a get it may have no space.
func putError(f oap.Frame) error {
	if f.Code == codeOf(status.NoSpace) {
		return status.Errorf(status.NoSpace, "the peer has no space for it")
	}
	return remoteError(f)
}
