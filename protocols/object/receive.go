package object

import (
	"context"
	"encoding/json"
	"time"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// put serves a put (OAP1.md §9). The goroutine that reads the stream waits meanwhile, and
// put reads the frames of items in its place. It returns errors of the stream only.
func (in *served) put(ctx context.Context, req *request) error {
	defer req.intake.Close(ctx)
	frames := in.requests.frames
	in.requests.put = in.out.cfg.ReadTimeout
	if req.repair {
		in.requests.put = in.out.cfg.RepairPause
	}
	frames.SetItems(true)
	frames.SetCheck(continues(req.corr))
	defer func() {
		in.requests.put = 0
		frames.SetItems(false)
		frames.SetCheck(startsRequest)
	}()
	if req.many {
		return in.putMany(ctx, req)
	}
	return in.putOne(ctx, req)
}

// continues returns a check for the headers of the frames that carry the items of a put.
func continues(corr uint64) func(oap.Header) error {
	return func(h oap.Header) error {
		if h.Flags&^oap.FlagEnd != oap.FlagReq || h.Proto != oap.ProtoObject || h.CorrID != corr || h.Code != 0 {
			return oap.Refuse(oap.ReasonBadFlags, "flags %s, app_proto_id %d, corr_id %d, code %d where the items of "+
				"put %d follow",
				h.Flags, h.Proto, h.CorrID, h.Code, corr)
		}
		return nil
	}
}

// putOne stores one object.
func (in *served) putOne(ctx context.Context, req *request) error {
	dst, err := req.intake.Ingest(ctx)
	if err != nil {
		return in.endPut(ctx, req, err)
	}
	if dst == nil {
		return in.answerStored(req, false)
	}
	defer dst.Suspend()
	have := storedRuns(dst, req.sizes[0])
	payload, err := encode(wireGroups{pairs(have)})
	if err != nil {
		return in.endPut(ctx, req, err)
	}
	if err := in.out.frame(respond(req.corr, oap.FlagStart, 0, payload)); err != nil {
		return err
	}
	ended, err := in.receiveObject(ctx, req, dst, missingRuns(have, req.sizes[0]))
	if err == nil {
		err = dst.Commit(ctx)
	}
	if err == nil {
		return in.answerStored(req, true)
	}
	dst.Suspend() // before the peer learns of it and tries again
	return in.failPut(ctx, req, ended, err)
}

// answerStored ends the put of one object that is stored. isNew says that the peer sent it.
func (in *served) answerStored(req *request, isNew bool) error {
	payload, err := json.Marshal(wireStored{isNew})
	if err != nil {
		return &streamError{err: err}
	}
	in.countOutcome(req, status.OK)
	return in.out.frame(respond(req.corr, oap.FlagEnd, codeOf(status.OK), payload))
}

// receiveObject reads the size proof and the missing groups of one object into dst. ended
// reports whether the peer's last frame arrived.
func (in *served) receiveObject(
	ctx context.Context, req *request, dst Ingest, missing []b3.Range,
) (ended bool, err error) {
	proof, err := in.srv.deps.Hash.SizeProof(req.objs[0], req.sizes[0])
	if err != nil {
		return false, err
	}
	walk, err := in.srv.deps.Hash.Walk(req.objs[0], req.sizes[0], missing)
	if err != nil {
		return false, err
	}
	take := func(p b3.Proved) error {
		in.srv.metrics.bytesIn.Add(float64(len(p.Data())))
		return dst.Write(p)
	}
	for step := proof; ; step = walk {
		f, err := in.nextItems(ctx)
		if err != nil {
			return false, err
		}
		ended = f.Flags.Has(oap.FlagEnd)
		if err := acceptItems(step, f.Payload, badPut, take); err != nil {
			return ended, err
		}
		if _, more := proof.Next(); more {
			return ended, badPut("the size proof is not one frame")
		}
		if _, more := walk.Next(); more == ended {
			return ended, badPut("END is not on the last item and only there")
		}
		if err := in.throttle(ctx, req, len(f.Payload)); err != nil {
			return ended, err
		}
		if ended {
			return true, nil
		}
	}
}

// putMany stores many small objects.
func (in *served) putMany(ctx context.Context, req *request) error {
	wishes, err := req.intake.Wishes(ctx)
	if err != nil {
		return in.endPut(ctx, req, err)
	}
	in.scratch = in.scratch[:0]
	var wanted []int
	for i, w := range wishes {
		in.scratch = append(in.scratch, byte(w))
		if w == Wanted {
			wanted = append(wanted, i)
		}
	}
	if len(wanted) == 0 {
		in.countOutcome(req, status.OK)
		return in.out.frame(respond(req.corr, oap.FlagEnd, codeOf(status.OK), in.scratch))
	}
	if err := in.out.frame(respond(req.corr, oap.FlagStart, 0, in.scratch)); err != nil {
		return err
	}
	errs := make([]error, len(wanted))
	if ended, err := in.receiveMany(ctx, req, wanted, errs); err != nil {
		return in.failPut(ctx, req, ended, err)
	}
	var taken []int
	for n, i := range wanted {
		if errs[n] == nil {
			taken = append(taken, i)
		}
	}
	committed, said := req.intake.Commit(ctx, taken)
	replies := make([][]byte, len(wanted))
	for n := range wanted {
		if errs[n] != nil {
			continue
		}
		errs[n], committed = committed[0], committed[1:]
		if len(said) > 0 {
			replies[n], said = said[0], said[1:]
		}
	}
	return in.answerMany(ctx, req, errs, replies)
}

// receiveMany reads the small objects whose numbers wanted has, and sets the error of each in errs. ended reports
// whether the peer's last frame arrived.
func (in *served) receiveMany(
	ctx context.Context, req *request, wanted []int, errs []error,
) (ended bool, err error) {
	for n := 0; !ended; {
		f, err := in.nextItems(ctx)
		if err != nil {
			return false, err
		}
		ended = f.Flags.Has(oap.FlagEnd)
		p, before := f.Payload, n
		for ; n < len(wanted) && req.sizes[wanted[n]] <= int64(len(p)); n++ {
			i := wanted[n]
			walk, err := in.srv.deps.Hash.Walk(req.objs[i], req.sizes[i], nil)
			if err != nil {
				return ended, err
			}
			group := p[:req.sizes[i]:req.sizes[i]]
			p = p[len(group):]
			proved, err := walk.Accept(group)
			if err != nil {
				return ended, err
			}
			in.srv.metrics.bytesIn.Add(float64(len(group)))
			errs[n] = req.intake.Take(ctx, i, proved)
		}
		switch {
		case len(p) > 0:
			return ended, badPut("%d bytes are no whole object", len(p))
		case n == before:
			return ended, badPut("a frame without an item")
		case ended != (n == len(wanted)):
			return ended, badPut("END is not on the last item and only there")
		}
		if err := in.throttle(ctx, req, len(f.Payload)); err != nil {
			return ended, err
		}
	}
	return true, nil
}

// throttle returns when more of a put may be read or made durable, after a frame with n bytes of items.
func (in *served) throttle(ctx context.Context, req *request, n int) error {
	if !req.repair {
		return nil
	}
	return req.intake.Throttle(ctx, n)
}

// answerMany sends the outcome of each small object, and the reply for one that is stored. They travel together, unless
// there is no budget for that.
func (in *served) answerMany(ctx context.Context, req *request, errs []error, replies [][]byte) error {
	_ = in.out.reserve(ctx) // without it each is written by itself
	for n, err := range errs {
		in.logInternal(req, err)
		in.countOutcome(req, status.Of(err))
		code, payload := codeOf(status.OK), replies[n]
		if err != nil {
			code, payload = report(err)
		}
		flags := oap.Flags(0)
		if n == len(errs)-1 {
			flags = oap.FlagEnd
		}
		if err := in.out.frame(respond(req.corr, flags, code, payload)); err != nil {
			return err
		}
	}
	return nil
}

// nextItems reads the next frame with items of a put. It waits for at most ReadTimeout, or
// RepairPause for a repair. An error of the stream, or a frame that does not belong to the put,
// is a *streamError.
func (in *served) nextItems(ctx context.Context) (oap.Frame, error) {
	if err := ctxError(ctx, ctx.Err()); err != nil {
		return oap.Frame{}, err
	}
	in.requests.stream.Rest()
	f, err := in.requests.frames.Next()
	if err != nil {
		return f, &streamError{err: err, reading: true}
	}
	return f, nil
}

// acceptItems verifies the items in p, the payload of a frame, and passes them to take. A
// frame has only whole items, and at least one. bad makes the error for another frame.
func acceptItems(
	walk *b3.Walk, p []byte, bad func(format string, args ...any) error, take func(b3.Proved) error,
) error {
	for first := true; first || len(p) > 0; first = false {
		item, ok := walk.Next()
		if !ok {
			return bad("%d bytes follow the last requested item", len(p))
		}
		if item.Len > len(p) {
			return bad("an item of %d bytes is cut to %d", item.Len, len(p))
		}
		proved, err := walk.Accept(p[:item.Len:item.Len])
		if err != nil {
			return err
		}
		if err := take(proved); err != nil {
			return err
		}
		p = p[item.Len:]
	}
	return nil
}

// badPut returns the error for items that break OAP1.md §9.
func badPut(format string, args ...any) error {
	return status.Errorf(status.BadRequest, format, args...)
}

// failPut answers a put that failed while its items arrived. ended says that the peer's last
// frame did arrive.
func (in *served) failPut(ctx context.Context, req *request, ended bool, err error) error {
	switch {
	case isStreamError(err):
		return err
	case !ended:
		return in.refusePut(ctx, req, err)
	}
	return in.endPut(ctx, req, err)
}

// endPut answers a put with err. The stream goes on.
func (in *served) endPut(ctx context.Context, req *request, err error) error {
	in.logInternal(req, err)
	return in.end(ctx, req, err)
}

// logInternal logs an error that the peer does not learn.
func (in *served) logInternal(req *request, err error) {
	if status.Hidden(err) {
		in.srv.log.Error("cannot store what a peer puts", "objects", len(req.objs), "first", req.objs[0], "err", err)
	}
}

// maxDiscard is the most bytes that refusePut reads. It is what a connection may have in
// flight.
const maxDiscard = 16 << 20

// errPutRefused ends a stream on which a put was refused while its items arrived.
var errPutRefused = status.Errorf(status.Canceled, "the put was refused before its end")

// refusePut answers a put with err before the peer's last frame. It then reads what the
// peer sent before it saw the answer, because a reset could overtake the answer. The stream
// takes no more requests.
func (in *served) refusePut(ctx context.Context, req *request, err error) error {
	if err := in.endPut(ctx, req, err); err != nil {
		return err
	}
	if err := in.st.CloseWrite(); err != nil {
		return &streamError{err: err}
	}
	buf := make([]byte, 16<<10)
	end := time.Now().Add(in.out.cfg.ReadTimeout)
	for left := maxDiscard; left > 0; {
		n, err := in.requests.stream.ReadUntil(buf, time.Now(), end)
		if err != nil {
			break
		}
		left -= n
	}
	return &streamError{err: errPutRefused}
}
